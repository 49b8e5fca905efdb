"""The durable steps of a job, top to bottom: pin ▶ turns ▶ check ▶ commit ▶ push ▶ open. Every act may be repeated."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.core.telemetry import instruments as measured
from copydesk.core.telemetry import traces
from copydesk.jobs.agent.conversation import Model
from copydesk.jobs.agent.loop import Budget, Editor, Pinned
from copydesk.jobs.agent.mechanic import Mechanic
from copydesk.jobs.agent.tools import Finished
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.execution.worker import Attempt
from copydesk.jobs.job import COMPLETED, Ending, Job, JobFailed, Phase, Reason, RepositoryFailed
from copydesk.jobs.publish.forges.forge import Forge
from copydesk.jobs.publish.git.commit import Committed, Publisher
from copydesk.jobs.publish.git.mirror import Mirror
from copydesk.jobs.publish.guard import publish_guard as policy
from copydesk.jobs.publish.guard.secret_scanner import without_secrets
from copydesk.jobs.publish.messages import Told, commit_message, pull_text
from copydesk.jobs.publish.repository_access import known_secrets
from copydesk.jobs.publish.retry import patiently
from copydesk.jobs.sandbox.sandbox import Sandbox, Unavailable
from copydesk.jobs.storage.records import EventKind, NewEvent
from copydesk.jobs.workflow.isolation.child_pool import ChildPool
from copydesk.jobs.workflow.isolation.isolated_work import IsolatedMechanic, IsolatedWork
from copydesk.jobs.workflow.isolation.tasks import ChangeNotes
from copydesk.jobs.workflow.pull_request import Opened, Opening
from copydesk.jobs.workflow.review import Reviewed, Reviewer
from copydesk.jobs.workspace.git_tree import with_changes
from copydesk.jobs.workspace.patches import patches_between
from copydesk.jobs.workspace.repository_limits import RepositoryLimits
from copydesk.jobs.workspace.workspace import Workspace

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One attempt at carrying out what was asked, with all it needs. `forge` is None for the local one."""

    settings: Settings
    journal: Journal
    attempt: Attempt
    job: Job
    project: Project
    secrets: Mapping[str, str] = field(repr=False)
    forge: Forge | None
    model: Callable[[], Model]
    sandbox: Callable[[], Sandbox | Unavailable]
    children: ChildPool
    advised: list[str] = field(default_factory=list)

    def carry_out(self) -> Ending:
        pinned = self._pin()
        self._patiently(lambda: self.mirror.ensure(pinned.start, self.job.branch if pinned.head else self.job.ref))
        workspace = Workspace(self.mirror.tree(pinned.start), self._refuse, self.project.root)
        reviewer = Reviewer(
            self.project,
            self.mirror.tree(pinned.base),
            self.work.check_workspace,
            self.sandbox,
            self.attempt.stoppable,
            self.settings.check_tools,
        )

        with traces.span("edit"):
            finished = self._edit(workspace, reviewer)
        if not workspace.changes() and not self._is_unproposed(pinned):
            self.journal.keep(title=self.job.title or finished.title, summary=finished.summary)
            return Ending(COMPLETED, Reason.NO_CHANGES, finished.summary or "Nothing needed to be changed.")
        reviewed = self._check(workspace, reviewer)

        with _publishing():
            self.journal.enter(Phase.PUBLISHING)
            self._obey_policy(workspace, (self.job.title or "", finished.title, finished.summary, finished.unsure))
            publisher = self._publisher(pinned, workspace, finished)
            committed = self.journal.run_step("commit", Committed, lambda: self._patiently(publisher.commit))
            noted = self.work.describe_change(workspace)
            self._push(publisher, committed, pinned)
            opened = self._open(pinned, workspace, finished, reviewed, committed, noted)
        where = "and so it is a draft" if opened.draft else "which its text lists"
        faults = f"The checks find faults in the pull request, {where}." if reviewed.faults else None
        runs = f"The pull request changes files that are executed, {where}." if noted.executed else None
        return Ending(COMPLETED, message=" ".join(filter(None, [committed.note, faults, runs, *opened.notes])) or None)

    @cached_property
    def mirror(self) -> Mirror:
        token = self.forge.git_token if self.forge else self.secrets.get("forge_token")
        limits = RepositoryLimits.of(self.settings)
        return Mirror.of(self.settings.mirrors, self.project, token, self.attempt.stoppable, limits)

    @cached_property
    def work(self) -> IsolatedWork:
        """Reads untrusted text in child processes, which end when this attempt is stopped."""
        return IsolatedWork(self.children, self.attempt.stoppable, self.project.policy.allowed_paths)

    def _prompts(self) -> Sequence[str]:
        """What this run was asked so far."""
        with self.journal.database.read() as tx:
            return self.journal.prompts(tx)

    def _pin(self) -> Pinned:
        with self.journal.step("pin", Pinned) as step:
            if not step.is_done:
                pinned = self._patiently(self._find_start)
                step.save(pinned, job={"base": pinned.base})
        return step.result

    def _find_start(self) -> Pinned:
        """Returns the commits to start from. A follow-up continues on the branch, as people have changed it."""
        if self.forge is not None and (missing := self.forge.access(self.job.branch)):
            raise RepositoryFailed(" ".join(missing))  # before a model is paid for work that cannot be published
        newest, base = self.mirror.head(self.job.ref), self.job.base
        head = self.mirror.find(self.job.branch) if self.attempt.claim.number > 1 else None
        return Pinned(base=base if base and self.mirror.has(base) else newest, head=head)

    def _is_unproposed(self, pinned: Pinned) -> bool:
        """Whether the branch has work of an earlier run that no pull request tells of, because its opening failed."""
        if pinned.head is None or self.job.pr_link is None:
            return pinned.head is not None
        last = next((run for run in reversed(self.journal.earlier()) if run.results.keys() & {"push", "open"}), None)
        return last is not None and "open" not in last.results

    def _edit(self, workspace: Workspace, reviewer: Reviewer) -> Finished:
        if not self.journal.has("turn-1-reply"):
            self.journal.enter(Phase.THINKING)
        model = self.model()
        editor = Editor(
            IsolatedMechanic(self.work) if isinstance(model, Mechanic) else model,
            self.journal,
            self.attempt,
            Budget.of(self.settings),
            reviewer.origin,
            root=self.project.root,
            check=reviewer.told,
            review=lambda workspace: self._faults(workspace, reviewer),
            describe=self.work.describe_repository,
            run_tool=self.work.run_tool,
        )
        return editor.run(workspace)

    def _faults(self, workspace: Workspace, reviewer: Reviewer) -> str | None:
        """What stands against the change when the model calls it finished, for the model to mend."""
        try:
            self._obey_policy(workspace)
        except policy.PublishRefused as refusal:
            return f"Not finished yet: this cannot be published. {refusal} Mend that, then call finish again."
        return reviewer.faults(workspace) or self._overreach(workspace)

    def _overreach(self, workspace: Workspace) -> str | None:
        """Said once: many small edits may come to the rewrite that one would have been refused for."""
        if self.job.model == "mechanic" or self.advised:  # the mechanic tidies only where that was asked for
            return None
        found = self.work.find_overreach(workspace)
        if found is None:
            return None
        path, advice = found
        self.advised.append(path)
        return f"{path}: {advice} If this is what was asked for, call finish again."

    def _check(self, workspace: Workspace, reviewer: Reviewer) -> Reviewed:
        if not self.journal.has("check"):
            self.journal.enter(Phase.CHECKING)
        with self.journal.step("check", Reviewed) as step:
            if not step.is_done:
                reviewed = reviewer.review(workspace)
                result = {"passed": not reviewed.faults, "faults": reviewed.faults[:20]}
                step.save(reviewed, events=[NewEvent(EventKind.CHECKED, result)], job={"checks": reviewed.checks})
        reviewed = step.result
        if reviewed.faults and self.project.policy.on_findings == "fail":
            count = f"{len(reviewed.faults)} fault{'' if len(reviewed.faults) == 1 else 's'}"
            raise JobFailed(
                f"The change brings {count} that the checks find, the first: {reviewed.faults[0]}", Reason.CHECKS_FAILED
            )
        return reviewed

    def _refuse(self, path: str) -> None:
        policy.refuse_protected(path, self.project.policy.allowed_paths, self.project.root)

    def _obey_policy(self, workspace: Workspace, texts: Sequence[str] = ()) -> None:
        self.work.check_policy(workspace, known_secrets(self.project, self.secrets), texts, self._prompts())

    def _publisher(self, pinned: Pinned, workspace: Workspace, finished: Finished) -> Publisher:
        title = finished.title if pinned.head else self.job.title or finished.title
        return Publisher(
            job=self.job,
            policy=self.project.policy,
            mirror=self.mirror,
            start=pinned.start,
            on_own_branch=pinned.head is not None,
            changes=workspace.changes(),
            message=commit_message(self.job, self.project.policy, title, finished.summary),
            at=self.attempt.claim.created_at,
        )

    def _push(self, publisher: Publisher, committed: Committed, pinned: Pinned) -> None:
        def push() -> None:
            publisher.ensure(committed)
            self._guard()
            self.mirror.push(committed.commit, self.job.branch, expected=pinned.head)

        with self.journal.step("push", str) as step:
            if not step.is_done:
                self._patiently(push)
                pushed = NewEvent(EventKind.PUSHED, {"branch": self.job.branch, "commit": committed.commit})
                step.save(committed.commit, events=[pushed])

    def _open(
        self,
        pinned: Pinned,
        workspace: Workspace,
        finished: Finished,
        reviewed: Reviewed,
        committed: Committed,
        noted: ChangeNotes,
    ) -> Opened:
        tree, changes = workspace.tree, workspace.changes()
        told = Told(
            summary=finished.summary,
            unsure=finished.unsure,
            note=committed.note,
            files=patches_between(tree.repository, tree.root, with_changes(tree, changes)),
            checks=reviewed.sentences,
            findings=reviewed.faults,
            executed=noted.executed,
            outside=noted.outside,
            usage=self.journal.job().usage,
        )
        link = f"{self.settings.base_url}/v2/agent/{self.project.id}/job/{self.job.id}"
        known = known_secrets(self.project, self.secrets)
        opening = Opening(
            job=self.job,
            project=self.project,
            title=self.job.title or finished.title,
            summary=finished.summary,
            text=pull_text(self.job, [without_secrets(prompt, known) for prompt in self._prompts()], told, link),
            draft=self.job.draft or bool(reviewed.faults) or bool(noted.executed),
            base=pinned.base if pinned.head else committed.onto,
            head=committed.commit,
        )
        if self.forge is None:
            return opening.here(self.journal, self.settings.base_url)
        asked_at, deadline = self.attempt.claim.created_at, self.attempt.deadline
        return opening.there(self.journal, self.forge, asked_at, self._guard, self._pause, deadline)

    def _guard(self) -> None:
        """Right before an act on the outside world."""
        self.attempt.check()
        self.journal.guard()

    def _patiently(self, act: Callable[[], T]) -> T:
        """Waits for a repository that is away; not for one on no forge that never answered: it may not exist."""
        if self.forge is None and self.mirror.is_new:
            return act()
        return patiently(act, self._pause, self.attempt.deadline)

    def _pause(self, seconds: float, why: str) -> None:
        self.journal.record_event(NewEvent(EventKind.WAITING, {"seconds": round(seconds), "why": why}))
        self.attempt.pause(seconds)


@contextmanager
def _publishing() -> Iterator[None]:
    with traces.span("publish"):
        try:
            yield
        except JobFailed as failure:
            measured.publish_failures.add(failure.reason)
            raise
