"""Reads Plausible's export: imported_visitors_….csv with totals by day, and imported_pages_….csv with pages."""

from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.history import HistoryCounts, ImportedHistory
from copydesk.transfer.history.cells import InvalidCell, parse_count, parse_date, parse_path
from copydesk.transfer.history.csv_rows import CsvFile, CsvRow, FaultLog, HistoryFileInvalid
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
        return _has_table_name(name, DAY_NAME, DAY_COLUMNS, columns)
    return columns >= {*DAY_COLUMNS, "bounces", "visits"} and columns <= DAY_COLUMNS | METRIC_COLUMNS


def is_page_file(name: str, columns: set[str]) -> bool:
    """Returns whether a file has totals by day and page."""
    if name.startswith(NAME_PREFIX):
        return _has_table_name(name, PAGE_NAME, PAGE_COLUMNS, columns)
    return columns >= PAGE_COLUMNS


def _has_table_name(name: str, table: str, needed_columns: set[str], columns: set[str]) -> bool:
    """Raises HistoryFileInvalid for a file that has the name of the table but not its columns."""
    if not name.startswith(table):
        return False
    if missing := sorted(needed_columns - columns):
        raise HistoryFileInvalid(f"{name} has no column {missing[0]} in its first line.")
    return True


def read_days(file: CsvFile, history: ImportedHistory, faults: FaultLog, limits: ImportLimits) -> None:
    days: dict[int, HistoryCounts] = {}
    for row in file:
        limits.count_row()
        try:
            day, counts = parse_date(row.get("date")), _parse_counts(row)
        except InvalidCell as error:
            faults.add(file.name, row.line, str(error))
            continue
        days[day] = counts.plus(days.get(day, HistoryCounts(0, 0)))
    _refuse_repeated_days(file.name, days.keys() & history.days.keys())
    history.days.update(days)


def read_pages(file: CsvFile, history: ImportedHistory, faults: FaultLog, limits: ImportLimits) -> None:
    """Adds up rows of a file with the same day and path: some versions of Plausible have one for each host."""
    pages: dict[tuple[int, str], HistoryCounts] = {}
    for row in file:
        limits.count_row()
        try:
            key, counts = (parse_date(row.get("date")), parse_path(row.get("page"))), _parse_counts(row)
        except InvalidCell as error:
            faults.add(file.name, row.line, str(error))
            continue
        pages[key] = counts.plus(pages.get(key, HistoryCounts(0, 0)))
        limits.check_pages(len(history.pages) + len(pages))
    _refuse_repeated_days(file.name, {day for day, _ in pages} & {day for day, _ in history.pages})
    history.pages.update(pages)


def _refuse_repeated_days(name: str, days: set[int]) -> None:
    """Raises HistoryFileInvalid if another file has the same days: their sum would count everything twice."""
    if days:
        raise HistoryFileInvalid(
            f"{name} has days that another file has too, such as {format_day(min(days))}. "
            "Import the files one after the other: for such days, the last file counts."
        )


def _parse_counts(row: CsvRow) -> HistoryCounts:
    return HistoryCounts(parse_count("visitors", row.get("visitors")), parse_count("pageviews", row.get("pageviews")))
