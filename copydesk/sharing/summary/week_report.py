"""The facts of a weekly summary. The numbers are those of the API for the same days."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import case, select

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.interactions.feedback import Feedback, FeedbackFilter
from copydesk.analytics.stores.base import DayRange, Store
from copydesk.analytics.stores.report_rows import Counts, MissingRow, PageCounts
from copydesk.core.clock import DAY
from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Project
from copydesk.jobs.storage.tables import jobs

DAYS_PER_WEEK = 7
MAX_TOP_PAGES = 10
MAX_RISERS = 5
MAX_MISSING = 5
MAX_MERGED = 10
MAX_PAGES_COMPARED = 1_000
MAX_PAGES_BEFORE = 10_000
MAX_PAGES_WITH_FEEDBACK = 10_000


class Riser(NamedTuple):
    """A page with more visitors than in the week before."""

    path: str
    now: int
    before: int


class FeedbackCounts(NamedTuple):
    helpful: int
    not_helpful: int
    total: int


class MergedPull(NamedTuple):
    title: str
    link: str | None
    """The address of the pull request; None for a change that was pushed without one."""


@dataclass(frozen=True)
class WeekReport:
    project: Project
    days: DayRange
    visitors: Counts
    visitors_before: Counts
    views: Counts
    views_before: Counts
    top_pages: Sequence[PageCounts]
    risers: Sequence[Riser]
    missing: Sequence[MissingRow]
    feedback: FeedbackCounts
    merged: Sequence[MergedPull]
    """The newest merged pull requests, at most MAX_MERGED."""
    merged_count: int


def find_week(slot: int) -> DayRange:
    """Returns the last seven UTC days that are complete at this time."""
    end = slot // DAY
    return DayRange(end - DAYS_PER_WEEK, end)


def build_week_report(
    database: Database, store: Store, feedback: Feedback, project: Project, days: DayRange
) -> WeekReport:
    before = DayRange(days.first - DAYS_PER_WEEK, days.first)
    pages = store.count_visitors_by_page(project.id, days, MAX_PAGES_COMPARED)
    pages_before = store.count_visitors_by_page(project.id, before, MAX_PAGES_BEFORE)
    merged = _list_merged(database, project.id, TimeRange.from_days(days))
    return WeekReport(
        project=project,
        days=days,
        visitors=pages.totals,
        visitors_before=pages_before.totals,
        views=store.count_views_by_page(project.id, days, 1).totals,
        views_before=store.count_views_by_page(project.id, before, 1).totals,
        top_pages=pages.rows[:MAX_TOP_PAGES],
        risers=_find_risers(pages.rows, pages_before.rows, pages_before.has_more),
        missing=store.list_missing_pages(project.id, days, MAX_MISSING).rows,
        feedback=_count_feedback(feedback, project.id, days),
        merged=merged[:MAX_MERGED],
        merged_count=len(merged),
    )


def _find_risers(now: Sequence[PageCounts], before: Sequence[PageCounts], is_cut: bool) -> list[Riser]:
    """Returns the pages that gained the most visitors; none if there was no visitor before.

    If the list of the week before is cut, pages that it lacks are left out, because their number is not known.
    """
    if not before:
        return []
    visitors_before = {row.path: row.count.total for row in before}
    risers = [
        Riser(row.path, row.count.total, visitors_before.get(row.path, 0))
        for row in now
        if row.path in visitors_before or not is_cut
    ]
    rising = [riser for riser in risers if riser.now > riser.before]
    return sorted(rising, key=lambda riser: (riser.before - riser.now, riser.path))[:MAX_RISERS]


def _count_feedback(feedback: Feedback, project_id: str, days: DayRange) -> FeedbackCounts:
    in_week = FeedbackFilter(TimeRange.from_days(days))
    pages, _ = feedback.count_by_page(project_id, in_week, MAX_PAGES_WITH_FEEDBACK)
    return FeedbackCounts(
        helpful=sum(page.thumbs_up for page in pages),
        not_helpful=sum(page.thumbs_down for page in pages),
        total=sum(page.total for page in pages),
    )


def _list_merged(database: Database, project_id: str, times: TimeRange) -> list[MergedPull]:
    """Returns the pull requests that were merged in this time, newest first.

    A job is archived when its pull request is merged. A job that pushed without one has none; it counts when it ended.
    """
    merged_at = case((jobs.c.pr_link.is_not(None), jobs.c.archived_at), else_=jobs.c.finished_at)
    of_project = (jobs.c.project_id == project_id) & (jobs.c.pull_state == "merged")
    is_in_week = (merged_at >= times.first) & (merged_at < times.end)
    query = select(jobs.c.title, jobs.c.prompt, jobs.c.pr_link).where(of_project, is_in_week)
    with database.read() as tx:
        rows = tx.execute(query.order_by(merged_at.desc(), jobs.c.id.desc())).all()
    return [MergedPull(row.title or row.prompt, row.pr_link) for row in rows]
