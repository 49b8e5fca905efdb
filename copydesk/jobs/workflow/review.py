"""Reviews what a job has changed, against what it began with: the checks, and the project's own check command."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from copydesk.core.projects.projects import Project
from copydesk.jobs.checks import Report, as_data, told
from copydesk.jobs.checks.check_command import CommandResult, run_command
from copydesk.jobs.execution.stoppable import Stoppable
from copydesk.jobs.sandbox.sandbox import Sandbox, Unavailable
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Changes, Workspace

COMMAND = "command"
LONGEST_OUTPUT = 4000


class Reviewed(BaseModel):
    """`checks` is what the API shows: one entry for each check that ran."""

    checks: list[dict[str, Any]]
    faults: list[str] = []
    """What the change brings and should not, a line each."""
    can_mend: bool = True
    """False where no model could: the check command is all that failed, and it could not be run."""

    @property
    def sentences(self) -> list[str]:
        """For the pull request."""
        broken = any(entry["name"] == COMMAND and entry["old"] for entry in self.checks)
        passed = [entry["name"] for entry in self.checks if entry["status"] == "passed"]
        passed = [name for name in passed if not (broken and name == COMMAND)]
        old = sum(entry["old"] for entry in self.checks if entry["name"] != COMMAND)
        lines = [f"passed: {', '.join(passed)}"] if passed else []
        lines += [f"**failed: {entry['name']}**" for entry in self.checks if entry["status"] == "failed"]
        lines += ["the check command fails, as it did before the change"] if broken else []
        if old:
            lines.append(f"{old} older finding{'' if old == 1 else 's'} in the documentation left as found")
        return lines


CheckWorkspace = Callable[[Workspace, Tree, Sequence[str], Sequence[str]], Report]
"""Checks a workspace against the tree it began with; also given are required front-matter fields and ignored checks."""


class Reviewer:
    """The last review is kept: finish, the `check` tool and publishing ask about the same workspace."""

    def __init__(
        self,
        project: Project,
        origin: Tree,
        check: CheckWorkspace,
        sandbox: Callable[[], Sandbox | Unavailable],
        stoppable: Stoppable,
        tools: Sequence[str] = (),
    ) -> None:
        self.project, self.origin, self.stoppable, self.tools = project, origin, stoppable, tools
        self._check, self._sandbox = check, sandbox
        self._last: tuple[Changes, Reviewed, str] | None = None

    def review(self, workspace: Workspace) -> Reviewed:
        return self._reviewed(workspace)[0]

    def told(self, workspace: Workspace) -> str:
        """For the model, whatever was found."""
        return self._reviewed(workspace)[1]

    def faults(self, workspace: Workspace) -> str | None:
        """For the model that says it is finished: None when it may be."""
        if not workspace.changes():
            return None
        reviewed, text = self._reviewed(workspace)
        if not reviewed.faults or not reviewed.can_mend:
            return None
        return f"Not finished yet: your changes bring these faults. Mend them, then call finish again.\n{text}"

    def _reviewed(self, workspace: Workspace) -> tuple[Reviewed, str]:
        changes = workspace.changes()
        if self._last is None or self._last[0] != changes:
            self._last = (changes, *self._fresh(workspace))
        return self._last[1:]

    def _fresh(self, workspace: Workspace) -> tuple[Reviewed, str]:
        policy = self.project.policy
        report = self._check(workspace, self.origin, policy.required_fields, policy.ignored_checks)
        checks = as_data(report, policy.ignored_checks)
        faults = [f"{found.path}:{found.line} {found.message}" for found in report.introduced]
        text = told(report)
        if policy.check_command is not None:
            entry, said, ran = self._run_command(policy.check_command, workspace)
            checks.append(entry)
            text += f"\n{said}"
            if entry["introduced"]:
                faults.append(entry["findings"][0]["message"])
            return Reviewed(checks=checks, faults=faults, can_mend=ran or len(faults) > 1), text
        return Reviewed(checks=checks, faults=faults), text

    def _run_command(self, command: str, workspace: Workspace) -> tuple[dict[str, Any], str, bool]:
        """A command that fails on what the job began with as well does not speak against the change."""
        result = self._ran(command, workspace)
        if result.ok:
            return _entry("passed"), result.summary, True
        said = f"{result.summary}\n{result.output[-LONGEST_OUTPUT:]}".rstrip()
        if result.ran and self._failed_before:
            return _entry("passed", old=1), f"{result.summary} It failed before your changes too: leave that.", True
        found = [{"path": "", "line": 0, "message": said}]
        return _entry("failed", introduced=1, findings=found), said, result.ran

    @cached_property
    def _failed_before(self) -> bool:
        assert self.project.policy.check_command is not None
        return not self._ran(self.project.policy.check_command, Workspace(self.origin)).ok

    def _ran(self, command: str, workspace: Workspace) -> CommandResult:
        return run_command(
            command,
            workspace,
            self._sandbox(),
            root=self.project.root,
            seconds=self.project.policy.check_minutes * 60,
            stoppable=self.stoppable,
            tools=self.tools,
        )


def _entry(
    status: str, *, introduced: int = 0, old: int = 0, findings: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    return {"name": COMMAND, "status": status, "introduced": introduced, "old": old, "findings": list(findings)}
