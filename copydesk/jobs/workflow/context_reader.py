"""Pins the context repositories of a run to commits, and opens their files."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from copydesk.jobs.agent.overview.context_overview import PinnedContext, PinnedContexts
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.projects.context_mirrors import ContextAccess
from copydesk.jobs.workflow.repository_retries import RepositoryRetries
from copydesk.jobs.workspace.context_tree import ContextTree
from copydesk.jobs.workspace.repository_limits import RepositoryLimits

PIN_STEP = "pin-context"


@dataclass(frozen=True)
class ContextReader:
    journal: Journal
    attempt: Attempt
    accesses: Sequence[ContextAccess]
    mirrors: Path
    limits: RepositoryLimits
    retries: RepositoryRetries

    def pin(self) -> Sequence[PinnedContext]:
        """Fetches the repositories and records their newest commits, so that a resumed run reads the same ones."""
        if not self.accesses and not self.journal.has_result(PIN_STEP):
            return []
        with self.journal.step(PIN_STEP, PinnedContexts) as step:
            if not step.is_done:
                pinned = [self.retries.run(partial(self._pin, access)) for access in self.accesses]
                step.save(PinnedContexts(contexts=pinned))
        return step.result.contexts

    def open_trees(self, contexts: Sequence[PinnedContext]) -> list[ContextTree]:
        return [self.retries.run(partial(self._open_tree, context)) for context in contexts]

    def _pin(self, access: ContextAccess) -> PinnedContext:
        context = access.context
        commit = access.pin(self.mirrors, self.attempt.stoppable, self.limits, self.attempt.deadline)
        return PinnedContext(
            name=context.name, repository=context.repository, forge=context.forge, ref=context.ref, commit=commit
        )

    def _open_tree(self, pinned: PinnedContext) -> ContextTree:
        access = next((access for access in self.accesses if access.context.name == pinned.name), None)
        if access is None:
            raise RepositoryFailed(
                f"The context repository {pinned.name} was removed while the job ran. Send the request again."
            )
        return access.open_tree(pinned.commit, self.mirrors, self.attempt.stoppable, self.limits, self.attempt.deadline)
