"""How things look in JSON."""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from copydesk.core.clock import iso, iso_or_none
from copydesk.core.projects.projects import LONGEST_REF, REF
from copydesk.jobs.agent.models.model_names import NAME
from copydesk.jobs.job import LONGEST_PROMPT, Job, Phase, Reason, Status
from copydesk.jobs.service import ChangedFile, NewJob
from copydesk.jobs.storage.records import Event


class View(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True)


class DetailView(View):
    field: str
    message: str


class ErrorView(View):
    error: str
    """One sentence for a person."""
    code: str
    """A stable word for a program."""
    details: list[DetailView] | None = None
    """Each fault, where there are several or they belong to a field."""
    request_id: str
    """The same as in the header `X-Request-Id`."""


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, strict=True)


BLANK = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
SAYS_SOMETHING = rf"^[^\x00]*[^{BLANK}][^\x00]*$"
NO_NUL = r"^[^\x00]*$"


class MessageBody(Body):
    prompt: str = Field(
        min_length=1,
        max_length=LONGEST_PROMPT,
        examples=["Also mention the new flag in the FAQ."],
        json_schema_extra={"pattern": SAYS_SOMETHING},
    )
    """What the agent should do."""

    @field_validator("prompt")
    @classmethod
    def _says_something(cls, prompt: str) -> str:
        if not re.search(f"[^{BLANK}]", prompt):
            raise ValueError("must not be empty")
        return without_nul(prompt)


class JobBody(MessageBody):
    model: Annotated[str, Field(max_length=200, json_schema_extra={"pattern": NAME})] | None = Field(
        None, examples=["mechanic"]
    )
    """The model to use; the project's default when left out."""
    ref: Annotated[str, Field(max_length=LONGEST_REF, json_schema_extra={"pattern": REF})] | None = Field(
        None, examples=["main"]
    )
    """The branch to start from; the project's default when left out."""
    draft: bool = False
    """Open the pull request as a draft."""
    title: Annotated[str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": NO_NUL})] | None = None
    """The pull request's title; the agent's own when left out."""

    @field_validator("model", "ref", "title")
    @classmethod
    def _is_storable(cls, value: str | None) -> str | None:
        return None if value is None else without_nul(value)

    def new_job(self) -> NewJob:
        return NewJob(prompt=self.prompt, model=self.model, ref=self.ref, draft=self.draft, title=self.title)


def without_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain a NUL character")
    return text


class SourceView(View):
    repository: str
    ref: str


class UsageView(View):
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class FileView(View):
    path: str
    change: Literal["added", "modified", "renamed", "deleted"]
    previous: str | None
    """The path it had before, where it was renamed."""
    additions: int
    deletions: int


class FindingView(View):
    path: str
    line: int
    message: str


class CheckView(View):
    name: str
    """The rule, or `command` for the project's own check command."""
    status: Literal["passed", "failed"]
    introduced: int
    """Faults that the job's change brings; these count."""
    old: int
    """Faults that were there before."""
    findings: list[FindingView]
    """The first of those that the change brings."""


class JobView(View):
    id: str
    status: Status
    source: SourceView
    model: str
    pr_link: str | None
    """The pull request; null while the job is active, and null when it changed no file."""
    created_at: str
    archived_at: str | None
    prompt: str
    title: str | None
    summary: str | None
    """What the agent did, in its words."""
    phase: Phase
    reason: Reason | None
    """Why the job ended as it did, where that needs a reason."""
    message: str | None
    """The reason in a sentence."""
    branch: str
    updated_at: str
    finished_at: str | None
    files_changed: list[FileView]
    checks: list[CheckView]
    """What was checked before publishing; empty until then."""
    usage: UsageView

    @classmethod
    def of(cls, job: Job, files: list[ChangedFile]) -> "JobView":
        return cls(
            id=job.id,
            status=job.status,
            source=SourceView(repository=job.repository, ref=job.ref),
            model=job.model,
            pr_link=None if job.status is Status.ACTIVE else job.pr_link,
            created_at=iso(job.created_at),
            archived_at=iso_or_none(job.archived_at),
            prompt=job.prompt,
            title=job.title,
            summary=job.summary,
            phase=job.phase,
            reason=job.reason,
            message=job.message,
            branch=job.branch,
            updated_at=iso(job.updated_at),
            finished_at=iso_or_none(job.finished_at),
            files_changed=[FileView.model_validate(file.__dict__) for file in files],
            checks=[CheckView.model_validate(check) for check in job.checks],
            usage=UsageView.model_validate(job.usage.model_dump()),
        )


class JobsView(View):
    jobs: list[JobView]
    next_cursor: str | None


class ModelView(View):
    id: str
    default: bool
    available: bool
    """Whether everything that it needs is set here; the provider is not asked."""
    missing: str | None
    """What is not set."""


class ModelsView(View):
    models: list[ModelView]
    default: str


class EventView(View):
    seq: int
    at: str
    kind: str
    data: dict[str, Any]

    @classmethod
    def of(cls, event: Event) -> "EventView":
        return cls(seq=event.seq, at=iso(event.at), kind=event.kind, data=event.data)


class EventsView(View):
    events: list[EventView]
