"""A job with everything that the pages show of it."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from copydesk.core import clock
from copydesk.core.projects.projects import Project
from copydesk.core.text.plurals import pluralize
from copydesk.desk import Desk
from copydesk.jobs.job import CreatorKind, Job, Reason, ReviewState, Status
from copydesk.jobs.publish.forges.markers import parse_pull_number
from copydesk.jobs.publish.forges.review_reminder import ReviewReminder
from copydesk.jobs.risk import Risk, needs_draft, point_to_risks, summarize_risks
from copydesk.jobs.service import ChangedFile
from copydesk.jobs.storage.lookups.job_search import load_opened_at
from copydesk.web.dashboard.jobs.timeline import describe_creator, describe_outcome

MAX_HEADING_CHARS = 120
JOBS_PER_PAGE = 25
STATE_LABELS = {
    ReviewState.OPEN: "Open",
    ReviewState.MERGED: "Merged",
    ReviewState.CLOSED: "Closed",
    ReviewState.UNCHANGED: "Nothing changed",
    ReviewState.FAILED: "Failed",
    ReviewState.UNANSWERED: "Needs an answer",
    ReviewState.RUNNING: "Running",
    ReviewState.ARCHIVED: "Archived",
}
REVIEW_LINK_PATTERN = re.compile(r"https?://[^?#]*/review/[0-9A-Za-z]{22}/pulls/([0-9]{1,9})")


class RiskSummary(NamedTuple):
    """What a reviewer must look at in a few words, with a CSS class."""

    text: str
    tone: str


@dataclass(frozen=True)
class JobRow:
    job: Job
    files: Sequence[ChangedFile]
    worked: int
    pull: str | None
    """The URL of its pull request: a page of the dashboard, or a page of the forge."""
    project: Project
    has_automation: bool
    """Whether the automation that created the job still exists."""
    waiting_days: int | None = None
    """For how many days the pull request of an automation waits for a review; None unless that is too long."""
    opened_at: int | None = None
    """When the pull request was opened; None without one."""

    @property
    def heading(self) -> str:
        """The title of the change, or else the first line of the prompt."""
        title = self.job.title if self.job.reason is not Reason.NO_CHANGES else None
        lines = (title or self.job.prompt).strip().splitlines() or ["Untitled"]
        return lines[0] if len(lines[0]) <= MAX_HEADING_CHARS else f"{lines[0][:MAX_HEADING_CHARS]} …"

    @property
    def path(self) -> str:
        return f"/projects/{self.job.project_id}/jobs/{self.job.id}"

    @property
    def asker(self) -> str:
        """Who asked for the job, to follow the word "by"; empty if nobody was named."""
        return describe_creator(self.job.created_by)

    @property
    def automation_name(self) -> str | None:
        """The name of the automation that created the job; None for other jobs."""
        creator = self.job.created_by
        return creator.name if creator is not None and creator.kind is CreatorKind.AUTOMATION else None

    @property
    def automation_path(self) -> str | None:
        """The page of the automation; None if it was deleted."""
        return f"/projects/{self.job.project_id}/automations/{self.job.automation_id}" if self.has_automation else None

    @property
    def outcome(self) -> str:
        return describe_outcome(self.job)

    @property
    def state_label(self) -> str:
        """What became of the job, in a word: a merged or closed pull request is more than "archived"."""
        return STATE_LABELS[self.job.review_state].lower()

    @property
    def status_label(self) -> str:
        is_decided = self.job.review_state in (ReviewState.MERGED, ReviewState.CLOSED)
        return self.job.review_state if is_decided else self.job.status

    @property
    def age(self) -> str:
        """For how long the pull request is open; empty if it is not."""
        is_open = self.job.review_state is ReviewState.OPEN and self.opened_at is not None
        return format_age(clock.now() - (self.opened_at or 0)) if is_open else ""

    @property
    def pull_number(self) -> int | None:
        return parse_pull_number(self.job.pr_link or "")

    @property
    def note(self) -> str:
        """The job's message without the risks that its page shows above it."""
        message = self.job.message or ""
        for named in (self.job.risk, [risk for risk in self.job.risk if risk.needs_draft]):
            message = message.replace(point_to_risks(named), "")
        return message.strip()

    @property
    def risk(self) -> RiskSummary | None:
        """The risks of the published change; None if nothing was published."""
        return describe_risk(self.job.risk) if self.job.pull_state is not None else None

    @property
    def tone(self) -> str:
        """The CSS class of the status. A job that waits for an answer or a clearer prompt is no success."""
        if self.job.review_state in (ReviewState.MERGED, ReviewState.CLOSED):
            return self.job.review_state
        is_completed = self.job.status is Status.COMPLETED
        return (
            "warn" if is_completed and self.job.reason in (Reason.NOT_UNDERSTOOD, Reason.QUESTION) else self.job.status
        )

    @property
    def is_active(self) -> bool:
        return self.job.status is Status.ACTIVE

    @property
    def is_archived(self) -> bool:
        return self.job.status is Status.ARCHIVED

    @property
    def additions(self) -> int:
        return sum(file.additions for file in self.files)

    @property
    def deletions(self) -> int:
        return sum(file.deletions for file in self.files)

    @property
    def time_worked(self) -> str:
        return format_duration(self.worked)


def list_waiting_days(desk: Desk, job_ids: Collection[str]) -> dict[str, int]:
    return ReviewReminder(desk.database, desk.settings.review_reminder_days).list_waiting_days(job_ids)


def build_job_rows(desk: Desk, projects: Mapping[str, Project], jobs: Sequence[Job]) -> list[JobRow]:
    """Returns the rows of these jobs, whose projects are given by ID."""
    ids = [job.id for job in jobs]
    opened_at = load_opened_at(desk.database, ids)
    files_by_job = desk.jobs.changed_files(ids)
    time_by_job = desk.jobs.working_times(ids)
    waits = list_waiting_days(desk, ids)
    existing_ids = desk.automations.find_existing_ids({job.automation_id for job in jobs if job.automation_id})
    return [
        JobRow(
            job,
            files_by_job[job.id],
            time_by_job[job.id],
            safe_pull_url(projects[job.project_id], job.pr_link),
            projects[job.project_id],
            has_automation=job.automation_id in existing_ids,
            opened_at=opened_at.get(job.id),
            waiting_days=waits.get(job.id),
        )
        for job in jobs
    ]


def safe_pull_url(project: Project, pr_link: str | None) -> str | None:
    """Returns the link to the pull request if a browser can safely follow it, else None."""
    link = pr_link or ""
    review_match = REVIEW_LINK_PATTERN.fullmatch(link) if project.forge == "local" else None
    if review_match:
        return f"/projects/{project.id}/pulls/{review_match[1]}"
    return link if link.startswith(("http://", "https://")) else None


def describe_risk(risks: Sequence[Risk]) -> RiskSummary:
    if not risks:
        return RiskSummary("no risk found", "good")
    return RiskSummary(f"review first: {summarize_risks(risks)}", "bad" if needs_draft(risks) else "warn")


def format_age(milliseconds: int) -> str:
    """Returns an age in its largest whole unit, such as "3 days"."""
    for unit, size in (("day", clock.DAY), ("hour", clock.HOUR), ("minute", 60 * clock.SECOND)):
        count = milliseconds // size
        if count:
            return pluralize(count, unit)
    return "under 1 minute"


def format_duration(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    if seconds < 60:
        return f"{seconds} s" if seconds else "under 1 s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
