"""Carries out a model's tool calls on a workspace. A refusal is an answer, never an exception."""

from collections.abc import Callable
from typing import Any

from pydantic import Field, ValidationError, field_validator

from copydesk.jobs.agent.conversation import ToolCall, ToolResult
from copydesk.jobs.agent.tools.read_tools import LOOKING, check_tool
from copydesk.jobs.agent.tools.tool import Arguments, Tool, ToolRefused
from copydesk.jobs.agent.tools.write_tools import CHANGING
from copydesk.jobs.workspace.path_rules import PathRefused
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.text_edits import NotEditable
from copydesk.jobs.workspace.workspace import Workspace

LONGEST_SUMMARY = 20_000
MOST_SHOWN = 80_000
"""Characters that the tools answer in one round: the newest results are never left out to save room."""
MISFIT = "The arguments do not fit"
NO_OBJECT = {"INVALID_JSON"}


class Finished(Arguments):
    title: str = Field(min_length=1, max_length=200)
    """The pull request's title: what changed, in a few words."""
    summary: str = Field(max_length=LONGEST_SUMMARY)
    """What was done and why, for the reviewer."""
    unsure: str = Field("", max_length=LONGEST_SUMMARY)
    """What you were unsure of, for the reviewer to look at; empty when nothing."""

    @field_validator("title", "summary", "unsure")
    @classmethod
    def _is_storable(cls, text: str) -> str:
        return text.replace("\x00", "")


def finish(_workspace: Workspace, _asked: Finished) -> str:
    """Says that the work is done; call it last."""
    return "Finished."


TOOLS: dict[str, Tool] = {tool.name: tool for tool in (*LOOKING, *CHANGING, Tool.of("finish", Finished, finish))}


RunTool = Callable[[Tool, Workspace, Arguments], str]
"""Runs one of TOOLS on a workspace and returns its answer."""


def run_here(tool: Tool, workspace: Workspace, asked: Arguments) -> str:
    return tool.run(workspace, asked)


class Toolbox:
    """For one round of calls. `check` is the tool of that name; there is none without it.

    `run_tool` runs the other tools; by default they run in this process.
    """

    def __init__(
        self,
        workspace: Workspace,
        check: Callable[[Workspace], str] | None = None,
        run_tool: RunTool = run_here,
    ) -> None:
        self.workspace = workspace
        self._run_tool = run_tool
        self.tools = toolset(check)
        self.finished: Finished | None = None
        self._shown = 0
        self._refused = False

    def call(self, asked: ToolCall) -> ToolResult:
        before = self.workspace.changes()
        try:
            text, ok = self._run(asked.name, asked.arguments), True
        except (ToolRefused, NotEditable, PathRefused, FileTooLarge) as refusal:
            self.workspace.restore(before)
            text, ok = str(refusal), False
            self._refused = True
        self._shown += len(text)
        return ToolResult(call_id=asked.id, name=asked.name, ok=ok, text=text)

    def _run(self, name: str, arguments: dict[str, Any]) -> str:
        tool = self.tools.get(name)
        if tool is None:
            raise ToolRefused(f"There is no tool {name}; there are {', '.join(self.tools)}.")
        if self._shown > MOST_SHOWN and tool in LOOKING:
            raise ToolRefused("That is too much to look at in one turn; call this again in the next one.")
        asked = _fitting(tool, arguments)
        if isinstance(asked, Finished) and self._refused:
            raise ToolRefused("Another call of this turn was refused. See to it first, then call finish again.")
        run = self._run_tool if name in TOOLS else run_here
        text = run(tool, self.workspace, asked)
        if isinstance(asked, Finished):
            self.finished = asked
        return text


def toolset(check: Callable[[Workspace], str] | None = None) -> dict[str, Tool]:
    if check is None:
        return TOOLS
    *others, last = TOOLS.values()
    return {tool.name: tool for tool in (*others, check_tool(check), last)}


def _fitting(tool: Tool, arguments: dict[str, Any]) -> Arguments:
    if arguments.keys() == NO_OBJECT:
        raise ToolRefused(
            f"{MISFIT}: they are no JSON object, or were cut off. Write them again, shorter if they were long."
        )
    try:
        return tool.arguments.model_validate(arguments)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors())
        raise ToolRefused(f"{MISFIT}: {faults}.") from None
