"""Reads Umami's export: website_event.csv, one row for each event, from which it counts days and pages.

Also reads the table pageview of Umami 1, which has page views only, and a URL with its query instead of a path.
"""

from dataclasses import dataclass

from copydesk.analytics.history import ImportedHistory
from copydesk.core.text.plurals import pluralize
from copydesk.transfer.history.cells import InvalidCell, is_null, parse_count, parse_date, parse_path
from copydesk.transfer.history.csv_rows import CsvFile, CsvRow, FaultLog, HistoryFileInvalid, clean_value, quote_value
from copydesk.transfer.history.limits import ImportLimits
from copydesk.transfer.history.page_view_log import PageViewLog

EVENT_COLUMNS = {"session_id", "url_path", "event_type", "created_at"}
FIRST_VERSION_COLUMNS = {"view_id", "session_id", "url", "created_at"}
PAGE_VIEW_TYPE = 1
MAX_WEBSITES, MAX_SHOWN_WEBSITES = 1_000, 20


@dataclass
class _Website:
    id: str
    hostname: str
    page_views: int = 0

    def describe(self) -> str:
        hostname = "" if is_null(self.hostname) else f" ({clean_value(self.hostname)})"
        return f"  {clean_value(self.id)}{hostname}: {pluralize(self.page_views, 'page view')}"


def is_event_file(columns: set[str]) -> bool:
    return columns >= EVENT_COLUMNS or columns >= FIRST_VERSION_COLUMNS


class UmamiEvents:
    """Counts the page views of a website, and their visitors. A visitor is one of Umami's sessions."""

    def __init__(self, chosen_website: str | None = None) -> None:
        self.duplicate_count = 0
        self._chosen_website = None if chosen_website is None else chosen_website.strip().lower()
        self._websites: dict[str, _Website] = {}
        self._day_numbers: dict[int, int] = {}
        self._page_numbers: dict[tuple[int, str], int] = {}
        self._log = PageViewLog()

    def read(self, file: CsvFile, faults: FaultLog, limits: ImportLimits) -> None:
        has_website = "website_id" in file.columns
        if self._chosen_website is not None and not has_website:
            raise HistoryFileInvalid(f"{file.name} has no column website_id, so --website cannot choose its rows.")
        is_first_version = not file.columns.keys() >= EVENT_COLUMNS
        path_column, id_column = ("url", "view_id") if is_first_version else ("url_path", "event_id")
        has_id = id_column in file.columns
        for row in file:
            limits.count_event()
            try:
                if not is_first_version and parse_count("event_type", row.get("event_type")) != PAGE_VIEW_TYPE:
                    continue
                if has_website and not self._is_chosen(row, "hostname" in file.columns):
                    continue
                url = row.get(path_column)
                path = parse_path(url.partition("?")[0] if is_first_version else url)
                day = parse_date(row.get("created_at"))
            except InvalidCell as error:
                faults.add(file.name, row.line, str(error))
                continue
            event_id = row.get(id_column) if has_id else ""
            day_number = self._day_numbers.setdefault(day, len(self._day_numbers))
            page_number = self._page_numbers.setdefault((day, path), len(self._page_numbers))
            self._log.add(day_number, page_number, row.get("session_id"), None if is_null(event_id) else event_id)
            limits.check_pages(len(self._page_numbers))

    def store_counts(self, history: ImportedHistory) -> None:
        """Raises HistoryFileInvalid, which names the websites, if it is not clear which of them to count."""
        if self._chosen_website is None and len(self._websites) > 1:
            problem = f"The files have page views of {len(self._websites):,} websites. Choose one with --website:"
            raise HistoryFileInvalid(f"{problem}\n{self._list_websites()}")
        if self._chosen_website is not None and self._chosen_website not in self._websites:
            problem = f"The files have no page views of the website {quote_value(self._chosen_website)}"
            raise HistoryFileInvalid(
                f"{problem}, but of:\n{self._list_websites()}" if self._websites else f"{problem}."
            )
        counted = self._log.count(len(self._day_numbers), len(self._page_numbers))
        self.duplicate_count = counted.duplicate_count
        history.days.update(zip(self._day_numbers, counted.days, strict=True))
        history.pages.update(zip(self._page_numbers, counted.pages, strict=True))

    def _is_chosen(self, row: CsvRow, has_hostname: bool) -> bool:
        """Counts the page views of each website. Without a choice, only the first website is read further."""
        website_id = row.get("website_id").strip().lower()
        website = self._websites.get(website_id)
        if website is None:
            if len(self._websites) >= MAX_WEBSITES:
                raise HistoryFileInvalid(f"The files have more than {MAX_WEBSITES:,} websites. Export one at a time.")
            website = _Website(website_id, row.get("hostname") if has_hostname else "")
            self._websites[website_id] = website
        website.page_views += 1
        return website_id == (self._chosen_website or next(iter(self._websites)))

    def _list_websites(self) -> str:
        websites = sorted(self._websites.values(), key=lambda website: (-website.page_views, website.id))
        more = len(websites) - MAX_SHOWN_WEBSITES
        lines = [website.describe() for website in websites[:MAX_SHOWN_WEBSITES]]
        return "\n".join([*lines, *([f"  and {more:,} more"] if more > 0 else [])])
