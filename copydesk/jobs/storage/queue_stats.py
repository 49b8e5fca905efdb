"""How the queue stands: a look at what waits and runs, whose cost is that of the queue and not of all jobs ever."""

from dataclasses import dataclass

from sqlalchemy import bindparam, distinct, func, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.jobs.job import ACTIVE
from copydesk.jobs.storage.tables import jobs, runs

# Each is answered by an index alone. Ids go by their makers' clocks, so that the least is the oldest, or nearly so.
COUNT_QUEUED_RUNS = select(func.count(), func.min(runs.c.id)).where(runs.c.state == "queued")
COUNT_ACTIVE_JOBS = select(func.count()).where(jobs.c.status == ACTIVE)


@dataclass(frozen=True)
class QueueStats:
    active: int
    """Jobs that are not over."""
    queued: int
    running: int
    orphaned: int
    """Runs whose worker's lease is over: the next worker takes them."""
    workers: int
    """Those that have something under way, and are alive."""
    oldest_seconds: float
    """For how long the oldest queued run has waited."""


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
