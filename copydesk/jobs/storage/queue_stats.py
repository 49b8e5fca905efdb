"""Statistics of the queue. They read only unfinished jobs and runs, so the cost does not grow with finished ones."""

from dataclasses import dataclass

from sqlalchemy import bindparam, distinct, func, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.jobs.job import ACTIVE
from copydesk.jobs.storage.tables import jobs, runs

# An index alone answers each query. Ids begin with the time on the clock of the machine that created them, so the
# smallest id is the oldest run, or nearly so.
COUNT_QUEUED_RUNS = select(func.count(), func.min(runs.c.id)).where(runs.c.state == "queued")
COUNT_ACTIVE_JOBS = select(func.count()).where(jobs.c.status == ACTIVE)


@dataclass(frozen=True)
class QueueStats:
    active: int
    """Jobs that are not finished."""
    queued: int
    running: int
    orphaned: int
    """Running runs whose lease has expired; the next free worker claims them."""
    workers: int
    """Workers that hold at least one valid lease."""
    oldest_seconds: float
    """How long the oldest queued run has waited."""


def read_queue_stats(database: Database) -> QueueStats:
    is_leased = runs.c.lease_until > database.now
    age = select(database.now - runs.c.created_at).where(runs.c.id == bindparam("run"))
    running = select(is_leased, func.count(), func.count(distinct(runs.c.worker)))
    with database.read() as tx:
        active: int = tx.execute(COUNT_ACTIVE_JOBS).scalar_one()
        queued, oldest = tx.execute(COUNT_QUEUED_RUNS).one()
        waited_ms = (tx.execute(age, {"run": oldest}).scalar() if oldest else None) or 0
        counts_by_lease = {
            bool(row[0]): row for row in tx.execute(running.where(runs.c.state == "running").group_by(is_leased))
        }
    leased, orphaned = counts_by_lease.get(True, (True, 0, 0)), counts_by_lease.get(False, (False, 0, 0))
    return QueueStats(active, queued, leased[1] + orphaned[1], orphaned[1], leased[2], max(0, waited_ms) / clock.SECOND)
