"""Reads the signals of readers from the analytics, for automations. The two halves do not import each other."""

from collections.abc import Callable, Sequence

from copydesk.analytics.date_ranges import TimeRange
from copydesk.analytics.interactions.feedback import OPEN_STATUSES, Feedback, FeedbackEntry, FeedbackFilter
from copydesk.analytics.interactions.searches import Searches
from copydesk.analytics.stores.base import FIRST_DAY, DayRange, PageQuery, Store
from copydesk.automations.reader_signals import MissingPage, PageComplaints, PopularPage, UnansweredSearch
from copydesk.core import clock

MIN_COMPLAINTS = 2
"""How many readers must find a page not helpful. One reader alone may be mistaken."""
MIN_SEARCHES = 3
MIN_MISSING_REQUESTS = 3
MAX_ROWS = 50
MAX_POPULAR_PAGES = 500
MAX_ENTRIES_READ = 2000
ENTRIES_PER_QUERY = 100


class AnalyticsSignals:
    """Implements ReaderSignals. `get_store` returns the store after it has counted all views so far."""

    def __init__(self, feedback: Feedback, searches: Searches, get_store: Callable[[str], Store]) -> None:
        self._feedback = feedback
        self._searches = searches
        self._get_store = get_store

    def list_complaints(self, project_id: str, since: int) -> Sequence[PageComplaints]:
        """Returns pages with recurring negative feedback that nobody has resolved, most complaints first."""
        by_path: dict[str, list[FeedbackEntry]] = {}
        for entry in self._list_open_feedback(project_id, since):
            if entry.helpful is False:
                by_path.setdefault(entry.path, []).append(entry)
        complaints = [
            PageComplaints(path, len(entries), [entry.comment for entry in entries if entry.comment])
            for path, entries in by_path.items()
            if len(entries) >= MIN_COMPLAINTS
        ]
        return sorted(complaints, key=lambda each: (-each.readers, each.path))

    def list_unanswered_searches(self, project_id: str, since: int) -> Sequence[UnansweredSearch]:
        report = self._searches.report(project_id, TimeRange(since), MAX_ROWS, is_clicked=False)
        return [UnansweredSearch(row.query, row.hits) for row in report.rows if row.hits >= MIN_SEARCHES]

    def list_missing_pages(self, project_id: str, since: int) -> Sequence[MissingPage]:
        """Returns missing pages that people or AI requested several times, most visitors first."""
        report = self._get_store(project_id).list_missing_pages(project_id, _list_days(since), limit=MAX_ROWS)
        return [
            MissingPage(row.path, row.count.total, [each.referrer for each in row.referrers])
            for row in report.rows
            if row.views >= MIN_MISSING_REQUESTS
        ]

    def list_popular_pages(self, project_id: str, since: int) -> Sequence[PopularPage]:
        """Returns the pages with the most human visitors."""
        report = self._get_store(project_id).count_visitors_by_page(
            project_id, _list_days(since), limit=MAX_POPULAR_PAGES, query=PageQuery(by="human")
        )
        return [PopularPage(row.path, row.count.human) for row in report.rows if row.count.human]

    def _list_open_feedback(self, project_id: str, since: int) -> Sequence[FeedbackEntry]:
        filter_by = FeedbackFilter(TimeRange(since), statuses=OPEN_STATUSES)
        entries: list[FeedbackEntry] = []
        cursor = None
        while len(entries) < MAX_ENTRIES_READ:
            page, cursor = self._feedback.list_entries(project_id, filter_by, ENTRIES_PER_QUERY, cursor)
            entries += page
            if cursor is None:
                break
        return entries


def _list_days(since: int) -> DayRange:
    return DayRange(max(since // clock.DAY, FIRST_DAY), clock.now() // clock.DAY + 1)
