"""Jobs: their statuses, phases, reasons and allowed transitions. This module does no input or output."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from copydesk.core.errors import UserFacingError
from copydesk.jobs.risk import Risk


class Status(StrEnum):
    ACTIVE = "active"
    COMPLETED = "completed"
    ARCHIVED = "archived"
    FAILED = "failed"


class Phase(StrEnum):
    QUEUED = "queued"
    PREPARING = "preparing"
    THINKING = "thinking"
    CHECKING = "checking"
    PUBLISHING = "publishing"
    DONE = "done"


class Reason(StrEnum):
    NO_CHANGES = "no_changes"
    NOT_UNDERSTOOD = "not_understood"
    QUESTION = "question"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    BUDGET_EXCEEDED = "budget_exceeded"
    MODEL_ERROR = "model_error"
    REPOSITORY_ERROR = "repository_error"
    PUBLISH_REFUSED = "publish_refused"
    CHECKS_FAILED = "checks_failed"
    INTERNAL_ERROR = "internal_error"


UNCHANGED_REASONS = (Reason.NO_CHANGES, Reason.NOT_UNDERSTOOD)
"""The reasons of a run that changed nothing."""
ACTIVE, COMPLETED, ARCHIVED, FAILED = Status.ACTIVE, Status.COMPLETED, Status.ARCHIVED, Status.FAILED

ALLOWED_TRANSITIONS = {
    ACTIVE: {COMPLETED, FAILED, ARCHIVED},
    COMPLETED: {ACTIVE, ARCHIVED},
    FAILED: {ACTIVE, ARCHIVED},
    ARCHIVED: {COMPLETED, FAILED},
}


def check_transition(old: Status, new: Status) -> Status:
    """Returns the new status. Raises ValueError when ALLOWED_TRANSITIONS does not permit the transition."""
    if new not in ALLOWED_TRANSITIONS[old]:
        raise ValueError(f"a job that is {old} cannot become {new}")
    return new


MAX_PROMPT_CHARS = 32_000


class Usage(BaseModel):
    """The model requests, tokens and cost that a job has used. A cost of None means that no price is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        costs = [usage.cost_usd for usage in (self, other) if usage.cost_usd is not None]
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=sum(costs) if costs else None,
        )


class JobQuestion(BaseModel):
    """A question that the agent asks before it continues, with likely answers. The answer is a follow-up message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    choices: tuple[str, ...] = ()


class MergeLimits(BaseModel):
    """The limits within which a job may push to the base branch without a pull request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paths: tuple[str, ...] = ()
    """Patterns of the files that it may change; none for all."""
    max_lines: int
    """Added and deleted lines together."""


class CreatorKind(StrEnum):
    KEY = "key"
    PERSON = "person"
    AUTOMATION = "automation"
    REVIEW_COMMENT = "review_comment"


class Creator(BaseModel):
    """Who asked for a job or sent it a message: an API key, a person, an automation or the author of a comment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: CreatorKind
    name: str
    id: str | None = None
    """The ID of the key, person or automation; None for an author on a forge."""


PullState = Literal["open", "merged", "closed"]


class ReviewState(StrEnum):
    """The result of a job, as the review queue shows it. The values are stored, so they must not change."""

    RUNNING = "running"
    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"
    UNANSWERED = "unanswered"
    """The agent asked a question, or did not understand the prompt."""
    UNCHANGED = "unchanged"
    FAILED = "failed"
    ARCHIVED = "archived"
    """Archived although its pull request was not merged or closed, as far as Copydesk knows."""


class JobObjection(BaseModel):
    """An objection of the second look that remains in the change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    line: int
    """The line when the change was read; 0 means the whole file."""
    text: str
    answer: str | None = None
    """Why the agent left it; None if it did not say."""


class JobSecondLook(BaseModel):
    """What the review model objected to, and what of it remains."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    total: int = 0
    """How many objections there were."""
    objections: tuple[JobObjection, ...] = ()
    note: str | None = None
    """Why the look was skipped or is incomplete."""

    @property
    def outcome(self) -> str:
        """What remains, in a sentence, and the note."""
        if remaining := len(self.objections):
            verb = "remains" if remaining == 1 else "remain"
            found = f"{remaining} of {self.total} objections {verb}." if self.total > 1 else "1 objection remains."
        else:
            found = "All objections were addressed." if self.total else "" if self.note else "No objections."
        return " ".join(filter(None, (found, self.note)))


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job. What has no value here begins empty: the job is queued, and no run has worked on it."""

    id: str
    project_id: str
    status: Status = ACTIVE
    phase: Phase = Phase.QUEUED
    prompt: str
    title: str | None = None
    summary: str | None = None
    reason: Reason | None = None
    message: str | None = None
    repository: str
    ref: str
    model: str
    draft: bool
    branch: str
    base: str | None = None
    head: str | None = None
    pr_link: str | None = None
    usage: Usage = field(default_factory=Usage)
    checks: list[Any] = field(default_factory=list)
    last_event: int = 1
    created_at: int
    updated_at: int
    finished_at: int | None = None
    archived_at: int | None = None
    archived_from: Status | None = None
    question: JobQuestion | None = None
    risk: list[Risk] = field(default_factory=list)
    """What a reviewer must look at, the gravest first, as the last run with a change left it."""
    context: list[str] | None = None
    """The names of the context repositories that the job reads; None means all of its project."""
    evidence: list[Any] = field(default_factory=list)
    """The places in context repositories that the agent cites for its statements."""
    reviewers: list[str] = field(default_factory=list)
    """Reviewers to request besides those of the project."""
    merge_limits: MergeLimits | None = None
    """None means that the work becomes a pull request."""
    created_by: Creator | None = None
    """None for a job that a program created without the API or the dashboard."""
    automation_id: str | None = None
    pull_state: PullState | None = None
    """The last known state of the pull request; None without one."""
    second_look: JobSecondLook | None = None
    review_state: ReviewState = ReviewState.RUNNING


@dataclass(frozen=True)
class JobOutcome:
    """The status that a run ended with, and the reason."""

    status: Status
    reason: Reason | None = None
    message: str | None = None
    keeps_job: bool = False
    """Whether the job keeps the status and reason that it had before the run."""


CANCELLED = JobOutcome(FAILED, Reason.CANCELLED, "The job was cancelled.")


class JobFailed(UserFacingError):
    """Ends the job as failed. The message is shown to the person who asked for the job."""

    reason = Reason.INTERNAL_ERROR

    def __init__(self, message: str, reason: Reason | None = None) -> None:
        super().__init__(message)
        self.reason = reason or self.reason


class RepositoryFailed(JobFailed):
    """Raised when the repository cannot be read or written."""

    reason = Reason.REPOSITORY_ERROR


def branch_name(job_id: str, prefix: str = "copydesk/") -> str:
    return prefix + job_id


def job_page_url(base_url: str, job: Job) -> str:
    """Returns the address of the job's page on the dashboard."""
    return f"{base_url}/projects/{job.project_id}/jobs/{job.id}"
