"""The work of one attempt that reads untrusted text: each method runs in a child process and says what exceeded it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from copydesk.jobs.agent.conversation import Conversation, ModelFailed, Reply
from copydesk.jobs.agent.tools.tool import Arguments, Tool, ToolRefused
from copydesk.jobs.checks import Report
from copydesk.jobs.isolation import tasks
from copydesk.jobs.isolation.limits import LimitExceeded
from copydesk.jobs.isolation.pool import ChildPool
from copydesk.jobs.isolation.tasks import WorkspaceCopy
from copydesk.jobs.job import JobFailed, Reason
from copydesk.jobs.publish.executed import Executed
from copydesk.jobs.publish.policy import PublishRefused
from copydesk.jobs.stopping import Stoppable
from copydesk.jobs.tree import Tree
from copydesk.jobs.workspace import Workspace

T = TypeVar("T")


class IsolatedWork:
    """`allowed_paths` are patterns of protected paths that the project allows to change."""

    def __init__(self, pool: ChildPool, stoppable: Stoppable, allowed_paths: Sequence[str] = ()) -> None:
        self._pool, self._stoppable = pool, stoppable
        self._allowed_paths = tuple(allowed_paths)

    def describe_repository(self, origin: Tree, root: str) -> str:
        path = origin.repository.path
        try:
            return self._run(path, tasks.describe_repository, path, origin.commit, origin.limits, root)
        except LimitExceeded as limit:
            raise JobFailed(f"Reading the repository took {limit}.", Reason.REPOSITORY_ERROR) from None

    def run_tool(self, tool: Tool, workspace: Workspace, asked: Arguments) -> str:
        """Returns the tool's answer, with its changes made to the workspace."""
        copy = self._copy(workspace)
        try:
            outcome = self._run(copy.repository, tasks.run_tool, copy, tool.name, asked)
        except LimitExceeded as limit:
            raise ToolRefused(f"This call took {limit} and was stopped. Ask for less at once.") from None
        if outcome.changes is not None:
            workspace.restore(outcome.changes)
        return outcome.text

    def check_workspace(
        self, workspace: Workspace, origin: Tree, required_fields: Sequence[str], ignored: Sequence[str]
    ) -> Report:
        copy = self._copy(workspace)
        try:
            return self._run(
                copy.repository, tasks.check_workspace, copy, origin.commit, tuple(required_fields), tuple(ignored)
            )
        except LimitExceeded as limit:
            raise JobFailed(
                f"Checking the documentation took {limit}, so nothing was published.", Reason.CHECKS_FAILED
            ) from None

    def check_policy(
        self, workspace: Workspace, known: Sequence[str], texts: Sequence[str], prompts: Sequence[str]
    ) -> None:
        """Raises PublishRefused unless the change may be published."""
        copy = self._copy(workspace)
        try:
            self._run(copy.repository, tasks.check_policy, copy, tuple(known), tuple(texts), tuple(prompts))
        except LimitExceeded as limit:
            raise PublishRefused(f"Looking for secrets and embeds in the change took {limit}.") from None

    def find_executed(self, workspace: Workspace) -> list[Executed]:
        copy = self._copy(workspace)
        try:
            return self._run(copy.repository, tasks.find_executed, copy)
        except LimitExceeded as limit:
            raise PublishRefused(f"Looking for executed files in the change took {limit}.") from None

    def list_outside(self, workspace: Workspace) -> list[str]:
        copy = self._copy(workspace)
        try:
            return self._run(copy.repository, tasks.list_outside, copy)
        except LimitExceeded as limit:
            raise PublishRefused(f"Listing the addresses in the change took {limit}.") from None

    def find_overreach(self, workspace: Workspace) -> tuple[str, str] | None:
        """Returns the first file that was rewritten rather than edited, with advice; None if that takes too long."""
        copy = self._copy(workspace)
        try:
            return self._run(copy.repository, tasks.find_overreach, copy)
        except LimitExceeded:
            return None

    def reply_as_mechanic(self, conversation: Conversation, workspace: Workspace) -> Reply:
        copy = self._copy(workspace)
        try:
            return self._run(copy.repository, tasks.reply_as_mechanic, conversation, copy)
        except LimitExceeded as limit:
            raise ModelFailed(f"The built-in mechanic took {limit}.") from None

    def _copy(self, workspace: Workspace) -> WorkspaceCopy:
        return WorkspaceCopy.from_workspace(workspace, self._allowed_paths)

    def _run(self, repository: str, function: Callable[..., T], *arguments: object) -> T:
        return self._pool.run(function, *arguments, affinity=repository, stoppable=self._stoppable)


class IsolatedMechanic:
    """The mechanic, in a child process."""

    name = "mechanic"

    def __init__(self, work: IsolatedWork) -> None:
        self._work = work

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        return await asyncio.to_thread(self._work.reply_as_mechanic, conversation, workspace)
