"""Selects, pages and deletes the rows of interactions, by project, time, visitor and age."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, and_, delete, func, or_, select

from copydesk.analytics.date_ranges import ALL_TIME, TimeRange
from copydesk.analytics.interactions.cursors import decode_cursor, encode_cursor
from copydesk.analytics.interactions.storage_quota import StorageQuota
from copydesk.core.clock import DAY
from copydesk.core.db.database import Database
from copydesk.core.runtime.batches import split_into_batches

MAX_VISITORS_PER_STATEMENT = 500


def rows_in_range(table: Table, project_id: str, times: TimeRange) -> list[ColumnElement[bool]]:
    """Returns the conditions for the rows of a project in this time."""
    conditions: list[ColumnElement[bool]] = [table.c.project_id == project_id]
    if times != ALL_TIME:
        conditions += [table.c.created_at >= times.first, table.c.created_at < times.end]
    return conditions


def read_page(
    tx: Connection, table: Table, query: Select[Any], limit: int, cursor: str | None
) -> tuple[Sequence[Row[Any]], str | None]:
    """Returns rows, newest first, and the cursor of the next page (None on the last page).

    Rows are ordered by the time that was sent with them, which can be long before they arrived.
    """
    created_at, row_id = table.c.created_at, table.c.id
    if cursor is not None:
        at, last_id = decode_cursor(cursor)
        query = query.where(or_(created_at < at, (created_at == at) & (row_id < last_id)))
    rows = tx.execute(query.order_by(created_at.desc(), row_id.desc()).limit(limit + 1)).all()
    page = rows[:limit]
    return page, encode_cursor(page[-1].created_at, page[-1].id) if len(rows) > limit else None


class InteractionRows:
    """The rows of one table of interactions: their deletion by time, by visitor and by age."""

    table: ClassVar[Table]

    def __init__(self, database: Database, quota: StorageQuota) -> None:
        self.database = database
        self._quota = quota

    def delete_entries(self, project_id: str, times: TimeRange = ALL_TIME) -> int:
        """Deletes a project's rows of this time. Returns how many it deleted."""
        with self.database.write() as tx:
            condition = and_(*rows_in_range(self.table, project_id, times))
            self._forget_rows(tx, condition)
            deleted = tx.execute(delete(self.table).where(condition)).rowcount
        self._quota.invalidate(project_id)
        return deleted

    def delete_visitors(self, project_id: str, visitors: Collection[int]) -> int:
        """Deletes a project's rows of these visitors. Returns how many it deleted."""
        deleted = 0
        with self.database.write() as tx:
            for batch in split_into_batches(visitors, MAX_VISITORS_PER_STATEMENT):
                is_theirs = and_(self.table.c.project_id == project_id, self.table.c.visitor.in_(batch))
                self._forget_rows(tx, is_theirs)
                deleted += tx.execute(delete(self.table).where(is_theirs)).rowcount
        return deleted

    def _forget_rows(self, tx: Connection, condition: ColumnElement[bool]) -> None:
        """Deletes what other tables repeat of rows that are about to be deleted. By default, there is nothing."""

    def list_days(self, project_id: str) -> set[int]:
        """Returns the UTC days on which a project has rows of known visitors."""
        table = self.table
        day = (table.c.created_at - table.c.created_at % DAY).label("day")
        query = select(day).where(table.c.project_id == project_id, table.c.visitor.is_not(None)).distinct()
        with self.database.read() as tx:
            return {int(row.day) // DAY for row in tx.execute(query)}

    def delete_expired(self, retention_days: Mapping[str, int | None], today: int) -> int:
        """Deletes rows that are older than their project's retention; None retains them forever.

        Returns how many it deleted.
        """
        expired = self._find_expired(retention_days, today)
        return sum(self.delete_entries(project_id, times) for project_id, times in expired.items())

    def _find_expired(self, retention_days: Mapping[str, int | None], today: int) -> dict[str, TimeRange]:
        """Returns the expired time of each project that has rows in it."""
        table = self.table
        expired: dict[str, TimeRange] = {}
        with self.database.read() as tx:
            for project_id, max_age_days in retention_days.items():
                if max_age_days is None:
                    continue
                oldest = select(func.min(table.c.created_at)).where(table.c.project_id == project_id)
                oldest_at = tx.execute(oldest).scalar()
                end = (today - max_age_days) * DAY
                if oldest_at is not None and oldest_at < end:
                    expired[project_id] = TimeRange(end=end)
        return expired
