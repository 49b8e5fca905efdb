"""Carries out a model's tool calls on a workspace. A refusal is an answer, never an exception."""

from typing import Any

from pydantic import Field, ValidationError, field_validator

from copydesk.jobs.agent.conversation import ToolCall, ToolResult
from copydesk.jobs.agent.tools.changing import CHANGING
from copydesk.jobs.agent.tools.looking import LOOKING
from copydesk.jobs.agent.tools.tool import Arguments, Tool, ToolRefused
from copydesk.jobs.paths import PathRefused
from copydesk.jobs.text import NotEditable
from copydesk.jobs.workspace import Workspace

LONGEST_SUMMARY = 20_000


class Finished(Arguments):
    title: str = Field(min_length=1, max_length=200)
    """The pull request's title: what changed, in a few words."""
    summary: str = Field(max_length=LONGEST_SUMMARY)
    """What was done and why, for the reviewer."""

    @field_validator("title", "summary")
    @classmethod
    def _is_storable(cls, text: str) -> str:
        return text.replace("\x00", "")


def finish(_workspace: Workspace, _asked: Finished) -> str:
    """Says that the work is done; call it last."""
    return "Finished."


TOOLS: dict[str, Tool] = {tool.name: tool for tool in (*LOOKING, *CHANGING, Tool.of("finish", Finished, finish))}


class Toolbox:
    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.finished: Finished | None = None

    def call(self, asked: ToolCall) -> ToolResult:
        before = self.workspace.changes()
        try:
            return ToolResult(call_id=asked.id, name=asked.name, ok=True, text=self._run(asked.name, asked.arguments))
        except (ToolRefused, NotEditable, PathRefused) as refusal:
            self.workspace.restore(before)
            return ToolResult(call_id=asked.id, name=asked.name, ok=False, text=str(refusal))

    def _run(self, name: str, arguments: dict[str, Any]) -> str:
        tool = TOOLS.get(name)
        if tool is None:
            raise ToolRefused(f"There is no tool {name}; there are {', '.join(TOOLS)}.")
        try:
            asked = tool.arguments.model_validate(arguments)
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors())
            raise ToolRefused(f"The arguments do not fit: {faults}.") from None
        text = tool.run(self.workspace, asked)
        if isinstance(asked, Finished):
            self.finished = asked
        return text
