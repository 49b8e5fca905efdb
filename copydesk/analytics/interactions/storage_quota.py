"""Quotas of interactions per project. Sending feedback and searches needs no key, so a quota protects the disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any

from sqlalchemy import Column, ColumnElement, LargeBinary, Text, cast, func, select

from copydesk.core.db.database import Database
from copydesk.core.errors import RequestError

MEASURE_SECONDS = 60
"""How often stored rows are measured again: other processes add and delete rows too."""
RETRY_SECONDS = 3600


class QuotaReached(RequestError):
    status, code = 429, "quota_reached"
    message = "This project has reached the limit of stored entries that is set in the server's settings."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, headers={"Retry-After": str(RETRY_SECONDS)})


class FeedbackFull(QuotaReached):
    code = "feedback_full"
    message = (
        "This project has reached the limit of stored feedback, which the server's settings set "
        "(COPYDESK_FEEDBACK_ENTRIES, COPYDESK_FEEDBACK_MEGABYTES)."
    )


@dataclass
class _Usage:
    entries: int
    size: int
    measured_at: float


class StorageQuota:
    """Rejects rows once a project has too many of them, or too many bytes of text.

    Rejects new rows instead of deleting old ones: otherwise a flood would erase earlier ones. Exact in one process;
    with several, a project may exceed its quota by the rows that other processes add within `MEASURE_SECONDS`.
    """

    def __init__(
        self,
        database: Database,
        text_columns: Sequence[Column[Any]],
        *,
        max_entries: int,
        max_bytes: int,
        error: type[QuotaReached] = QuotaReached,
    ) -> None:
        """Measures the text of these columns, which belong to one table."""
        self._database = database
        self._columns = text_columns
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._error = error
        self._usages: dict[str, _Usage] = {}
        self._lock = Lock()

    def reserve(self, project_id: str, size: int, entries: int = 1) -> None:
        """Counts entries of this many bytes together. Raises QuotaReached if they would exceed the quota."""
        with self._lock:
            usage = self._usages.get(project_id)
            if usage is None or usage.measured_at + MEASURE_SECONDS < monotonic():
                usage = self._usages[project_id] = self._measure(project_id)
            if usage.entries + entries > self._max_entries or usage.size + size > self._max_bytes:
                raise self._error
            usage.entries += entries
            usage.size += size

    def invalidate(self, project_id: str) -> None:
        """Discards the cached measurement, because entries were deleted or an insert failed."""
        with self._lock:
            self._usages.pop(project_id, None)

    def _measure(self, project_id: str) -> _Usage:
        table = self._columns[0].table
        lengths = [func.coalesce(self._byte_length(column), 0) for column in self._columns]
        size = func.sum(sum(lengths[1:], lengths[0]))
        query = select(func.count(), func.coalesce(size, 0)).where(table.c.project_id == project_id)
        with self._database.read() as tx:
            entries, stored_bytes = tx.execute(query).one()
        return _Usage(entries, int(stored_bytes), monotonic())

    def _byte_length(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        if self._database.is_sqlite:
            return func.length(cast(column, LargeBinary))
        return func.octet_length(cast(column, Text))


def count_bytes(*texts: str | None) -> int:
    return sum(len(text.encode()) for text in texts if text)
