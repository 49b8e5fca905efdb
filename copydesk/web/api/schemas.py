"""JSON schemas of requests and responses."""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from copydesk.core.accounts.api_keys import ApiKey
from copydesk.core.clock import format_iso, format_iso_or_none
from copydesk.core.projects.projects import MAX_REF_CHARS, REF_PATTERN, Project
from copydesk.jobs.agent.models.model_names import MODEL_NAME_PATTERN
from copydesk.jobs.job import MAX_PROMPT_CHARS, CreatorKind, Job, Phase, Reason, Status
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.risk import RiskKind
from copydesk.jobs.service import ChangedFile, NewJob
from copydesk.jobs.storage.records import JobEvent


class ApiModel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True)


class ErrorDetailResponse(ApiModel):
    field: str
    message: str


class ErrorResponse(ApiModel):
    error: str
    """A message for people."""
    code: str
    """A stable code for programs."""
    details: list[ErrorDetailResponse] | None = None
    """Each error, if there are several or they belong to a field."""
    request_id: str
    """The request ID, as in the header `X-Request-Id`."""


TEXT_SCHEMA = {"schema": {"type": "string"}}
BINARY_SCHEMA = {"schema": {"type": "string", "format": "binary"}}
"""What the OpenAPI description says of responses that are neither JSON nor a stream of events."""


class RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, strict=True)


class LenientRequestModel(BaseModel):
    """A body under /v1. Ignores unknown fields, because clients of the original service send some."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True, strict=True, populate_by_name=True)


BLANK_CHARS = r"\x00-\x20\x7f-\xa0\s\u1680\u2000-\u200f\u202a-\u202f\u205f-\u2064\u3000\ufeff"
"""For regular expressions. `\\s` also stands for the line separators: generators copy patterns into the source of
programs, where an unescaped line separator would end the line."""
NOT_BLANK_PATTERN = rf"^[^\x00]*[^{BLANK_CHARS}][^\x00]*$"
NO_NUL_PATTERN = r"^[^\x00]*$"


class JobMessageRequest(RequestModel):
    prompt: str = Field(
        min_length=1,
        max_length=MAX_PROMPT_CHARS,
        examples=["Also mention the new flag in the FAQ."],
        json_schema_extra={"pattern": NOT_BLANK_PATTERN},
    )
    """What the agent should do."""

    @field_validator("prompt")
    @classmethod
    def _reject_blank(cls, prompt: str) -> str:
        if not re.search(f"[^{BLANK_CHARS}]", prompt):
            raise ValueError("must not be empty")
        return reject_nul(prompt)


class JobOptionsRequest(RequestModel):
    model: Annotated[str, Field(max_length=200, json_schema_extra={"pattern": MODEL_NAME_PATTERN})] | None = Field(
        None, examples=["mechanic"]
    )
    """The model to use. The default is the project's model."""
    ref: Annotated[str, Field(max_length=MAX_REF_CHARS, json_schema_extra={"pattern": REF_PATTERN})] | None = Field(
        None, examples=["main"]
    )
    """The branch to start from. The default is the project's branch."""
    draft: bool = False
    """Open the pull request as a draft."""
    title: Annotated[str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": NO_NUL_PATTERN})] | None = (
        None
    )
    """The title of the pull request. By default, the agent writes it."""
    context: Annotated[list[Annotated[str, Field(max_length=60)]], Field(max_length=10)] | None = Field(
        None, examples=[["api"]]
    )
    """The names of the context repositories that the agent may read. By default, it may read all."""

    @field_validator("model", "ref", "title")
    @classmethod
    def _reject_nul(cls, value: str | None) -> str | None:
        return None if value is None else reject_nul(value)

    def build_job(self, prompt: str) -> NewJob:
        return NewJob(
            prompt=prompt,
            model=self.model,
            ref=self.ref,
            draft=self.draft,
            title=self.title,
            context=self.context,
        )


class NewJobRequest(JobOptionsRequest, JobMessageRequest):
    def to_new_job(self) -> NewJob:
        return self.build_job(self.prompt)


