"""Reads Plausible's export: imported_visitors_….csv with totals by day, and imported_pages_….csv with pages."""

from copydesk.analytics.history import HistoryCounts, ImportedHistory
from copydesk.transfer.history.cells import InvalidCell, parse_count, parse_date, parse_path
from copydesk.transfer.history.csv_rows import CsvFile, CsvRow, FaultLog
from copydesk.transfer.history.limits import ImportLimits

DAY_COLUMNS = {"date", "visitors", "pageviews"}
PAGE_COLUMNS = {*DAY_COLUMNS, "page"}


def is_day_file(columns: set[str]) -> bool:
    """Returns whether these are the columns of totals by day. Other files of the export have a further name."""
    return columns >= {*DAY_COLUMNS, "bounces", "visits"} and "page" not in columns


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
