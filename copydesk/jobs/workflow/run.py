"""The durable steps of a run, in order: pin ▶ turns ▶ check ▶ commit ▶ push ▶ open. Each step may be repeated."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.core.telemetry import instruments, traces
from copydesk.jobs.agent.budget import Budget
from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.instruction_files import find_instruction_files
from copydesk.jobs.agent.loop import AgentLoop, StartingCommits
from copydesk.jobs.agent.mechanic import NOT_UNDERSTOOD_TITLE, Mechanic
from copydesk.jobs.agent.tools import CheckTools, Finished, Question
from copydesk.jobs.agent.tools.declarations import read_declarations
from copydesk.jobs.checks import CheckReport
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.job import (
    COMPLETED,
    Job,
    JobFailed,
    JobOutcome,
    JobQuestion,
    JobSecondLook,
    Phase,
    Reason,
    RepositoryFailed,
    job_page_url,
)
from copydesk.jobs.publish.errors import RepositoryAccessDenied, RepositoryUnavailable
from copydesk.jobs.publish.forge_retry import retry_while_unavailable
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.pull_requests import reopen_before_push
from copydesk.jobs.publish.git.commit import CommitResult, Publisher
from copydesk.jobs.publish.git.commit_signature import load_commit_signer
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.publish.guard import publish_guard
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets
from copydesk.jobs.publish.messages import build_commit_message
from copydesk.jobs.publish.pull_body import PullRequestReport, Round, render_pull_body
from copydesk.jobs.publish.repository_access import list_known_secrets, plan_commit
from copydesk.jobs.sandbox.sandbox import Sandbox, SandboxUnavailable
from copydesk.jobs.storage.records import EventKind, NewEvent
from copydesk.jobs.workflow.finish_review import FinishReview, describe_reformatting
from copydesk.jobs.workflow.folder_requests import refuse_missing_folder
from copydesk.jobs.workflow.isolation.child_pool import ChildPool
from copydesk.jobs.workflow.isolation.isolated_work import IsolatedMechanic, IsolatedWork
from copydesk.jobs.workflow.isolation.tasks import ChangeNotes
from copydesk.jobs.workflow.open_pull_request import (
    OpenedPullRequest,
    PullRequestOpener,
    build_whole_change,
    describe_outcome,
    list_earlier_openings,
    list_rounds,
    merge_unsure_points,
)
from copydesk.jobs.workflow.questions import comment_question, redact_question
from copydesk.jobs.workflow.review import Reviewer, ReviewResult
from copydesk.jobs.workflow.second_look import build_second_look, summarize_look
from copydesk.jobs.workflow.work_description import describe_published_work
from copydesk.jobs.workspace.git_tree import Tree, write_changed_tree
from copydesk.jobs.workspace.patches import diff_trees
from copydesk.jobs.workspace.repository_limits import RepositoryLimits
from copydesk.jobs.workspace.workspace import Workspace

T = TypeVar("T")


@dataclass(frozen=True)
class RunWorkflow:
    """Executes the steps of a run within one attempt. `forge` is None for the local forge."""

    settings: Settings
    journal: Journal
    attempt: Attempt
    job: Job
    project: Project
    secrets: Mapping[str, str] = field(repr=False)
    forge: Forge | None
    model: Callable[[], Model]
    review_model: Callable[[str], Model]
    sandbox: Callable[[], Sandbox | SandboxUnavailable]
    children: ChildPool

    def execute(self) -> JobOutcome:
        pinned = self._pin_commits()
        self._with_retries(
            lambda: self.mirror.ensure_commit(pinned.start, self.job.branch if pinned.head else self.job.ref)
        )
        workspace = Workspace(self.mirror.tree(pinned.start), self._refuse_protected_path, self.project.root)
        self._refuse_missing_folder(workspace)
        reviewer = Reviewer(
            self.project,
            self.mirror.tree(pinned.base),
            self._check_workspace,
            self.sandbox,
            self.attempt.stoppable,
            self.settings.check_tools,
        )

        may_advise = self.job.model != "mechanic"
        finish_review = FinishReview(reviewer, self.isolated, self._check_publishable, may_advise)
        with traces.start_span("edit"):
            agent_loop = self._build_agent_loop(reviewer, finish_review)
            ending = agent_loop.run(workspace)
        if isinstance(ending, Question):
            return self._ask(ending)
        finished = ending
        if not workspace.changes() and not self._has_unproposed_work(pinned):
            # Keeps the title for a follow-up that changes something: this one says that nothing changed.
            self.journal.save_job_values(summary=finished.summary)
            reason = Reason.NOT_UNDERSTOOD if finished.title == NOT_UNDERSTOOD_TITLE else Reason.NO_CHANGES
            return JobOutcome(COMPLETED, reason, finished.summary or "No changes were needed.")
        conversation = agent_loop.conversation
        second_look = summarize_look(
            agent_loop.look,
            self.project.policy.review_model,
            workspace,
            finished.intended_reasons,
            list_known_secrets(self.project, self.secrets),
        )
        finished = describe_published_work(self.journal, finished)
        review = self._run_checks(workspace, reviewer, finished.intended_reasons)

        with _publish_span():
            self.journal.enter_phase(Phase.PUBLISHING)
            reasons = (*finished.intended_reasons.values(), *read_declarations(conversation).reformats.values())
            texts = (self.job.title or "", finished.title, finished.summary, finished.unsure, *reasons)
            self._check_publishable(workspace, texts)
            publisher = self._build_publisher(pinned, workspace, finished)
            committed = self.journal.run_step("commit", CommitResult, lambda: self._with_retries(publisher.commit))
            whole_change = build_whole_change(workspace, reviewer.origin)
            change_notes = self.isolated.describe_change(whole_change)
            self._push_commit(publisher, committed, pinned)
            reformatted = describe_reformatting(finish_review.find_overreach(whole_change, conversation))
            pull_request = self._open_pull_request(
                pinned, whole_change, finished, review, committed, change_notes, reformatted, second_look
            )
        return JobOutcome(COMPLETED, message=describe_outcome(pull_request, committed, review, change_notes))

    @cached_property
    def mirror(self) -> Mirror:
        token = self.forge.git_token if self.forge else self.secrets.get("forge_token")
        limits = RepositoryLimits.from_settings(self.settings)
        return Mirror.for_project(
            self.settings.mirrors_folder,
            self.project,
            token,
            self.attempt.stoppable,
            limits,
            load_commit_signer(self.secrets),
        )

    @cached_property
    def isolated(self) -> IsolatedWork:
        """Returns an object that reads untrusted text in child processes, which end when this attempt is stopped."""
        return IsolatedWork(self.children, self.attempt.stoppable, self.project.policy.unprotected_paths)

    def _check_workspace(
        self, workspace: Workspace, origin: Tree, required_fields: Sequence[str], ignored_checks: Sequence[str]
    ) -> CheckReport:
        with self.journal.database.read() as tx:
            request = "\n".join(self.journal.read_all_prompts(tx))
        return self.isolated.check_workspace(workspace, origin, required_fields, ignored_checks, request)

    def _read_prompts(self) -> Sequence[str]:
        """Returns the prompts of this run so far."""
        with self.journal.database.read() as tx:
            return self.journal.read_prompts(tx)

    def _pin_commits(self) -> StartingCommits:
        with self.journal.step("pin", StartingCommits) as step:
            if not step.is_done:
                pinned = self._with_retries(self._find_start)
                step.save(pinned, job={"base": pinned.base})
        return step.result

    def _find_start(self) -> StartingCommits:
        """Returns the commits to start from. A follow-up continues on the branch, with the commits of other people."""
        planned = plan_commit(self.project, self.secrets)
        if self.forge is not None and (problems := self.forge.find_access_problems(self.job.branch, planned)):
            raise RepositoryFailed(" ".join(problems))  # before a model is paid for work that cannot be published
        newest = self.mirror.fetch_head(self.job.ref)
        base = self.job.base
        head = self.mirror.find_head(self.job.branch) if self.attempt.claim.run_number > 1 else None
        return StartingCommits(base=base if base and self.mirror.has_commit(base) else newest, head=head)

    def _has_unproposed_work(self, pinned: StartingCommits) -> bool:
        """Returns whether the branch has work of an earlier run that failed to open or update the pull request."""
        if pinned.head is None or self.job.pr_link is None:
            return pinned.head is not None
        last_publishing_run = next(
            (run for run in reversed(self.journal.list_earlier_runs()) if run.results.keys() & {"push", "open"}), None
        )
        return last_publishing_run is not None and "open" not in last_publishing_run.results

    def _build_agent_loop(self, reviewer: Reviewer, finish_review: FinishReview) -> AgentLoop:
        if not self.journal.has_result("turn-1-reply"):
            self.journal.enter_phase(Phase.THINKING)
        model = self.model()
        has_command = self.project.policy.check_command is not None
        return AgentLoop(
            IsolatedMechanic(self.isolated) if isinstance(model, Mechanic) else model,
            self.journal,
            self.attempt,
            Budget.from_settings(self.settings),
            reviewer.origin,
            root=self.project.root,
            checks=CheckTools(reviewer.describe_for_model, reviewer.run_command_for_model if has_command else None),
            review=finish_review.review,
            describe_repository=self.isolated.describe_repository,
            run_tool=self.isolated.run_tool,
            second_look=build_second_look(
                self.project.policy.review_model, self.review_model, self.attempt, reviewer, self._read_prompts
            ),
            may_send_back=finish_review.may_advise,
        )

    def _ask(self, question: Question) -> JobOutcome:
        """Ends the run with a question. Edits stay in the journal, so that the follow-up continues from them."""
        with self.journal.step("ask", JobQuestion) as step:
            if not step.is_done:
                asked = redact_question(question, list_known_secrets(self.project, self.secrets))
                self._check_still_active()
                if self.forge is not None and self.job.pr_link is not None:
                    comment_question(self.forge, self.job.pr_link, asked, self.attempt.claim)
                step.save(asked, job={"question": asked.model_dump()})
        return JobOutcome(COMPLETED, Reason.QUESTION, step.result.text)

    def _run_checks(self, workspace: Workspace, reviewer: Reviewer, intended: Mapping[str, str]) -> ReviewResult:
        if not self.journal.has_result("check"):
            self.journal.enter_phase(Phase.CHECKING)
        with self.journal.step("check", ReviewResult) as step:
            if not step.is_done:
                review = reviewer.review(workspace, intended)
                result = {
                    "passed": not review.findings,
                    "faults": review.findings[:20],
                    "notJudged": review.unjudged_rules,
                }
                step.save(review, events=[NewEvent(EventKind.CHECKED, result)], job={"checks": review.checks})
        review = step.result
        if review.findings and self.project.policy.on_check_failure == "fail":
            count = f"{len(review.findings)} problem{'' if len(review.findings) == 1 else 's'}"
            raise JobFailed(
                f"The checks found {count} in the change. The first one: {review.findings[0]}", Reason.CHECKS_FAILED
            )
        return review

    def _refuse_missing_folder(self, workspace: Workspace) -> None:
        with self.journal.database.read() as tx:
            prompts = self.journal.read_all_prompts(tx)
        refuse_missing_folder(workspace, prompts, self.job.ref)

    def _refuse_protected_path(self, path: str) -> None:
        publish_guard.refuse_protected(path, self.project.policy.unprotected_paths, self.project.root)

    def _check_publishable(self, workspace: Workspace, texts: Sequence[str] = ()) -> None:
        self.isolated.check_publishable(
            workspace, list_known_secrets(self.project, self.secrets), texts, self._read_prompts()
        )

    def _build_publisher(self, pinned: StartingCommits, workspace: Workspace, finished: Finished) -> Publisher:
        title = finished.title if pinned.head else self.job.title or finished.title
        return Publisher(
            job=self.job,
            policy=self.project.policy,
            mirror=self.mirror,
            start_commit=pinned.start,
            on_own_branch=pinned.head is not None,
            changes=workspace.changes(),
            message=build_commit_message(self.job, self.project.policy, title, finished.summary),
            authored_at=self.attempt.claim.created_at,
        )

    def _push_commit(self, publisher: Publisher, committed: CommitResult, pinned: StartingCommits) -> None:
        def push() -> None:
            publisher.recreate_if_missing(committed)
            self._check_still_active()
            if pinned.head not in (None, committed.commit):  # the push updates an existing branch
                self._reopen_before_push()
            self.mirror.push(committed.commit, self.job.branch, expected=pinned.head)

        with self.journal.step("push", str) as step:
            if not step.is_done:
                self._with_retries(push)
                pushed = NewEvent(EventKind.PUSHED, {"branch": self.job.branch, "commit": committed.commit})
                step.save(committed.commit, events=[pushed])

    def _reopen_before_push(self) -> None:
        if self.forge is not None and self.job.pr_link is not None:
            requested_at = self.attempt.claim.created_at
            reopen_before_push(self.forge, self.job.pr_link, self.job.branch, requested_at, self._check_still_active)

    def _open_pull_request(
        self,
        pinned: StartingCommits,
        whole_change: Workspace,
        finished: Finished,
        review: ReviewResult,
        committed: CommitResult,
        change_notes: ChangeNotes,
        reformatted: Sequence[str],
        second_look: JobSecondLook | None,
    ) -> OpenedPullRequest:
        tree = whole_change.tree
        secret_values = list_known_secrets(self.project, self.secrets)
        latest = Round(
            summary=finished.summary,
            prompts=[redact_secrets(prompt, secret_values) for prompt in self._read_prompts()],
            base_note=committed.note,
        )
        openings = list_earlier_openings(self.journal)
        unsure = merge_unsure_points(openings, latest, finished.unsure_points)
        report = PullRequestReport(
            rounds=list_rounds(openings, latest),
            unsure=unsure,
            files=diff_trees(tree.repository, tree.root, write_changed_tree(tree, whole_change.changes())),
            checks=review.summary_lines,
            findings=review.findings,
            fixed=review.fixed,
            reformatted=reformatted,
            intended=review.intended,
            second_look=second_look,
            new_addresses=change_notes.new_addresses,
            vanished_addresses=change_notes.vanished_addresses,
            instruction_files=self._list_instruction_files(pinned),
            executed_files=change_notes.executed_files,
            external_urls=change_notes.external_addresses,
            usage=self.journal.load_job().usage,
        )
        opener = PullRequestOpener(
            job=self.job,
            project=self.project,
            title=self.job.title or finished.title,
            summary=finished.summary,
            text=render_pull_body(self.job, report, job_page_url(self.settings.base_url, self.job)),
            round=latest,
            draft=self.job.draft or bool(review.findings) or bool(change_notes.executed_files),
            base=pinned.base if pinned.head else committed.onto,
            head=committed.commit,
            unsure=unsure,
            second_look=second_look,
        )
        if self.forge is None:
            return opener.open_locally(self.journal, self.settings.base_url)
        asked_at = self.attempt.claim.created_at
        deadline = self.attempt.deadline
        return opener.open_on_forge(self.journal, self.forge, asked_at, self._check_still_active, self._pause, deadline)

    def _list_instruction_files(self, pinned: StartingCommits) -> list[str]:
        """Returns the instruction files that the model read; none for the mechanic, which reads none."""
        if self.job.model == "mechanic":
            return []
        return find_instruction_files((path for path, _ in self.mirror.tree(pinned.base).files()), self.project.root)

    def _check_still_active(self) -> None:
        """Raises AttemptStopped or LeaseLost unless this attempt still owns the run.

        Called right before a change outside the database."""
        self.attempt.raise_if_stopped()
        self.journal.check_lease()

    def _with_retries(self, action: Callable[[], T]) -> T:
        """Runs an action, with retries while the repository is unavailable.

        Does not retry for a repository without a forge that was never fetched before: it may not exist."""
        if self.forge is None and self.mirror.is_new:
            return action()
        return retry_while_unavailable(lambda: self._tolerate_new_token(action), self._pause, self.attempt.deadline)

    def _tolerate_new_token(self, action: Callable[[], T]) -> T:
        """Runs an action. Raises RepositoryUnavailable if the host of git does not know a new token yet."""
        try:
            return action()
        except RepositoryAccessDenied as denial:
            if self.forge is None or not self.forge.is_token_new():
                raise
            raise RepositoryUnavailable(str(denial)) from None

    def _pause(self, seconds: float, reason: str) -> None:
        self.journal.record_event(NewEvent(EventKind.WAITING, {"seconds": round(seconds), "why": reason}))
        self.attempt.pause(seconds)


@contextmanager
def _publish_span() -> Iterator[None]:
    with traces.start_span("publish"):
        try:
            yield
        except JobFailed as failure:
            instruments.publish_failures.add(failure.reason)
            raise