def reject_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain a NUL character")
    return text


class JobSourceResponse(ApiModel):
    repository: str
    ref: str


class UsageResponse(ApiModel):
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class ChangedFileResponse(ApiModel):
    path: str
    change: Literal["added", "modified", "renamed", "deleted"]
    previous: str | None
    """The previous path of a renamed file."""
    additions: int
    deletions: int


class RemarkResponse(ApiModel):
    path: str
    line: int
    message: str


class FindingResponse(RemarkResponse):
    id: str | None = None
    """A short ID, by which the agent can declare the finding intended."""
    intended: str | None = None
    """The agent's reason why the finding is right as it is. The check has failed all the same."""


class QuestionResponse(ApiModel):
    text: str
    choices: list[str]
    """Up to four likely answers. Send one of them, or any other text, as a message."""


class EvidenceSourceResponse(ApiModel):
    repository: str
    """The name of the context repository; empty for the documentation repository."""
    commit: str
    path: str
    lines: str
    """A line number, or the first and the last one, such as `12-15`."""
    url: str | None
    """The permalink of the lines; null for plain git, and if the lines could not be verified."""


class EvidenceResponse(ApiModel):
    path: str
    """The page."""
    line: int
    statement: str
    source: EvidenceSourceResponse
    quote: str
    """The quoted lines as the source has them; what the agent quoted, if the source does not have it."""
    verified: bool
    """Whether the cited lines exist at that commit, contain what was quoted, and name what the statement names."""
    problem: str | None
    """Why it could not be verified."""


class CheckResponse(ApiModel):
    name: str
    """The name of the rule, or `command` for the project's check command."""
    status: Literal["passed", "failed", "not_judged", "skipped"]
    """`not_judged` means that the rule found no problem but could not judge a part of the change."""
    judged: int
    """How many references, fields, pages or names of the change the rule judged."""
    introduced: int
    """The number of problems that the change introduces. Only these make a check fail."""
    old: int
    """The number of problems that existed before."""
    findings: list[FindingResponse]
    """The first problems that the change introduces."""
    reason: str | None = None
    """Why the rule could not judge a part of the change; null if it judged all of it."""
    not_judged: list[RemarkResponse] = []
    """The first parts of the change that the rule could not judge."""
    please_check: list[RemarkResponse] = []
    """The first names that exist nowhere but may be right, such as a setting that an example chooses."""
    notes: list[RemarkResponse] = []
    """Remarks that need no change, such as a page outside the navigation where the generator allows that."""


class RiskResponse(ApiModel):
    kind: RiskKind
    """All but `please_check`, `unsure` and `not_judged` make the pull request a draft."""
    text: str


class CreatorResponse(ApiModel):
    kind: CreatorKind
    name: str
    """The name of the API key, person or automation, or of the comment's author on the forge."""
    id: str | None
    """The ID of the key, person or automation; null for an author on a forge."""


class PullRequestResponse(ApiModel):
    number: int
    state: Literal["open", "merged", "closed"]


class ObjectionResponse(ApiModel):
    path: str
    line: int
    """The line when the change was read; 0 for the whole file."""
    text: str
    answer: str | None
    """Why the agent left it; null if it did not say."""


class SecondLookResponse(ApiModel):
    model: str
    total: int
    """The number of objections, also of those that were addressed."""
    objections: list[ObjectionResponse]
    """The objections that remain."""
    note: str | None
    """Why the look was skipped or is incomplete."""


