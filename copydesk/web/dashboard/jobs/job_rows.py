"""A job as pages show it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.core.projects.projects import Project
from copydesk.desk import Desk
from copydesk.jobs.job import Job, Reason, Status
from copydesk.jobs.service import ChangedFile
from copydesk.web.dashboard.jobs.timeline import outcome

LONGEST_HEADING = 120
REVIEW = re.compile(r"https?://[^?#]*/review/[0-9A-Za-z]{22}/pulls/([0-9]{1,9})")


@dataclass(frozen=True)
class Shown:
    job: Job
    files: Sequence[ChangedFile]
    worked: int
    pull: str | None
    """Where its pull request is: a page of ours, or the forge's."""

    @property
    def heading(self) -> str:
        """The title of the change, or else how the prompt begins."""
        title = self.job.title if self.job.reason is not Reason.NO_CHANGES else None
        lines = (title or self.job.prompt).strip().splitlines() or ["Untitled"]
        return lines[0] if len(lines[0]) <= LONGEST_HEADING else f"{lines[0][:LONGEST_HEADING]} …"

    @property
    def path(self) -> str:
        return f"/projects/{self.job.project_id}/jobs/{self.job.id}"

    @property
    def outcome(self) -> str:
        return outcome(self.job)

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
        return duration(self.worked)


def shown(desk: Desk, project: Project, jobs: Sequence[Job]) -> list[Shown]:
    ids = [job.id for job in jobs]
    files, worked = desk.jobs.files(ids), desk.jobs.worked(ids)
    return [Shown(job, files[job.id], worked[job.id], pull_address(project, job)) for job in jobs]


def pull_address(project: Project, job: Job) -> str | None:
    """Only what a browser can safely follow."""
    link = job.pr_link or ""
    ours = REVIEW.fullmatch(link) if project.forge == "local" else None
    if ours:
        return f"/projects/{project.id}/pulls/{ours[1]}"
    return link if link.startswith(("http://", "https://")) else None


def duration(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    if seconds < 60:
        return f"{seconds} s" if seconds else "under 1 s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
