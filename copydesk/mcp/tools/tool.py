"""Tools: functions with a schema of their arguments and of their result."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from copydesk.mcp.api import Api
from copydesk.mcp.tools.schemas import schema_from_arguments, schema_from_type

Scope = Literal["read", "write"]
ReportProgress = Callable[[str], Awaitable[None]]
"""Sends a progress notification with this message, if the client asked for progress.

Raises CallerLeft if the client has disconnected: then a call that only waits should end.
"""


class ArgumentsRefused(Exception):
    """The arguments do not match the schema. The message names each fault."""


class Arguments(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", use_attribute_docstrings=True
    )


class NoArguments(Arguments):
    pass


@dataclass(frozen=True)
class ToolCall:
    """What a tool works with: the API, with the rights of the caller's key, and the caller's progress."""

    api: Api
    report_progress: ReportProgress
    has_left: Callable[[], bool]
    """Whether the client disconnected and the call goes on. Within a session, this is not a cancellation."""


ToolFunction = Callable[[ToolCall, Any], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True)
class Tool:
    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type
    run: ToolFunction
    scope: Scope
    """The scope that an API key needs for this tool."""
    destructive: bool
    """Whether it can end or discard something, rather than only add to it."""
    idempotent: bool
    """Whether a second call with the same arguments changes nothing more."""
    text_field: str | None
    """The field of the result that is its text for people, and whose length the arguments limit.

    Without one, the text is the whole result as JSON, and the result is bounded.
    """

    @property
    def input_schema(self) -> dict[str, Any]:
        return schema_from_arguments(self.arguments)

    @property
    def output_schema(self) -> dict[str, Any]:
        return schema_from_type(self.result)

    def parse_arguments(self, arguments: Mapping[str, Any]) -> Arguments:
        """Returns the arguments. Raises ArgumentsRefused if they do not match the schema."""
        try:
            return self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in error.errors()]
            raise ArgumentsRefused("; ".join(faults)) from None


def define_tool(
    title: str,
    arguments: type[Arguments],
    result: type,
    *,
    scope: Scope = "read",
    destructive: bool = False,
    idempotent: bool = False,
    text_field: str | None = None,
) -> Callable[[ToolFunction], Tool]:
    """Makes a tool of a function: its name is the function's, its description the docstring, which models read.

    `python -OO` drops docstrings; then the title describes the tool.
    """

    def define(function: ToolFunction) -> Tool:
        assert function.__doc__
        description = " ".join((function.__doc__ or title).split())
        name: str = function.__name__
        return Tool(name, title, description, arguments, result, function, scope, destructive, idempotent, text_field)

    return define
