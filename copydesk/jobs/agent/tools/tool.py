"""The definition of a tool: a name, typed arguments, and a function from a workspace to a text for the model."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import getdoc
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from copydesk.jobs.workspace.context_tree import ContextTree, ReadableFiles
from copydesk.jobs.workspace.workspace import Workspace

MAX_OUTPUT_CHARS = 40_000


class ToolRefused(Exception):
    """Raised by a tool that did nothing. The message tells the model what to do instead."""


class ToolOutput(NamedTuple):
    """The output of a tool that has more than a text for the model."""

    text: str
    task_for_person: str = ""
    """What a person must do, because jobs may not; empty if there is nothing. The text says it too."""


class ToolArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class RepositoryArguments(ToolArguments):
    """Arguments of a tool that can also read context repositories."""

    repository: str = Field("", max_length=60)
    """A context repository, by its name; empty for the documentation."""


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    arguments: type[ToolArguments]
    run: Callable[[Workspace, Any], str | ToolOutput]

    @classmethod
    def from_function(
        cls, name: str, arguments: type[ToolArguments], run: Callable[[Workspace, Any], str | ToolOutput]
    ) -> "Tool":
        return cls(name, getdoc(run) or "", arguments, run)

    def execute(self, workspace: Workspace, arguments: ToolArguments) -> ToolOutput:
        output = self.run(workspace, arguments)
        return output if isinstance(output, ToolOutput) else ToolOutput(output)

    @cached_property
    def schema(self) -> dict[str, Any]:
        return _strip_titles(self.arguments.model_json_schema())


def _strip_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema without the titles that pydantic derives from names. Every request of a job pays for them."""
    stripped: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            stripped[key] = {name: _strip_titles(each) for name, each in value.items()}
        elif isinstance(value, dict):
            stripped[key] = _strip_titles(value)
        elif key == "anyOf":
            stripped[key] = [_strip_titles(each) for each in value]
        elif key != "title":
            stripped[key] = value
    return stripped


def truncate_output(text: str, hint: str) -> str:
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    return f"{text[:MAX_OUTPUT_CHARS]}\n… cut after {MAX_OUTPUT_CHARS:,} characters of {len(text):,}. {hint}"


def read_existing(files: ReadableFiles, path: str) -> bytes:
    try:
        return files.read(path)
    except KeyError:
        raise ToolRefused(f"There is no file {path}; use list or search to find it.") from None


def select_files(workspace: Workspace, repository: str) -> ReadableFiles:
    """Returns the files of a context repository, or the workspace if the name is empty."""
    return find_context(workspace, repository) if repository else workspace


def find_context(workspace: Workspace, repository: str) -> ContextTree:
    """Returns a context repository by its name. Raises ToolRefused if there is none."""
    context = workspace.contexts.get(repository)
    if context is None:
        names = ", ".join(workspace.contexts) or "none"
        raise ToolRefused(f"There is no context repository {repository}. This job has: {names}.")
    return context
