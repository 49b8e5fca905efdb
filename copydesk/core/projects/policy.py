"""How a project wants its pull requests made. People set it; the agent cannot override it."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from copydesk.core.projects.options import CommaSeparated, ProjectOptions

BRANCH_PREFIX_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*)*[/-]")
EMAIL_PATTERN = re.compile(r"[^\s<>@]+@[^\s<>@]+")
CO_AUTHOR_PATTERN = re.compile(r"[^<>\x00-\x1f]+ <[^\s<>@]+@[^\s<>@]+>")


class Policy(ProjectOptions):
    draft: bool = False
    """Every pull request is opened as a draft."""
    labels: CommaSeparated = ()
    """Labels that every pull request gets."""
    reviewers: CommaSeparated = ()
    """Who is asked to review every pull request, by their names on the forge."""
    branch_prefix: Annotated[str, Field(max_length=60)] = "copydesk/"
    """What the branches of jobs begin with."""
    allowed_paths: CommaSeparated = ()
    """Protected paths that jobs may change all the same, as shell patterns."""
    required_fields: CommaSeparated = ()
    """Front-matter fields that every page must have."""
    ignored_checks: CommaSeparated = ()
    """Checks that are not run, by name."""
    check_command: Annotated[str, Field(max_length=2000)] | None = None
    """A command, such as a site build, that a change must pass; it runs in a sandbox."""
    check_minutes: float = Field(5, gt=0, le=60)
    """How long the check command may take."""
    on_findings: Literal["draft", "fail"] = "draft"
    """What becomes of a change whose faults the model did not mend: a draft with the findings, or a failed job."""
    author_name: Annotated[str, Field(min_length=1, max_length=100)] = "Copydesk"
    """The author of the commits."""
    author_email: Annotated[str, Field(max_length=200)] = "copydesk@localhost"
    """Their address."""
    sign_off: bool = False
    """Commits end with the author's Signed-off-by line."""
    co_authors: CommaSeparated = ()
    """Further authors of the commits, each as `Name <address>`."""
    mention: Annotated[str, Field(min_length=2, max_length=60, pattern=r"^@[\w-]+$")] = "@copydesk"
    """The word by which a comment on a pull request speaks to the agent."""
    app_id: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[\w.-]+$")] | None = None
    """The id of the GitHub App that works for this project; its key is the sealed secret `app_key`."""

    @field_validator("branch_prefix")
    @classmethod
    def _validate_branch_prefix(cls, value: str) -> str:
        if not BRANCH_PREFIX_PATTERN.fullmatch(value):
            raise ValueError("must be letters, digits, - and _ that end with / or -, such as docs/")
        return value

    @field_validator("author_name", "author_email")
    @classmethod
    def _validate_single_line(cls, value: str) -> str:
        if not value.isprintable() or set("<>") & set(value):
            raise ValueError("must be one line without < and >")
        return value

    @field_validator("author_email")
    @classmethod
    def _validate_author_email(cls, value: str) -> str:
        if not EMAIL_PATTERN.fullmatch(value):
            raise ValueError("must be an address such as docs@example.org")
        return value

    @field_validator("co_authors")
    @classmethod
    def _validate_co_authors(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for co_author in value:
            if not CO_AUTHOR_PATTERN.fullmatch(co_author):
                raise ValueError("must be people as `Name <address>`, with commas between")
        return value

    @field_validator("check_command", "app_id", mode="before")
    @classmethod
    def _empty_to_none(cls, value: Any) -> Any:
        return None if value == "" else value
