"""A project's policy for its pull requests. People set it; the agent cannot override it."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from copydesk.core.projects.options import CommaSeparated, ProjectOptions

BRANCH_PREFIX_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*)*[/-]")
EMAIL_PATTERN = re.compile(r"[^\s<>@]+@[^\s<>@]+")
API_URL_PATTERN = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:/[\w.~%-]+)*/?")
CO_AUTHOR_PATTERN = re.compile(r"[^<>\x00-\x1f]+ <[^\s<>@]+@[^\s<>@]+>")


class Policy(ProjectOptions):
    draft: bool = False
    """Open every pull request as a draft."""
    labels: CommaSeparated = ()
    """Labels for every pull request."""
    reviewers: CommaSeparated = ()
    """Reviewers to request for every pull request, by their names on the forge."""
    branch_prefix: Annotated[str, Field(max_length=60)] = "copydesk/"
    """The prefix of the job branches."""
    unprotected_paths: CommaSeparated = ()
    """Protected paths that jobs may change after all, as shell patterns such as .github/*.md."""
    required_fields: CommaSeparated = ()
    """Front-matter fields that every page must have."""
    ignored_checks: CommaSeparated = ()
    """Names of checks to skip."""
    check_command: Annotated[str, Field(max_length=2000)] | None = None
    """A command that a change must pass, such as a site build. It runs in a sandbox."""
    check_minutes: float = Field(5, gt=0, le=60)
    """How many minutes the check command may take."""
    on_check_failure: Literal["draft", "fail"] = "draft"
    """What to do when checks still fail after the model's fixes: open a draft with the findings, or fail the job."""
    review_model: Annotated[str, Field(max_length=200)] | None = None
    """A model that reads each finished change with fresh eyes and objects. Leave empty for no second look."""
    author_name: Annotated[str, Field(min_length=1, max_length=100)] = "Copydesk"
    """The author of the commits."""
    author_email: Annotated[str, Field(max_length=200)] = "copydesk@localhost"
    """The author's email address."""
    sign_off: bool = False
    """End commit messages with the author's Signed-off-by line."""
    co_authors: CommaSeparated = ()
    """Additional authors of the commits, each as `Name <address>`."""
    credit_requesters: bool = True
    """Name the signed-in people who asked for a change as co-authors of its commit, with their email addresses. Whoever
    can read the repository then sees these."""
    mention: Annotated[str, Field(min_length=2, max_length=60, pattern=r"^@[\w-]+$")] = "@copydesk"
    """The name with which a comment on a pull request addresses the agent."""
    api_url: Annotated[str, Field(max_length=300)] | None = None
    """The URL of the forge's API, if it does not follow from the repository's URL, such as https://host/git/api/v4."""
    app_id: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[\w.-]+$")] | None = None
    """The ID of the GitHub App that works for this project. Its private key is the secret `app_key`."""

    max_open_pull_requests: int = Field(5, ge=1, le=1000)
    """Open pull requests of jobs above which automations open no new one. Their runs then wait, or continue an open
    one."""
    automation_files: bool = False
    """Read automations from the files .copydesk/automations/*.md of the branch. Whoever can push to the branch can then
    create automations, also ones that push without a review."""

    @field_validator("branch_prefix")
    @classmethod
    def _validate_branch_prefix(cls, value: str) -> str:
        if not BRANCH_PREFIX_PATTERN.fullmatch(value):
            raise ValueError("must consist of letters, digits, -, _ and /, and end with / or -, such as docs/")
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
            raise ValueError("must be an email address such as docs@example.org")
        return value

    @field_validator("api_url")
    @classmethod
    def _validate_api_url(cls, value: str | None) -> str | None:
        if value is not None and not API_URL_PATTERN.fullmatch(value):
            raise ValueError("must be a URL such as https://example.org/api/v4, without credentials, query or fragment")
        return value.rstrip("/") if value else None

    @field_validator("co_authors")
    @classmethod
    def _validate_co_authors(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for co_author in value:
            if not CO_AUTHOR_PATTERN.fullmatch(co_author):
                raise ValueError("must be people as `Name <address>`, separated by commas")
        return value

    @field_validator("check_command", "review_model", "app_id", "api_url", mode="before")
    @classmethod
    def _empty_to_none(cls, value: Any) -> Any:
        return None if value == "" else value
