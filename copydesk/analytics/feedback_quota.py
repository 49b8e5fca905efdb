"""How much feedback each project may hold. Anybody can send feedback, so it must not fill the disk."""

from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any

from sqlalchemy import ColumnElement, LargeBinary, cast, func, select

from copydesk.analytics.tables import feedback
from copydesk.core.db.database import Database
from copydesk.core.errors import RequestError

MEASURE_SECONDS = 60
"""How often what is stored is measured again: other processes add feedback and delete it."""
RETRY_SECONDS = 3600


class FeedbackFull(RequestError):
    status, code = 429, "feedback_full"
    message = "This project has reached its limit of stored feedback, which the server's settings define."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": str(RETRY_SECONDS)})


@dataclass
class _Usage:
    entries: int
    size: int
    measured_at: float


class FeedbackQuota:
    """Refuses feedback once a project holds too many entries or bytes.

    New entries are refused, and older ones stay: otherwise a flood would erase what readers wrote before it. Exact in
    one process; several processes may exceed it by as much as the others add within `MEASURE_SECONDS`.
    """

    def __init__(self, database: Database, max_entries: int, max_bytes: int) -> None:
        self._database = database
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._usages: dict[str, _Usage] = {}
        self._lock = Lock()

    def reserve(self, project_id: str, size: int) -> None:
        """Counts one entry of this many bytes; raises FeedbackFull where there is no room for it."""
        with self._lock:
            usage = self._usages.get(project_id)
            if usage is None or usage.measured_at + MEASURE_SECONDS < monotonic():
                usage = self._usages[project_id] = self._measure(project_id)
            if usage.entries >= self._max_entries or usage.size + size > self._max_bytes:
                raise FeedbackFull
            usage.entries += 1
            usage.size += size

    def invalidate(self, project_id: str) -> None:
        """Has the project measured anew, because entries were deleted."""
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
