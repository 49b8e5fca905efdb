"""The quota of feedback per project. Sending feedback needs no key, so a quota keeps it from filling the disk."""

from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any

from sqlalchemy import ColumnElement, LargeBinary, cast, func, select

from copydesk.analytics.tables import feedback
from copydesk.core.db.database import Database
from copydesk.core.errors import RequestError

MEASURE_SECONDS = 60
"""How often stored feedback is measured again: other processes add and delete feedback too."""
RETRY_SECONDS = 3600


class FeedbackFull(RequestError):
    status, code = 429, "feedback_full"
    message = "This project has reached the limit of stored feedback that is set in the server's settings."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": str(RETRY_SECONDS)})


@dataclass
class _Usage:
    entries: int
    size: int
    measured_at: float


class FeedbackQuota:
    """Rejects feedback once a project has too many entries or bytes.

    Rejects new entries instead of deleting old ones: otherwise a flood would erase earlier feedback. Exact in one
    process; with several, a project may exceed its quota by the entries that other processes add within
    `MEASURE_SECONDS`.
    """

    def __init__(self, database: Database, max_entries: int, max_bytes: int) -> None:
        self._database = database
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._usages: dict[str, _Usage] = {}
        self._lock = Lock()

    def reserve(self, project_id: str, size: int) -> None:
        """Counts one entry of this many bytes. Raises FeedbackFull if it would exceed the quota."""
        with self._lock:
            usage = self._usages.get(project_id)
            if usage is None or usage.measured_at + MEASURE_SECONDS < monotonic():
                usage = self._usages[project_id] = self._measure(project_id)
            if usage.entries >= self._max_entries or usage.size + size > self._max_bytes:
                raise FeedbackFull
            usage.entries += 1
            usage.size += size

    def invalidate(self, project_id: str) -> None:
        """Discards the cached measurement, because entries were deleted or an insert failed."""
        with self._lock:
            self._usages.pop(project_id, None)

    def _measure(self, project_id: str) -> _Usage:
        size = func.sum(self._byte_length(feedback.c.path) + func.coalesce(self._byte_length(feedback.c.comment), 0))
        query = select(func.count(), func.coalesce(size, 0)).where(feedback.c.project_id == project_id)
        with self._database.read() as tx:
            entries, stored_bytes = tx.execute(query).one()
        return _Usage(entries, int(stored_bytes), monotonic())

    def _byte_length(self, column: ColumnElement[Any]) -> ColumnElement[int]:
        if self._database.is_sqlite:
            return func.length(cast(column, LargeBinary))
        return func.octet_length(column)
