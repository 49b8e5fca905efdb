"""Automations and their runs as values. This module does no input or output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from copydesk.automations.definition import AutomationDefinition
from copydesk.jobs.job import ACTIVE, Job, Reason
from copydesk.jobs.storage.message_origins import OriginCommit


class NoticeCode(StrEnum):
    DAILY_LIMIT = "daily_limit"
    MONTHLY_COST = "monthly_cost"
    OPEN_PULL_REQUESTS = "open_pull_requests"
    RATE_LIMIT = "rate_limit"
    INVALID = "invalid"
    REPOSITORY_UNAVAILABLE = "repository_unavailable"
    RUNNING = "running"
    """An earlier run is still active. Never stored, since nobody has to do anything."""


@dataclass(frozen=True)
class Notice:
    """Why a run waits, for people. It is stored when it begins, and removed by the next run."""

    code: NoticeCode
    text: str
    at: int


@dataclass(frozen=True)
class FileSource:
    """The file of the project's repository that defines an automation."""

    file: str
    commit: str
    """The commit at which Copydesk first read the current definition."""
    problem: str | None = None
    """Why the automation is paused: the file is not valid, or the project does not read files. None otherwise."""


@dataclass(frozen=True)
class Automation:
    id: str
    project_id: str
    definition: AutomationDefinition
    next_slot_at: int | None
    notice: Notice | None
    created_at: int
    updated_at: int
    source: FileSource | None = None
    """None for an automation that is not defined by a file."""


class TriggerEvent(NamedTuple):
    """The event that starts a run. Only one run exists for each key of an automation."""

    key: str
    text: str
    """One sentence for people and for the agent."""
    data: Mapping[str, Any] = MappingProxyType({})
    details: str = ""
    """Data for the agent that Copydesk computed, such as the commits since the last run."""
    commits: Mapping[str, Sequence[str]] = MappingProxyType({})
    """The newest commits of the change by the name of their repository, which is empty for the project's own."""
    newest_commits: Sequence[OriginCommit] = ()
    """The first of these commits, for people."""
    awaits_comparison: bool = False
    """Whether the worker that begins the run adds the stale pages, since comparing them waits for git."""


class Outcome(StrEnum):
    RUNNING = "running"
    REVIEW_NEEDED = "review_needed"
    MERGED = "merged"
    CLOSED = "closed"
    FAILED = "failed"
    NOTHING_TO_DO = "nothing_to_do"


OUTCOME_TEXTS = {
    Outcome.RUNNING: "Running",
    Outcome.REVIEW_NEEDED: "Review needed",
    Outcome.MERGED: "Merged",
    Outcome.CLOSED: "Closed",
    Outcome.FAILED: "Failed",
    Outcome.NOTHING_TO_DO: "Nothing to do",
}


@dataclass(frozen=True)
class AutomationRun:
    id: str
    automation_id: str
    key: str
    job_id: str
    message_id: str
    is_appended: bool
    trigger: dict[str, Any]
    fired_at: int
    outcome: Outcome
    message: str | None
    """The outcome as a sentence; None if there is nothing to add."""
    pr_link: str | None
    """The URL of the job's pull request."""


def judge_outcome(job: Job, run_state: str | None, run_reason: str | None) -> Outcome:
    """Returns the outcome of one run of a job. `run_state` is None if no run has read its message yet."""
    if run_state is None:
        return Outcome.RUNNING if job.status is ACTIVE else Outcome.FAILED
    if run_state != "done":
        return Outcome.RUNNING
    if run_reason == Reason.NO_CHANGES:
        return Outcome.NOTHING_TO_DO
    if run_reason == Reason.QUESTION:
        return Outcome.REVIEW_NEEDED
    if run_reason is not None:
        return Outcome.FAILED
    return {"merged": Outcome.MERGED, "closed": Outcome.CLOSED}.get(job.pull_state or "", Outcome.REVIEW_NEEDED)
