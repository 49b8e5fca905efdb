"""Reads Plausible's export: imported_visitors_….csv with totals by day, and imported_pages_….csv with pages."""

from copydesk.analytics.history import HistoryCounts, ImportedHistory
from copydesk.transfer.history.cells import InvalidCell, parse_count, parse_date, parse_path
from copydesk.transfer.history.csv_rows import CsvFile, CsvRow, FaultLog
from copydesk.transfer.history.limits import ImportLimits

DAY_COLUMNS = {"date", "visitors", "pageviews"}
PAGE_COLUMNS = {*DAY_COLUMNS, "page"}
METRIC_COLUMNS = {"bounces", "visits", "visit_duration"}
NAME_PREFIX, DAY_NAME, PAGE_NAME = "imported_", "imported_visitors", "imported_pages"


def is_day_file(name: str, columns: set[str]) -> bool:
    """Returns whether a file has totals by day.

    The files by browser, device, system, place and source have the same columns and one more, and would be added to
    the totals. A file with another name than Plausible gives must have no column but those of totals.
    """
    if name.startswith(NAME_PREFIX):
        return name.startswith(DAY_NAME) and columns >= DAY_COLUMNS
    return columns >= {*DAY_COLUMNS, "bounces", "visits"} and columns <= DAY_COLUMNS | METRIC_COLUMNS


def is_page_file(name: str, columns: set[str]) -> bool:
    """Returns whether a file has totals by day and page."""
    return columns >= PAGE_COLUMNS and (name.startswith(PAGE_NAME) or not name.startswith(NAME_PREFIX))


def read_days(file: CsvFile, history: ImportedHistory, faults: FaultLog, limits: ImportLimits) -> None:
    for row in file:
        limits.count_row()
        try:
            day, counts = parse_date(row.get("date")), _parse_counts(row)
        except InvalidCell as error:
            faults.add(file.name, row.line, str(error))
            continue
        history.days[day] = counts.plus(history.days.get(day, HistoryCounts(0, 0)))


def read_pages(file: CsvFile, history: ImportedHistory, faults: FaultLog, limits: ImportLimits) -> None:
    """Adds up rows with the same day and path: Plausible has one for each host."""
    for row in file:
        limits.count_row()
        try:
            key, counts = (parse_date(row.get("date")), parse_path(row.get("page"))), _parse_counts(row)
        except InvalidCell as error:
            faults.add(file.name, row.line, str(error))
            continue
        history.pages[key] = counts.plus(history.pages.get(key, HistoryCounts(0, 0)))
        limits.check_pages(len(history.pages))


def _parse_counts(row: CsvRow) -> HistoryCounts:
    return HistoryCounts(parse_count("visitors", row.get("visitors")), parse_count("pageviews", row.get("pageviews")))
