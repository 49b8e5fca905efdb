"""Tools that end a run: finish, with what the reviewer should know, and ask, with a question to the requester."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator

from copydesk.jobs.agent.tools.tool import Tool, ToolArguments
from copydesk.jobs.workspace.workspace import Workspace

MAX_SUMMARY_CHARS = 20_000
MAX_INTENDED = 100
MAX_CITATIONS = 50
MAX_CHOICES = 4
MAX_POINTS = 20
MAX_POINT_CHARS = 1000
LIST_MARK_PATTERN = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")


class IntendedFinding(ToolArguments):
    id: str = Field(max_length=20)
    """The ID of the finding, as check and finish show it."""
    reason: str = Field(min_length=1, max_length=500)
    """Why the change should stay as it is, for the reviewer."""


class CitedSource(ToolArguments):
    repository: str = Field("", max_length=60)
    """The context repository's name; empty for the documentation repository."""
    path: str = Field(min_length=1, max_length=1000)
    lines: str = Field(max_length=20)
    """The lines that prove the statement and have the names and numbers in it, such as 12 or 12-15."""
    quote: str = Field(min_length=1, max_length=500)
    """A fragment of these lines, exactly as written there, of 8 characters or more."""

    @field_validator("path", "lines", "quote")
    @classmethod
    def _strip_nul(cls, text: str) -> str:
        return text.replace("\x00", "")


class Citation(ToolArguments):
    """A statement on a page, and where the code says so."""

    path: str = Field(min_length=1, max_length=1000)
    """The page."""
    line: int = Field(1, ge=1)
    """The line of the statement on the page."""
    statement: str = Field(min_length=1, max_length=500)
    source: CitedSource

    @field_validator("path", "statement")
    @classmethod
    def _strip_nul(cls, text: str) -> str:
        return text.replace("\x00", "")


class Finished(ToolArguments):
    title: str = Field(min_length=1, max_length=200)
    """The pull request's title: what changed, in a few words."""
    summary: str = Field(max_length=MAX_SUMMARY_CHARS)
    """What was done and why, for the reviewer."""
    unsure: str = Field("", max_length=MAX_SUMMARY_CHARS)
    """What you were unsure of, for the reviewer to look at, one point per line; empty when there is nothing."""
    intended: list[IntendedFinding] = Field([], max_length=MAX_INTENDED)
    """Findings of the checks that are right as they are. A link to a missing file is accepted only if another open pull
    request adds that file."""

    evidence: list[Citation] = Field([], max_length=MAX_CITATIONS)
    """For each statement about the product on a page that you changed: where the code says so."""

    @field_validator("title", "summary", "unsure")
    @classmethod
    def _strip_nul(cls, text: str) -> str:
        return text.replace("\x00", "")

    @property
    def unsure_points(self) -> list[str]:
        """Returns the points that the model was unsure of: one for each line or item of a list."""
        lines = (LIST_MARK_PATTERN.sub("", line).strip() for line in self.unsure.splitlines())
        return [line[:MAX_POINT_CHARS] for line in lines if line][:MAX_POINTS]

    @property
    def intended_reasons(self) -> dict[str, str]:
        """Returns the reason of each intended finding, by its ID."""
        return {each.id: each.reason.replace("\x00", "") for each in self.intended}


def finish(_workspace: Workspace, _arguments: Finished) -> str:
    """Says that the work is done; call it last."""
    return "Finished."


Choice = Annotated[str, BeforeValidator(lambda text: text.replace("\x00", "") if isinstance(text, str) else text),
                   Field(min_length=1, max_length=200)]  # fmt: skip


class Question(ToolArguments):
    question: str = Field(min_length=1, max_length=2000)
    """One question that a person can answer without reading the repository."""
    choices: list[Choice] = Field([], max_length=MAX_CHOICES)
    """Up to four likely answers, each in a few words."""

    @field_validator("question")
    @classmethod
    def _strip_nul(cls, text: str) -> str:
        return text.replace("\x00", "")


def ask(_workspace: Workspace, _arguments: Question) -> str:
    """Ends the run with a question to the person who made the request, and publishes nothing. Only when the answer
    changes what you would do, and neither the request nor the repository has it."""
    return "Asked."


FINISH_TOOL = Tool.from_function("finish", Finished, finish)
ASK_TOOL = Tool.from_function("ask", Question, ask)
