"""Tools that check the change: check runs Copydesk's rules, run_checks the project's own command."""

from collections.abc import Callable
from typing import NamedTuple

from pydantic import Field

from copydesk.jobs.agent.tools.path_filter import Globs
from copydesk.jobs.agent.tools.tool import Tool, ToolArguments, truncate_output
from copydesk.jobs.workspace.workspace import Workspace


class Check(ToolArguments):
    existing: bool = False
    """Also list the problems that existed before your changes, and those that your changes fixed."""
    files: Globs = Field([])
    """With existing: shell patterns for their paths; all when empty."""
    rule: str = Field("", max_length=100)
    """With existing: only this rule, such as link."""


class RunChecks(ToolArguments):
    pass


class CheckTools(NamedTuple):
    """Implements the tools. `run_command` is None if the project has no check command."""

    check: Callable[[Workspace, Check], str]
    run_command: Callable[[Workspace], str] | None = None

    def build(self) -> list[Tool]:
        tools = [_build_check_tool(self.check)]
        if self.run_command is not None:
            tools.append(_build_command_tool(self.run_command))
        return tools


def _build_check_tool(check: Callable[[Workspace, Check], str]) -> Tool:
    def run(workspace: Workspace, arguments: Check) -> str:
        """Checks what has been changed so far: links, front matter, markup, navigation. Says what it found, by line."""
        return truncate_output(check(workspace, arguments), "Fix these first, then check again.")

    return Tool.from_function("check", Check, run)


def _build_command_tool(run_command: Callable[[Workspace], str]) -> Tool:
    def run(workspace: Workspace, _arguments: RunChecks) -> str:
        """Runs the project's own check command, such as a build, on the changes so far. It may take minutes."""
        return truncate_output(run_command(workspace), "Fix the first errors, then run it again.")

    return Tool.from_function("run_checks", RunChecks, run)
