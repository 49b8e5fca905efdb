"""Daily totals of other tools, for tests that move a project to another database."""

from copydesk.analytics.history import HistoryCounts, HistoryDay, HistoryPage, HistorySource, ImportedHistory
from copydesk.analytics.stores.base import ALL_DAYS
from copydesk.desk import Desk

FIRST_DAY = 20_000
PATHS = ("/", "/guide", "/日本語/ä", '/it\'s "quoted"')


def add_history(desk: Desk, project_id: str) -> None:
    """Imports totals of both tools, for the site and for pages; one number is larger than 32 bits."""
    for offset, source in enumerate((HistorySource.PLAUSIBLE, HistorySource.UMAMI)):
        days = {FIRST_DAY + offset + day: HistoryCounts(day + 1, (day + 1) << 40) for day in range(3)}
        pages = {(FIRST_DAY + offset, path): HistoryCounts(number, number * 3) for number, path in enumerate(PATHS, 1)}
        desk.history.replace(project_id, ImportedHistory(source, days, pages))


def read_history(desk: Desk, project_id: str) -> tuple[list[HistoryDay], list[HistoryPage]]:
    """Returns all that was imported; asserts that it is something."""
    days, _ = desk.history.list_days(project_id, ALL_DAYS, 1000)
    pages, _ = desk.history.list_pages(project_id, ALL_DAYS, 1000)
    assert len(days) == 6
    assert len(pages) == 2 * len(PATHS)
    return list(days), list(pages)
