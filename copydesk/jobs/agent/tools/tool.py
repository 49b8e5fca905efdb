"""What a tool is: a name, typed arguments, and a function from a workspace to a text for the model."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import getdoc
from typing import Any

from pydantic import BaseModel, ConfigDict

from copydesk.jobs.workspace.workspace import Workspace

MOST_OUTPUT = 40_000


class ToolRefused(Exception):
    """The tool did nothing; the message tells the model what to do instead."""


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Workspace, Any], str]

    @classmethod
    def of(cls, name: str, arguments: type[Arguments], run: Callable[[Workspace, Any], str]) -> "Tool":
        return cls(name, getdoc(run) or "", arguments, run)

    @cached_property
    def schema(self) -> dict[str, Any]:
        return self.arguments.model_json_schema()


def capped(text: str, how_to_see_more: str) -> str:
    if len(text) <= MOST_OUTPUT:
        return text
    return f"{text[:MOST_OUTPUT]}\n… cut after {MOST_OUTPUT:,} characters of {len(text):,}. {how_to_see_more}"


def existing(workspace: Workspace, path: str) -> bytes:
    try:
        return workspace.read(path)
    except KeyError:
        raise ToolRefused(f"There is no file {path}; use list or search to find it.") from None
