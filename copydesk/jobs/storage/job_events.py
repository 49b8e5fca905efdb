"""Describes a job for webhooks. This module does no input or output."""

from typing import Any

from copydesk.core.clock import format_iso, format_iso_or_none
from copydesk.core.projects.project_events import EventType
from copydesk.core.text.truncation import truncate
from copydesk.jobs.job import Job, PullState, Reason, Status

MAX_PROMPT_EXCERPT_CHARS = 300
MAX_SUMMARY_CHARS = 2_000
MAX_RISK_CHARS = 300
MAX_RISKS = 20
END_EVENTS = {Status.COMPLETED: EventType.JOB_COMPLETED, Status.FAILED: EventType.JOB_FAILED}
PULL_EVENTS: dict[PullState, EventType] = {
    "open": EventType.PULL_OPENED,
    "merged": EventType.PULL_MERGED,
    "closed": EventType.PULL_CLOSED,
}
GOOD_REASONS = (None, Reason.NO_CHANGES, Reason.QUESTION)
"""A run of an automation that ends with any other reason has failed."""


def find_pull_event(before: PullState | None, after: PullState | None) -> EventType | None:
    """Returns the event of a change of the pull request's state; None if it did not change."""
    return None if after is None or after == before else PULL_EVENTS[after]


def describe_job(job: Job) -> dict[str, Any]:
    """Returns the job as events contain it. Long texts are truncated; the API has all of them."""
    return {
        "id": job.id,
        "status": job.status.value,
        "reason": job.reason.value if job.reason else None,
        "message": job.message,
        "title": job.title,
        "summary": truncate(job.summary, MAX_SUMMARY_CHARS) if job.summary else None,
        "prompt": truncate(job.prompt, MAX_PROMPT_EXCERPT_CHARS),
        "risk": [
            {"kind": risk.kind.value, "text": truncate(risk.text, MAX_RISK_CHARS)} for risk in job.risk[:MAX_RISKS]
        ],
        "model": job.model,
        "branch": job.branch,
        "baseBranch": job.ref,
        "commit": job.head,
        "pullRequest": {"url": job.pr_link, "state": job.pull_state} if job.pr_link else None,
        "automationId": job.automation_id,
        "createdBy": job.created_by.model_dump(mode="json") if job.created_by else None,
        "createdAt": format_iso(job.created_at),
        "finishedAt": format_iso_or_none(job.finished_at),
        "archivedAt": format_iso_or_none(job.archived_at),
    }
