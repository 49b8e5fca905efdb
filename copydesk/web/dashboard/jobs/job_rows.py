"""A job with everything that the pages show of it."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from copydesk.core.projects.projects import Project
from copydesk.desk import Desk
from copydesk.jobs.job import CreatorKind, Job, Reason, Status
from copydesk.jobs.publish.forges.review_reminder import ReviewReminder
from copydesk.jobs.service import ChangedFile
from copydesk.web.dashboard.jobs.timeline import describe_creator, describe_outcome

MAX_HEADING_CHARS = 120
REVIEW_LINK_PATTERN = re.compile(r"https?://[^?#]*/review/[0-9A-Za-z]{22}/pulls/([0-9]{1,9})")


@dataclass(frozen=True)
class JobRow:
    job: Job
    files: Sequence[ChangedFile]
    worked: int
    pull: str | None
    """The URL of its pull request: a page of the dashboard, or a page of the forge."""
    has_automation: bool
    """Whether the automation that created the job still exists."""
    waiting_days: int | None = None
    """For how many days the pull request of an automation waits for a review; None unless that is too long."""

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
        """Who asked for the job, to follow the word "by"; empty if that was not recorded."""
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
    def tone(self) -> str:
        """The CSS class of the status. A job that waits for an answer or a clearer prompt is no success."""
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


def build_job_rows(desk: Desk, project: Project, jobs: Sequence[Job]) -> list[JobRow]:
    ids = [job.id for job in jobs]
    files_by_job = desk.jobs.changed_files(ids)
    time_by_job = desk.jobs.working_times(ids)
    waits = list_waiting_days(desk, ids)
    existing_ids = desk.automations.find_existing_ids({job.automation_id for job in jobs if job.automation_id})
    return [
        JobRow(
            job,
            files_by_job[job.id],
            time_by_job[job.id],
            safe_pull_url(project, job.pr_link),
            has_automation=job.automation_id in existing_ids,
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


def format_duration(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    if seconds < 60:
        return f"{seconds} s" if seconds else "under 1 s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
