"""How the queue stands: a look at what waits and runs, whose cost is that of the queue and not of all jobs ever."""

from dataclasses import dataclass

from sqlalchemy import bindparam, distinct, func, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.jobs.job import ACTIVE
from copydesk.jobs.storage.tables import jobs, runs

# Each is answered by an index alone. Ids go by their makers' clocks, so that the least is the oldest, or nearly so.
QUEUED = select(func.count(), func.min(runs.c.id)).where(runs.c.state == "queued")
AT_WORK = select(func.count()).where(jobs.c.status == ACTIVE)


@dataclass(frozen=True)
class Waiting:
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


def waiting(database: Database) -> Waiting:
    alive = runs.c.lease_until > database.now
    age = select(database.now - runs.c.created_at).where(runs.c.id == bindparam("run"))
    running = select(alive, func.count(), func.count(distinct(runs.c.worker)))
    with database.read() as tx:
        active: int = tx.execute(AT_WORK).scalar_one()
        queued, oldest = tx.execute(QUEUED).one()
        waited = (tx.execute(age, {"run": oldest}).scalar() if oldest else None) or 0
        found = {bool(row[0]): row for row in tx.execute(running.where(runs.c.state == "running").group_by(alive))}
    here, gone = found.get(True, (True, 0, 0)), found.get(False, (False, 0, 0))
    return Waiting(active, queued, here[1] + gone[1], gone[1], here[2], max(0, waited) / clock.SECOND)
