"""The durable steps of a run, in order: pin ▶ turns ▶ check ▶ risk ▶ commit ▶ push ▶ open. Each may be repeated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.core.telemetry import traces
from copydesk.core.text.plurals import pluralize
from copydesk.core.text.quoted_text import remove_quoted_lines
from copydesk.jobs.agent.budget import Budget
from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.loop import OPENING_STEP, AgentLoop
from copydesk.jobs.agent.mechanic import NOT_UNDERSTOOD_TITLE, Mechanic
from copydesk.jobs.agent.overview.context_overview import PinnedContext, render_context_overview
from copydesk.jobs.agent.overview.instruction_files import find_instruction_files
from copydesk.jobs.agent.overview.repository_overview import read_pull_template
from copydesk.jobs.agent.starting_point import Opening, StartingPoint, render_opening
from copydesk.jobs.agent.tools import CheckTools, Finished, Question
from copydesk.jobs.agent.tools.declarations import read_declarations
from copydesk.jobs.checks import CheckReport
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.journal import Journal, MessageText
from copydesk.jobs.job import (
    COMPLETED,
    Job,
    JobFailed,
    JobOutcome,
    Phase,
    Reason,
    RepositoryFailed,
    job_page_url,
)
from copydesk.jobs.projects.context_mirrors import ContextAccess
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.forges.pull_requests import reopen_before_push
from copydesk.jobs.publish.git.commit import CommitResult, Publisher, describe_conflict
from copydesk.jobs.publish.git.commit_signature import load_commit_signer
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.publish.guard import publish_guard
from copydesk.jobs.publish.messages import build_commit_message
from copydesk.jobs.publish.pull_body import PullRequestReport, render_pull_body
from copydesk.jobs.publish.repository_access import list_known_secrets, plan_commit
from copydesk.jobs.risk import Risk, needs_draft
from copydesk.jobs.sandbox.sandbox import Sandbox, SandboxUnavailable
from copydesk.jobs.storage.lookups.page_jobs import list_planned_paths
from copydesk.jobs.storage.records import EventKind, NewEvent
from copydesk.jobs.workflow.context_reader import ContextReader
from copydesk.jobs.workflow.finish_review import FinishReview, describe_reformatting
from copydesk.jobs.workflow.folder_requests import refuse_missing_folder
from copydesk.jobs.workflow.isolation.child_pool import ChildPool
from copydesk.jobs.workflow.isolation.isolated_work import IsolatedMechanic, IsolatedWork
from copydesk.jobs.workflow.publication.announcement import RunAnnouncement
from copydesk.jobs.workflow.publication.author_reviews import AuthorReviews, FindContext
from copydesk.jobs.workflow.publication.direct_merge import DirectMerge, ProposedMerge, diff_workspace
from copydesk.jobs.workflow.publication.evidence_record import record_evidence
from copydesk.jobs.workflow.publication.open_pull_request import (
    OpenedPullRequest,
    PullRequestOpener,
    build_whole_change,
    describe_outcome,
    list_earlier_openings,
    list_rounds,
)
from copydesk.jobs.workflow.publication.publish_span import start_publish_span
from copydesk.jobs.workflow.publication.risk_summary import JudgedChange, merge_unsure_points, record_risks
from copydesk.jobs.workflow.publication.rounds import build_round, read_closed_issues, read_requesters
from copydesk.jobs.workflow.publication.work_description import describe_published_work, has_unproposed_work
from copydesk.jobs.workflow.questions import ask_question
from copydesk.jobs.workflow.repository_retries import RepositoryRetries
from copydesk.jobs.workflow.review import Reviewer, ReviewResult
from copydesk.jobs.workflow.run_handover import MoveAutomationRuns, RunHandover
from copydesk.jobs.workflow.second_look import build_second_look, summarize_look
from copydesk.jobs.workflow.start_finder import StartFinder, apply_splices
from copydesk.jobs.workspace.git_tree import Tree
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
    contexts: Sequence[ContextAccess] = ()
    find_context: FindContext = lambda name: None
    move_automation_runs: MoveAutomationRuns = lambda tx, job_id, message_ids, new_job_id: None

    def execute(self) -> JobOutcome:
        pinned = self._pin_commits()
        contexts = self._context_reader.pin()
        if pinned.has_conflict and pinned.begins_anew:
            return self._run_handover.hand_over()
        self._retries.run(lambda: self._start_finder.restore(pinned))
        workspace = Workspace(
            self.mirror.tree(pinned.start),
            self._refuse_protected_path,
            self.project.root,
            self._context_reader.open_trees(contexts),
        )
        apply_splices(pinned.carried, workspace)
        self._refuse_missing_folder(workspace)
        reviewer = Reviewer(
            self.project,
            self.mirror.tree(pinned.base),
            self._check_workspace,
            self.sandbox,
            self.attempt.stoppable,
            self.settings.check_tools,
            lambda: list_planned_paths(self.journal.database, self.project.id, self.job.id),
        )

        may_advise = self.job.model != "mechanic"
        finish_review = FinishReview(reviewer, self.isolated, self._check_publishable, may_advise)
        with traces.start_span("edit"):
            opening = self._open_conversation(pinned, workspace)
            agent_loop = self._build_agent_loop(reviewer, finish_review, contexts, opening)
            ending = agent_loop.run(workspace)
        if isinstance(ending, Question):
            return self._ask(ending)
        finished = ending
        if not workspace.changes() and not has_unproposed_work(self.journal, self.job, pinned.head):
            return self._end_without_changes(pinned, finished)
        conversation = agent_loop.whole_conversation
        answers = finished.intended_reasons
        finished = describe_published_work(self.journal, finished)
        review = self._run_checks(workspace, reviewer, finished.intended_reasons)
        second_look = summarize_look(
            agent_loop.look,
            self.project.policy.review_model,
            workspace,
            answers,
            review.finding_ids,
            list_known_secrets(self.project, self.secrets),
            earlier=self.job.second_look,
        )

        with start_publish_span():
            self.journal.enter_phase(Phase.PUBLISHING)
            job, project = self.job, self.project
            known_secrets = list_known_secrets(project, self.secrets)
            evidence = record_evidence(
                self.journal, self.isolated, job, project, contexts, workspace, finished, known_secrets
            )
            reasons = (*finished.intended_reasons.values(), *read_declarations(conversation).reformats.values())
            statements = [each.statement for each in finished.evidence]
            texts = (self.job.title or "", finished.title, finished.summary, finished.unsure, *reasons, *statements)
            self._check_publishable(workspace, texts)
            whole_change = build_whole_change(workspace, reviewer.origin)
            change_notes = self.isolated.describe_change(whole_change)
            files = diff_workspace(whole_change)
            may_cite = bool(contexts) and job.model != "mechanic"
            prompts = [message.prompt for message in self._read_messages()]
            unsure = merge_unsure_points(job.risk, prompts, finished.unsure_points)
            judged = JudgedChange(files, review, change_notes, evidence, second_look, unsure, may_cite)
            risks = record_risks(self.journal, judged)
            publisher = self._build_publisher(pinned, workspace, finished)
            committed = self.journal.run_step("commit", CommitResult, lambda: self._retries.run(publisher.commit))
            proposed = ProposedMerge(files, risks, change_notes.external_addresses, pinned.head is not None)
            merged = (
                self._direct_merge.merge(publisher, committed, proposed, finished) if self.job.merge_limits else None
            )
            if merged is not None and merged.obstacle is None:
                return JobOutcome(COMPLETED, message=f"Pushed to {self.job.ref} as {committed.commit[:12]}.")
            self._push_commit(publisher, committed, pinned)
            reformatted = describe_reformatting(finish_review.find_overreach(whole_change, conversation))
            pull_request = self._open_pull_request(pinned, judged, risks, finished, committed, reformatted)
        outcome_text = describe_outcome(pull_request, committed, risks, merged)
        return JobOutcome(COMPLETED, message=outcome_text)

    @cached_property
    def mirror(self) -> Mirror:
        token = self.forge.git_token if self.forge else self.secrets.get("forge_token")
        return Mirror.for_project(
            self.settings.mirrors_folder,
            self.project,
            token,
            self.attempt.stoppable,
            self._limits,
            load_commit_signer(self.secrets),
        )

    @cached_property
    def isolated(self) -> IsolatedWork:
        """Returns an object that reads untrusted text in child processes, which end when this attempt is stopped."""
        return IsolatedWork(self.children, self.attempt.stoppable, self.project.policy.unprotected_paths)

    def _check_workspace(
        self, workspace: Workspace, origin: Tree, required_fields: Sequence[str], ignored_checks: Sequence[str]
    ) -> CheckReport:
        request = "\n".join(remove_quoted_lines(prompt) for prompt in self._read_all_prompts())
        return self.isolated.check_workspace(workspace, origin, required_fields, ignored_checks, request)

    def _read_messages(self) -> Sequence[MessageText]:
        """Returns the messages that this run has read so far."""
        with self.journal.database.read() as tx:
            return self.journal.read_messages(tx)

    def _read_all_prompts(self) -> Sequence[str]:
        """Returns the words of people in all runs of the job. Data allows nothing, so it is not among them."""
        with self.journal.database.read() as tx:
            return self.journal.read_all_prompts(tx)

    def _pin_commits(self) -> StartingPoint:
        with self.journal.step("pin", StartingPoint) as step:
            if not step.is_done:
                pinned = self._retries.run(self._find_start)
                step.save(pinned, job={"base": pinned.base} if pinned.head is None else None)
        return step.result

    @cached_property
    def _limits(self) -> RepositoryLimits:
        return RepositoryLimits.from_settings(self.settings)

    @cached_property
    def _retries(self) -> RepositoryRetries:
        return RepositoryRetries(self.journal, self.attempt, self.forge, lambda: self.mirror)

    @property
    def _direct_merge(self) -> DirectMerge:
        planned = plan_commit(self.project, self.secrets)
        active = self._check_still_active
        return DirectMerge(self.journal, self.job, self.forge, self.mirror, planned, active, self._retries)

    @property
    def _context_reader(self) -> ContextReader:
        folder = self.settings.mirrors_folder
        return ContextReader(self.journal, self.attempt, self.contexts, folder, self._limits, self._retries)

    def _find_start(self) -> StartingPoint:
        """Returns the commits to start from. A follow-up continues on the branch, with the commits of other people."""
        planned = plan_commit(self.project, self.secrets)
        if self.forge is not None and (problems := self.forge.find_access_problems(self.job.branch, planned)):
            raise RepositoryFailed(" ".join(problems))  # before a model is paid for work that cannot be published
        return self._start_finder.find()

    @property
    def _start_finder(self) -> StartFinder:
        policy = self.project.policy
        return StartFinder(self.journal, self.job, self.mirror, policy.author_name, policy.author_email)

    @property
    def _run_handover(self) -> RunHandover:
        return RunHandover(
            self.journal,
            self.job,
            self.project,
            self.forge,
            self.settings.base_url,
            self.move_automation_runs,
            self._check_still_active,
            self._retries.pause,
            self.attempt.deadline,
        )

    def _open_conversation(self, pinned: StartingPoint, workspace: Workspace) -> Opening:
        """Returns what the model is told before the messages of a follow-up. It is stored: later runs tell it again."""
        if self.attempt.claim.run_number == 1:
            return Opening()
        with self.journal.step(OPENING_STEP, Opening) as step:
            if not step.is_done:
                with self.journal.database.read() as tx:
                    earlier = self.journal.read_earlier_prompts(tx)
                carried = sorted(workspace.changes())
                step.save(render_opening(pinned, self.job.ref, earlier, self.job.summary, carried))
        return step.result

    def _end_without_changes(self, pinned: StartingPoint, finished: Finished) -> JobOutcome:
        """Ends a run that changed nothing. What is told of an open pull request stays as it was."""
        if self.job.pr_link is None:
            # Keeps the title for a follow-up that changes something: this one says that nothing changed.
            self.journal.save_job_values(summary=finished.summary)
        reason = Reason.NOT_UNDERSTOOD if finished.title == NOT_UNDERSTOOD_TITLE else Reason.NO_CHANGES
        conflict = describe_conflict(self.job.ref) if pinned.has_conflict else None
        message = " ".join(filter(None, [finished.summary or "No changes were needed.", conflict, *pinned.notes]))
        return JobOutcome(COMPLETED, reason, message)

    def _build_agent_loop(
        self, reviewer: Reviewer, finish_review: FinishReview, contexts: Sequence[PinnedContext], opening: Opening
    ) -> AgentLoop:
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
            context_overview=render_context_overview(contexts),
            second_look=build_second_look(
                self.project.policy.review_model, self.review_model, self.attempt, reviewer, self._read_messages
            ),
            may_send_back=finish_review.may_advise,
            opening=opening,
        )

    def _ask(self, question: Question) -> JobOutcome:
        known_secrets = list_known_secrets(self.project, self.secrets)
        return ask_question(self.journal, self.job, self.forge, question, known_secrets, self._check_still_active)

    def _run_checks(self, workspace: Workspace, reviewer: Reviewer, intended: Mapping[str, str]) -> ReviewResult:
        if not self.journal.has_result("check"):
            self.journal.enter_phase(Phase.CHECKING)
        with self.journal.step("check", ReviewResult) as step:
            if not step.is_done:
                review = reviewer.review(workspace, intended)
                result = {
                    "passed": not review.problems,
                    "findings": review.problems[:20],
                    "notJudged": review.unjudged_rules,
                }
                step.save(review, events=[NewEvent(EventKind.CHECKED, result)], job={"checks": review.checks})
        review = step.result
        if review.findings and self.project.policy.on_check_failure == "fail":
            count, first = pluralize(len(review.findings), "problem"), review.findings[0]
            raise JobFailed(f"The checks found {count} in the change. The first one: {first}", Reason.CHECKS_FAILED)
        return review

    def _refuse_missing_folder(self, workspace: Workspace) -> None:
        words = [remove_quoted_lines(prompt) for prompt in self._read_all_prompts()]
        refuse_missing_folder(workspace, words, self.job.ref)

    def _refuse_protected_path(self, path: str) -> None:
        publish_guard.refuse_protected(path, self.project.policy.unprotected_paths, self.project.root)

    def _check_publishable(self, workspace: Workspace, texts: Sequence[str] = ()) -> None:
        self.isolated.check_publishable(
            workspace, list_known_secrets(self.project, self.secrets), texts, self._read_all_prompts()
        )

    def _build_publisher(self, pinned: StartingPoint, workspace: Workspace, finished: Finished) -> Publisher:
        title = finished.title if pinned.head else self.job.title or finished.title
        return Publisher(
            job=self.job,
            policy=self.project.policy,
            mirror=self.mirror,
            start_commit=pinned.start,
            on_own_branch=pinned.head is not None,
            changes=workspace.changes(),
            message=build_commit_message(
                self.job,
                self.project.policy,
                title,
                finished.summary,
                template=read_pull_template(self.mirror.tree(pinned.base)),
                closed_issues=read_closed_issues(self.journal),
                requesters=read_requesters(self.journal),
            ),
            authored_at=self.attempt.claim.created_at,
            notes=pinned.notes,
        )

    def _push_commit(self, publisher: Publisher, committed: CommitResult, pinned: StartingPoint) -> None:
        def push() -> None:
            publisher.recreate_if_missing(committed)
            self._check_still_active()
            if pinned.head not in (None, committed.commit):  # the push updates an existing branch
                self._reopen_before_push()
            self.mirror.push(committed.commit, self.job.branch, expected=pinned.head)

        with self.journal.step("push", str) as step:
            if not step.is_done:
                self._retries.run(push)
                pushed = NewEvent(EventKind.PUSHED, {"branch": self.job.branch, "commit": committed.commit})
                step.save(committed.commit, events=[pushed])

    def _reopen_before_push(self) -> None:
        if self.forge is not None and self.job.pr_link is not None:
            requested_at = self.attempt.claim.created_at
            reopen_before_push(self.forge, self.job.pr_link, self.job.branch, requested_at, self._check_still_active)

    def _open_pull_request(
        self,
        pinned: StartingPoint,
        judged: JudgedChange,
        risks: Sequence[Risk],
        finished: Finished,
        committed: CommitResult,
        reformatted: Sequence[str],
    ) -> OpenedPullRequest:
        secret_values = list_known_secrets(self.project, self.secrets)
        latest = build_round(self.journal, finished.summary, committed.note, secret_values)
        openings = list_earlier_openings(self.journal)
        report = PullRequestReport(
            risks=risks,
            rounds=list_rounds(openings, latest),
            files=judged.files,
            evidence=judged.evidence,
            fixed=judged.review.fixed,
            new_addresses=judged.notes.new_addresses,
            reformatted=reformatted,
            external_urls=judged.notes.external_addresses,
            checks=judged.review.summary_lines,
            command_output=judged.review.command_output,
            second_look=judged.second_look,
            instruction_files=self._list_instruction_files(pinned),
            usage=self.journal.load_job().usage,
        )
        opener = PullRequestOpener(
            job=self.job,
            project=self.project,
            title=self.job.title or finished.title,
            summary=finished.summary,
            text=render_pull_body(self.job, report, job_page_url(self.settings.base_url, self.job)),
            round=latest,
            draft=self.job.draft or needs_draft(risks),
            base=pinned.base if pinned.head else committed.onto,
            head=committed.commit,
            second_look=judged.second_look,
        )
        if self.forge is None:
            return opener.open_locally(self.journal, self.settings.base_url)
        asked_at = self.attempt.claim.created_at
        active, pause, deadline = self._check_still_active, self._retries.pause, self.attempt.deadline
        opened = opener.open_on_forge(self.journal, self.forge, asked_at, active, pause, deadline)
        reviews = AuthorReviews(self.project, self.forge, self.find_context, deadline)
        announcement = RunAnnouncement(
            self.journal, self.job, self.forge, reviews, self.settings.base_url, active, pause, deadline
        )
        announcement.announce(opened.link, latest, committed.commit, is_appended=bool(openings))
        return opened

    def _list_instruction_files(self, pinned: StartingPoint) -> list[str]:
        """Returns the instruction files that the model read; none for the mechanic, which reads none."""
        if self.job.model == "mechanic":
            return []
        return find_instruction_files((path for path, _ in self.mirror.tree(pinned.base).files()), self.project.root)

    def _check_still_active(self) -> None:
        """Raises AttemptStopped or LeaseLost unless this attempt still owns the run.

        Called right before a change outside the database."""
        self.attempt.raise_if_stopped()
        self.journal.check_lease()
