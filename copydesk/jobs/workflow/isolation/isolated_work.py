"""Runs an attempt's work on untrusted text in child processes, and says in the error which work exceeded a limit."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from copydesk.jobs.agent.conversation import Conversation, ModelFailed, Reply
from copydesk.jobs.agent.evidence import Evidence
from copydesk.jobs.agent.tools.declarations import Declarations
from copydesk.jobs.agent.tools.finish_tools import Citation
from copydesk.jobs.agent.tools.tool import Tool, ToolArguments, ToolOutput, ToolRefused
from copydesk.jobs.checks import CheckReport
from copydesk.jobs.execution.stoppable import Stoppable
from copydesk.jobs.job import JobFailed, Reason
from copydesk.jobs.publish.guard.publish_guard import PublishRefused
from copydesk.jobs.workflow.isolation import tasks
from copydesk.jobs.workflow.isolation.child_limits import LimitExceeded
from copydesk.jobs.workflow.isolation.child_pool import ChildPool
from copydesk.jobs.workflow.isolation.tasks import ChangeNotes, Overreach, WorkspaceCopy
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Workspace

T = TypeVar("T")


class IsolatedWork:
    """Runs work in child processes. `allowed_paths` are patterns of protected paths that jobs may change."""

    def __init__(self, pool: ChildPool, stoppable: Stoppable, allowed_paths: Sequence[str] = ()) -> None:
        self._pool = pool
        self._stoppable = stoppable
        self._allowed_paths = tuple(allowed_paths)

    def describe_repository(self, origin: Tree, root: str) -> str:
        path = origin.repository.path
        with _explain_limit(lambda limit: JobFailed(f"Reading the repository took {limit}.", Reason.REPOSITORY_ERROR)):
            return self._run(path, tasks.describe_repository, path, origin.commit, origin.limits, root)

    def run_tool(self, tool: Tool, workspace: Workspace, arguments: ToolArguments) -> ToolOutput:
        """Runs a tool, applies its changes to the workspace, and returns its output."""
        with _explain_limit(
            lambda limit: ToolRefused(f"This call took {limit} and was stopped. Request less at once.")
        ):
            outcome = self._run_on(workspace, tasks.run_tool, tool.name, arguments)
        if outcome.changes is not None:
            workspace.restore(outcome.changes)
        return outcome.output

    def check_workspace(
        self,
        workspace: Workspace,
        origin: Tree,
        required_fields: Sequence[str],
        ignored_checks: Sequence[str],
        request: str,
    ) -> CheckReport:
        sentence = "Checking the documentation took {}, so nothing was published."
        with _explain_limit(lambda limit: JobFailed(sentence.format(limit), Reason.CHECKS_FAILED)):
            return self._run_on(
                workspace, tasks.check_workspace, origin.commit, tuple(required_fields), tuple(ignored_checks), request
            )

    def check_publishable(
        self, workspace: Workspace, known_secrets: Sequence[str], texts: Sequence[str], prompts: Sequence[str]
    ) -> None:
        """Raises PublishRefused unless the change may be published."""
        with _explain_limit(lambda limit: PublishRefused(f"Scanning the change for secrets and embeds took {limit}.")):
            self._run_on(workspace, tasks.check_publishable, tuple(known_secrets), tuple(texts), tuple(prompts))

    def describe_change(self, workspace: Workspace) -> ChangeNotes:
        """Returns the executed files and external addresses that the pull request lists for its reviewer."""
        with _explain_limit(lambda limit: PublishRefused(f"Listing the additions of the change took {limit}.")):
            return self._run_on(workspace, tasks.describe_change)

    def verify_citations(self, workspace: Workspace, citations: Sequence[Citation]) -> list[Evidence]:
        """Looks up the evidence that the model cites."""
        if not citations:
            return []
        sentence = "Looking up the evidence took {}, so nothing was published."
        with _explain_limit(lambda limit: JobFailed(sentence.format(limit), Reason.CHECKS_FAILED)):
            return self._run_on(workspace, tasks.verify_citations, tuple(citations))

    def find_overreach(self, workspace: Workspace, declarations: Declarations) -> list[Overreach]:
        """Returns the files that were reformatted or rewritten rather than edited.

        Returns none if the search exceeds a limit, since the advice is optional."""
        with suppress(LimitExceeded):
            return self._run_on(workspace, tasks.find_overreach, declarations)
        return []

    def reply_as_mechanic(self, conversation: Conversation, workspace: Workspace) -> Reply:
        with _explain_limit(lambda limit: ModelFailed(f"The built-in mechanic took {limit}.")):
            return self._run_on(workspace, tasks.reply_as_mechanic, conversation)

    def _run_on(self, workspace: Workspace, task: Callable[..., T], *arguments: object) -> T:
        """Runs a task whose first argument is a copy of the workspace."""
        copy = WorkspaceCopy.from_workspace(workspace, self._allowed_paths)
        return self._run(copy.repository, task, copy, *arguments)

    def _run(self, repository: str, task: Callable[..., T], *arguments: object) -> T:
        return self._pool.run(task, *arguments, affinity=repository, stoppable=self._stoppable)


@contextmanager
def _explain_limit(explain: Callable[[LimitExceeded], Exception]) -> Iterator[None]:
    """Replaces LimitExceeded with the exception that `explain` returns."""
    try:
        yield
    except LimitExceeded as limit:
        raise explain(limit) from None


class IsolatedMechanic:
    """The mechanic, run in a child process."""

    name = "mechanic"

    def __init__(self, work: IsolatedWork) -> None:
        self._work = work

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        return await asyncio.to_thread(self._work.reply_as_mechanic, conversation, workspace)
