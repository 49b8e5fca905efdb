"""Reads Umami's export: website_event.csv, one row for each event, from which it counts days and pages."""

from copydesk.analytics.history import HistoryCounts, ImportedHistory
from copydesk.transfer.history.cells import InvalidCell, parse_date, parse_path
from copydesk.transfer.history.csv_rows import CsvFile, FaultLog, HistoryFileInvalid
from copydesk.transfer.history.distinct_counter import DistinctCounter
from copydesk.transfer.history.limits import ImportLimits

EVENT_COLUMNS = {"session_id", "url_path", "event_type", "created_at"}
PAGE_VIEW_TYPE = "1"


class UmamiEvents:
    """Counts the page views of events, and their visitors. A visitor is one of Umami's sessions."""

    def __init__(self) -> None:
        self._day_numbers: dict[int, int] = {}
        self._page_numbers: dict[tuple[int, str], int] = {}
        self._day_views: list[int] = []
        self._page_views: list[int] = []
        self._day_visitors, self._page_visitors = DistinctCounter(), DistinctCounter()
        self._website: str | None = None

    def read(self, file: CsvFile, faults: FaultLog, limits: ImportLimits) -> None:
        has_website = "website_id" in file.columns
        for row in file:
            limits.count_event()
            if has_website:
                self._check_website(row.get("website_id"))
            if row.get("event_type") != PAGE_VIEW_TYPE:
                continue
            try:
                day, path = parse_date(row.get("created_at")), parse_path(row.get("url_path"))
            except InvalidCell as error:
                faults.add(file.name, row.line, str(error))
                continue
            self._add_view(day, path, row.get("session_id"))
            limits.check_pages(len(self._page_numbers))

    def store_counts(self, history: ImportedHistory) -> None:
        day_visitors = self._day_visitors.count(len(self._day_views))
        for day, number in self._day_numbers.items():
            history.days[day] = HistoryCounts(day_visitors[number], self._day_views[number])
        page_visitors = self._page_visitors.count(len(self._page_views))
        for key, number in self._page_numbers.items():
            history.pages[key] = HistoryCounts(page_visitors[number], self._page_views[number])

    def _add_view(self, day: int, path: str, session_id: str) -> None:
        day_number = self._day_numbers.setdefault(day, len(self._day_numbers))
        page_number = self._page_numbers.setdefault((day, path), len(self._page_numbers))
        for number, views in ((day_number, self._day_views), (page_number, self._page_views)):
            if number == len(views):
                views.append(0)
            views[number] += 1
        self._day_visitors.add(day_number, session_id)
        self._page_visitors.add(page_number, session_id)

    def _check_website(self, website: str) -> None:
        if self._website is None:
            self._website = website
        elif website != self._website:
            raise HistoryFileInvalid("The file has events of several websites. Export one website at a time.")
