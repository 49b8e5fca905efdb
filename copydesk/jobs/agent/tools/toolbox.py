"""Runs a model's tool calls on a workspace. A refused call returns a result with `ok=False`; it never raises."""

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from copydesk.jobs.agent.conversation import ToolCall, ToolResult
from copydesk.jobs.agent.tools.check_tools import CheckTools
from copydesk.jobs.agent.tools.finish_tools import ASK_TOOL, FINISH_TOOL, Finished, Question
from copydesk.jobs.agent.tools.history_tools import HISTORY_TOOL, LOG_TOOL, SHOW_TOOL
from copydesk.jobs.agent.tools.move_tools import MOVE_TOOLS
from copydesk.jobs.agent.tools.read_tools import DIFF_TOOL, LIST_TOOL, READ_TOOL
from copydesk.jobs.agent.tools.replace_tool import REPLACE_TOOL
from copydesk.jobs.agent.tools.search_tool import SEARCH_TOOL
from copydesk.jobs.agent.tools.tool import Tool, ToolArguments, ToolOutput, ToolRefused
from copydesk.jobs.agent.tools.write_tools import WRITE_TOOLS
from copydesk.jobs.workspace.path_rules import PathRefused
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.text_edits import NotEditable
from copydesk.jobs.workspace.workspace import Workspace

MAX_ROUND_CHARS = 80_000
"""Read tools are refused once a round's results exceed this, because compaction never shortens the newest results."""
INVALID_ARGUMENTS = "The arguments do not fit"
INVALID_JSON_KEYS = {"INVALID_JSON"}


CONTEXT_TOOLS = (LOG_TOOL, SHOW_TOOL)
"""Tools that only jobs with context repositories get, because every request pays for their descriptions."""
READ_TOOLS = (LIST_TOOL, READ_TOOL, SEARCH_TOOL, DIFF_TOOL, HISTORY_TOOL, *CONTEXT_TOOLS)
TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in (*READ_TOOLS, *WRITE_TOOLS, REPLACE_TOOL, *MOVE_TOOLS, ASK_TOOL, FINISH_TOOL)
}


RunTool = Callable[[Tool, Workspace, ToolArguments], ToolOutput]
"""Runs one of TOOLS on a workspace and returns its result."""


def run_in_process(tool: Tool, workspace: Workspace, arguments: ToolArguments) -> ToolOutput:
    return tool.execute(workspace, arguments)


class Toolbox:
    """Runs the tool calls of one round. `checks` implements the tools check and run_checks, if there are any.

    `run_tool` runs the other tools; by default they run in this process.
    """

    def __init__(
        self,
        workspace: Workspace,
        checks: CheckTools | None = None,
        run_tool: RunTool = run_in_process,
    ) -> None:
        self.workspace = workspace
        self._run_tool = run_tool
        self.tools = build_toolset(checks, has_contexts=bool(workspace.contexts))
        self.finished: Finished | None = None
        self.question: Question | None = None
        self._shown_chars = 0
        self._has_refusal = False

    def call(self, tool_call: ToolCall) -> ToolResult:
        before = self.workspace.changes()
        try:
            output = self._run(tool_call.name, tool_call.arguments)
            ok = True
        except (ToolRefused, NotEditable, PathRefused, FileTooLarge) as refusal:
            self.workspace.restore(before)
            output = ToolOutput(str(refusal))
            ok = False
            self._has_refusal = True
        self._shown_chars += len(output.text)
        return ToolResult(call_id=tool_call.id, name=tool_call.name, ok=ok, **output._asdict())

    def _run(self, name: str, arguments: dict[str, Any]) -> ToolOutput:
        tool = self.tools.get(name)
        if tool is None:
            raise ToolRefused(f"There is no tool {name}; the tools are {', '.join(self.tools)}.")
        if self._shown_chars > MAX_ROUND_CHARS and tool in READ_TOOLS:
            raise ToolRefused("That is too much output for one turn; call this again in the next one.")
        parsed = _parse_arguments(tool, arguments)
        if isinstance(parsed, Finished | Question) and self._has_refusal:
            raise ToolRefused(f"Another call of this turn was refused. Resolve that first, then call {name} again.")
        run_tool = self._run_tool if name in TOOLS else run_in_process
        output = run_tool(tool, self.workspace, parsed)
        if isinstance(parsed, Finished):
            self.finished = parsed
        elif isinstance(parsed, Question):
            self.question = parsed
        return output


def build_toolset(checks: CheckTools | None = None, *, has_contexts: bool = False) -> dict[str, Tool]:
    """Returns the tools of a job by name: those of TOOLS that it can use, and the checks before those that end it."""
    *others, ask_tool, finish_tool = (tool for tool in TOOLS.values() if has_contexts or tool not in CONTEXT_TOOLS)
    check_tools = () if checks is None else checks.build()
    return {tool.name: tool for tool in (*others, *check_tools, ask_tool, finish_tool)}


def _parse_arguments(tool: Tool, arguments: dict[str, Any]) -> ToolArguments:
    if arguments.keys() == INVALID_JSON_KEYS:
        raise ToolRefused(
            f"{INVALID_ARGUMENTS}: they are not a JSON object, or were cut off."
            " Write them again, shorter if they were long."
        )
    try:
        return tool.arguments.model_validate(arguments)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors())
        raise ToolRefused(f"{INVALID_ARGUMENTS}: {problems}.") from None
