"""What changed the documentation in a range: merged pull requests of jobs, and releases that started automations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.stores.base import DayRange
from copydesk.automations.triggers.releases import list_releases
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.jobs.storage.merged_jobs import list_merged_jobs

MAX_CHANGES = 100
"""How many changes of each kind are marked."""
MAX_TITLE_CHARS = 120


@dataclass(frozen=True)
class DocumentationChange:
    kind: Literal["merged", "release"]
    title: str
    at: int
    """In milliseconds since 1970."""
    job_id: str

    @property
    def day(self) -> int:
        return self.at // clock.DAY


def list_changes(database: Database, project_id: str, days: DayRange) -> Sequence[DocumentationChange]:
    """Returns the newest changes in these days, newest first."""
    times = TimeRange.from_days(days)
    changes = [
        DocumentationChange("merged", each.title[:MAX_TITLE_CHARS], each.merged_at, each.job_id)
        for each in list_merged_jobs(database, project_id, times.first, times.end, MAX_CHANGES)
    ]
    changes += [
        DocumentationChange("release", ", ".join(each.tags)[:MAX_TITLE_CHARS], each.at, each.job_id)
        for each in list_releases(database, project_id, times.first, times.end, MAX_CHANGES)
    ]
    return sorted(changes, key=lambda change: (-change.at, change.kind, change.job_id))