class JobResponse(ApiModel):
    id: str
    status: Status
    source: JobSourceResponse
    model: str
    pr_link: str | None
    """The URL of the pull request. Null while the job is active, and if it changed no file."""
    created_at: str
    archived_at: str | None
    prompt: str
    title: str | None
    summary: str | None
    """The agent's summary of its changes."""
    phase: Phase
    reason: Reason | None
    """Why the job failed, or why it completed without a pull request."""
    message: str | None
    """The reason as a sentence."""
    branch: str
    updated_at: str
    finished_at: str | None
    files_changed: list[ChangedFileResponse]
    checks: list[CheckResponse]
    """The results of the checks before publishing. Empty until then."""
    risk: list[RiskResponse]
    """What a reviewer must look at, the gravest first. Empty until publishing."""
    usage: UsageResponse
    question: QuestionResponse | None
    """The agent's question before it continues; null unless `reason` is `question`."""
    evidence: list[EvidenceResponse]
    """Where the code says what the agent wrote, for statements that rest on a context repository."""
    created_by: CreatorResponse | None
    """Who created the job; null for a job that a program created without the API or the dashboard."""
    automation: str | None
    """The ID of the automation that the job is a run of; null for other jobs."""
    pull_request: PullRequestResponse | None
    """The number and the last known state of the pull request. Null where `prLink` is null."""
    second_look: SecondLookResponse | None
    """The objections of the project's review model to the latest changes; null if there was no second look."""

    @classmethod
    def from_job(cls, job: Job, files: list[ChangedFile]) -> "JobResponse":
        return cls(
            id=job.id,
            status=job.status,
            source=JobSourceResponse(repository=job.repository, ref=job.ref),
            model=job.model,
            pr_link=None if job.status is Status.ACTIVE else job.pr_link,
            created_at=format_iso(job.created_at),
            archived_at=format_iso_or_none(job.archived_at),
            prompt=job.prompt,
            title=job.title,
            summary=job.summary,
            phase=job.phase,
            reason=job.reason,
            message=job.message,
            branch=job.branch,
            updated_at=format_iso(job.updated_at),
            finished_at=format_iso_or_none(job.finished_at),
            files_changed=[ChangedFileResponse.model_validate(file.__dict__) for file in files],
            checks=[CheckResponse.model_validate(check) for check in job.checks],
            risk=[RiskResponse(kind=each.kind, text=each.text) for each in job.risk],
            usage=UsageResponse.model_validate(job.usage.model_dump()),
            question=QuestionResponse.model_validate(job.question.model_dump()) if job.question else None,
            evidence=[EvidenceResponse.model_validate(each) for each in job.evidence],
            created_by=CreatorResponse.model_validate(job.created_by.model_dump()) if job.created_by else None,
            automation=job.automation_id,
            pull_request=_build_pull_request(job),
            second_look=SecondLookResponse.model_validate(job.second_look.model_dump()) if job.second_look else None,
        )


def _build_pull_request(job: Job) -> PullRequestResponse | None:
    if job.status is Status.ACTIVE or job.pr_link is None or job.pull_state is None:
        return None
    number = parse_pull_number(job.pr_link)
    return PullRequestResponse(number=number, state=job.pull_state) if number is not None else None


class JobListResponse(ApiModel):
    jobs: list[JobResponse]
    next_cursor: str | None


class ModelResponse(ApiModel):
    id: str
    default: bool
    available: bool
    """Whether the model is configured. Copydesk does not ask the provider."""
    missing: str | None
    """The missing requirement, if the model is not available."""


class ModelListResponse(ApiModel):
    models: list[ModelResponse]
    default: str


class KeyProjectResponse(ApiModel):
    id: str
    name: str


class KeyResponse(ApiModel):
    id: str
    name: str
    scopes: list[str]
    created_at: str
    expires_at: str | None
    project: KeyProjectResponse

    @classmethod
    def from_key(cls, key: ApiKey, project: Project) -> "KeyResponse":
        return cls(
            id=key.id,
            name=key.name,
            scopes=list(key.scopes),
            created_at=format_iso(key.created_at),
            expires_at=format_iso_or_none(key.expires_at),
            project=KeyProjectResponse(id=project.id, name=project.name),
        )


class JobEventResponse(ApiModel):
    seq: int
    at: str
    kind: str
    data: dict[str, Any]

    @classmethod
    def from_event(cls, event: JobEvent) -> "JobEventResponse":
        return cls(seq=event.seq, at=format_iso(event.at), kind=event.kind, data=event.data)


class JobEventListResponse(ApiModel):
    events: list[JobEventResponse]
