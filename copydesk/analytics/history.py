"""The history that other analytics tools have counted: daily totals, kept apart from Copydesk's own exact counts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, delete, func, insert, select

from copydesk.analytics.stores.base import ALL_DAYS, DayRange
from copydesk.analytics.tables import history_days, history_pages
from copydesk.core.db.database import Database
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.runtime.batches import split_into_batches

ROWS_PER_STATEMENT, DAYS_PER_STATEMENT = 500, 500


class HistorySource(StrEnum):
    PLAUSIBLE = "plausible"
    UMAMI = "umami"


class HistoryCounts(NamedTuple):
    visitors: int
    pageviews: int

    def plus(self, other: "HistoryCounts") -> "HistoryCounts":
        return HistoryCounts(self.visitors + other.visitors, self.pageviews + other.pageviews)


class HistoryDay(NamedTuple):
    day: int
    source: str
    visitors: int
    pageviews: int


class HistoryPage(NamedTuple):
    path: str
    source: str
    visitors: int
    """The sum of the daily visitors: who came on several days counts several times."""
    pageviews: int


@dataclass
class ImportedHistory:
    """Totals that another tool counted, by day, and by day and path if its files have pages."""

    source: HistorySource
    days: dict[int, HistoryCounts] = field(default_factory=dict)
    pages: dict[tuple[int, str], HistoryCounts] = field(default_factory=dict)


class History:
    def __init__(self, database: Database) -> None:
        self._database = database

    def replace(self, project_id: str, history: ImportedHistory) -> None:
        """Stores a history in one transaction. Replaces what the same tool has for the same days."""
        page_rows = {day for day, _ in history.pages}
        with refuse_missing_project(self._database, project_id), self._database.write() as tx:
            if history.days:
                _delete_days(tx, history_days, project_id, history.source, history.days)
            if page_rows:
                _delete_days(tx, history_pages, project_id, history.source, page_rows | history.days.keys())
            _insert_rows(
                tx, history_days, project_id, history, [({"day": day}, counts) for day, counts in history.days.items()]
            )
            _insert_rows(
                tx,
                history_pages,
                project_id,
                history,
                [({"day": day, "path": path}, counts) for (day, path), counts in history.pages.items()],
            )

    def remove(self, project_id: str, source: HistorySource | None = None, days: DayRange = ALL_DAYS) -> int:
        """Removes the history of a tool (None means all) of these days. Returns how many days it removed."""
        with self._database.write() as tx:
            tx.execute(delete(history_pages).where(_select_rows(history_pages, project_id, days, source)))
            return tx.execute(delete(history_days).where(_select_rows(history_days, project_id, days, source))).rowcount

    def list_days(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[HistoryDay], bool]:
        """Returns totals by day and source, oldest first, and whether there are more."""
        table = history_days
        query = select(table.c.day, table.c.source, table.c.visitors, table.c.pageviews).order_by(
            table.c.day, table.c.source
        )
        rows = self._read(query.where(_select_rows(table, project_id, days)), limit, offset)
        return [HistoryDay(*row) for row in rows[:limit]], len(rows) > limit

    def list_pages(
        self, project_id: str, days: DayRange = ALL_DAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[HistoryPage], bool]:
        """Returns totals by path and source, most page views first, and whether there are more."""
        table = history_pages
        pageviews = func.sum(table.c.pageviews)
        query = (
            select(table.c.path, table.c.source, func.sum(table.c.visitors), pageviews)
            .where(_select_rows(table, project_id, days))
            .group_by(table.c.path, table.c.source)
            .order_by(pageviews.desc(), table.c.path, table.c.source)
        )
        rows = self._read(query, limit, offset)
        pages = [HistoryPage(path, source, int(visitors), int(views)) for path, source, visitors, views in rows[:limit]]
        return pages, len(rows) > limit

    def _read(self, query: Select[Any], limit: int, offset: int) -> Sequence[Any]:
        with self._database.read() as tx:
            return tx.execute(query.limit(limit + 1).offset(offset)).all()


def _select_rows(
    table: Table, project_id: str, days: DayRange, source: HistorySource | None = None
) -> ColumnElement[bool]:
    conditions = [table.c.project_id == project_id, table.c.day >= days.first, table.c.day < days.end]
    if source is not None:
        conditions.append(table.c.source == source)
    return and_(*conditions)


def _delete_days(tx: Connection, table: Table, project_id: str, source: str, days: Collection[int]) -> None:
    for batch in split_into_batches(sorted(days), DAYS_PER_STATEMENT):
        is_replaced = and_(table.c.project_id == project_id, table.c.source == source, table.c.day.in_(batch))
        tx.execute(delete(table).where(is_replaced))


def _insert_rows(
    tx: Connection,
    table: Table,
    project_id: str,
    history: ImportedHistory,
    rows: Sequence[tuple[Mapping[str, object], HistoryCounts]],
) -> None:
    owner = {"project_id": project_id, "source": history.source}
    for batch in split_into_batches(rows, ROWS_PER_STATEMENT) if rows else ():
        tx.execute(insert(table), [{**owner, **key, **counts._asdict()} for key, counts in batch])
