"""Counts the requests that are not views, by day and reason, so that a site's owner can see why numbers are missing."""

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import bindparam, delete, func, select, text

from copydesk.analytics.page_view import DropReason
from copydesk.analytics.tables import uncounted_requests
from copydesk.core import clock
from copydesk.core.db.database import Database

log = logging.getLogger(__name__)

FLUSH_SECONDS = 10.0
"""How long counts wait in memory. A process that is killed loses those of this time."""
RETENTION_DAYS = 90

# A project that was deleted in the meantime gets no row. The casts are for PostgreSQL, which knows no types here.
ADD_REQUESTS = text("""
    insert into uncounted_requests (project_id, day, reason, requests)
    select id, cast(:day as integer), cast(:reason as varchar(40)), cast(:requests as bigint)
    from projects where id = :project
    on conflict (project_id, day, reason)
    do update set requests = uncounted_requests.requests + excluded.requests
""")
TOTAL = func.sum(uncounted_requests.c.requests)
SELECT_REQUESTS = (
    select(uncounted_requests.c.reason, TOTAL.label("requests"), func.max(uncounted_requests.c.day).label("last_day"))
    .where(uncounted_requests.c.project_id == bindparam("project"), uncounted_requests.c.day >= bindparam("first"))
    .group_by(uncounted_requests.c.reason)
    .order_by(TOTAL.desc(), uncounted_requests.c.reason)
)


class RefusalReason(StrEnum):
    """Why a whole request to the collector was refused. Such a request may have had several views."""

    RATE_LIMITED = "rate_limited"
    ORIGIN_REFUSED = "origin_refused"
    INVALID_REQUEST = "invalid_request"


Reason = DropReason | RefusalReason


class UncountedRequests(NamedTuple):
    reason: Reason
    requests: int
    last_day: int


class UncountedCounter:
    """Adds up requests in memory and stores them in batches, so that a refused request costs no transaction."""

    def __init__(self, database: Database, flush_seconds: float = FLUSH_SECONDS) -> None:
        self._database = database
        self._flush_seconds = flush_seconds
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._counts: Counter[tuple[str, int, str]] = Counter()
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def add(self, project_id: str, reason: Reason, requests: int = 1) -> None:
        with self._lock:
            self._counts[project_id, clock.today(), reason.value] += requests
            self._start_timer()

    def add_all(self, project_id: str, requests_by_reason: Mapping[DropReason, int]) -> None:
        for reason, requests in requests_by_reason.items():
            self.add(project_id, reason, requests)

    def list_reasons(self, project_id: str, first_day: int) -> list[UncountedRequests]:
        """Returns the reasons since a day, the most frequent first. Stores what this process has counted before."""
        self.flush()
        with self._database.read() as tx:
            rows = tx.execute(SELECT_REQUESTS, {"project": project_id, "first": first_day}).all()
        return [UncountedRequests(_parse_reason(row.reason), int(row.requests), row.last_day) for row in rows]

    def flush(self) -> None:
        with self._flush_lock:
            with self._lock:
                counts, self._counts = self._counts, Counter()
            if not counts:
                return
            params = [
                {"project": project_id, "day": day, "reason": reason, "requests": requests}
                for (project_id, day, reason), requests in sorted(counts.items())  # all processes lock in this order
            ]
            try:
                with self._database.write() as tx:
                    tx.execute(ADD_REQUESTS, params)
            except BaseException:
                with self._lock:
                    self._counts += counts
                raise

    def delete_expired(self, today: int) -> int:
        with self._database.write() as tx:
            expired = uncounted_requests.c.day < today - RETENTION_DAYS
            return tx.execute(delete(uncounted_requests).where(expired)).rowcount

    def close(self) -> None:
        """Stores what is counted so far."""
        with self._lock:
            self._is_closed = True
            timer = self._timer
        if timer is not None:
            timer.cancel()
        with suppress(Exception):  # these counts are not worth an error at the end of a process
            self.flush()

    def _start_timer(self) -> None:
        if self._timer is None and not self._is_closed:
            self._timer = threading.Timer(self._flush_seconds, self._flush_after_pause)
            self._timer.daemon = True
            self._timer.start()

    def _flush_after_pause(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.flush()
        except Exception as error:
            log.warning("the requests that were not counted are stored later: %s", error)
            with self._lock:
                self._start_timer()


def _parse_reason(value: str) -> Reason:
    return RefusalReason(value) if value in set(RefusalReason) else DropReason(value)
