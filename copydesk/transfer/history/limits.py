"""Limits of an import: how much is read, and how much is stored."""

from copydesk.transfer.history.csv_rows import HistoryFileInvalid

MAX_ROWS = 5_000_000
MAX_EVENTS = 5_000_000
MAX_PAGE_ROWS = 100_000
"""They are stored in one transaction, which holds up other writers of SQLite for some seconds."""
MAX_UNPACKED_BYTES = 2_000_000_000
MAX_ARCHIVE_ENTRIES = 1_000


class ImportLimits:
    """Counts what an import has read, and raises HistoryFileInvalid when it is too much."""

    def __init__(
        self, max_rows: int = MAX_ROWS, max_events: int = MAX_EVENTS, max_page_rows: int = MAX_PAGE_ROWS
    ) -> None:
        self._rows_left = max_rows
        self._events_left = max_events
        self._max_page_rows = max_page_rows

    def count_row(self) -> None:
        self._rows_left -= 1
        if self._rows_left < 0:
            raise HistoryFileInvalid(f"The files have more than {MAX_ROWS:,} rows. Export shorter periods.")

    def count_event(self) -> None:
        self._events_left -= 1
        if self._events_left < 0:
            raise HistoryFileInvalid(f"The file has more than {MAX_EVENTS:,} events. Export shorter periods.")

    def check_pages(self, page_rows: int) -> None:
        if page_rows > self._max_page_rows:
            raise HistoryFileInvalid(
                f"The files have more than {MAX_PAGE_ROWS:,} combinations of a day and a page. Export shorter periods."
            )
