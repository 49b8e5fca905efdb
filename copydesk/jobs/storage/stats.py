"""Statistics of jobs, runs and workers. They do not read finished runs, so their cost does not grow with them."""

from dataclasses import dataclass

from sqlalchemy import bindparam, case, distinct, func, select

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.jobs.job import ACTIVE, COMPLETED, FAILED
from copydesk.jobs.storage.tables import jobs, runs

# An index alone answers each query. Ids begin with the time on the clock of the machine that created them, so the
# smallest id is the oldest run, or nearly so.
COUNT_QUEUED_RUNS = select(func.count(), func.min(runs.c.id)).where(runs.c.state == "queued")
COUNT_ACTIVE_JOBS = select(func.count()).where(jobs.c.status == ACTIVE)
SELECT_JOB_COUNTS = (
    select(
        jobs.c.project_id,
        func.sum(case((jobs.c.status == ACTIVE, 1), else_=0)).label("at_work"),
        func.count(jobs.c.pr_link).label("proposed"),
    )
    .where(jobs.c.status.in_([ACTIVE, COMPLETED, FAILED]))
    .group_by(jobs.c.project_id)
)


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
    leased = counts_by_lease.get(True, (True, 0, 0))
    orphaned = counts_by_lease.get(False, (False, 0, 0))
    return QueueStats(active, queued, leased[1] + orphaned[1], orphaned[1], leased[2], max(0, waited_ms) / clock.SECOND)


@dataclass(frozen=True)
class WorkerStatus:
    worker: str
    runs: int
    since: int
    """When the oldest of its runs was started."""
    is_alive: bool


def list_workers(database: Database) -> list[WorkerStatus]:
    """Returns the workers that have runs."""
    query = (
        select(runs.c.worker, func.count(), func.min(runs.c.started_at), func.max(runs.c.lease_until) > database.now)
        .where(runs.c.state == "running")
        .group_by(runs.c.worker)
        .order_by(runs.c.worker)
    )
    with database.read() as tx:
        return [WorkerStatus(row[0], row[1], row[2], bool(row[3])) for row in tx.execute(query)]


@dataclass(frozen=True)
class ProjectJobCounts:
    at_work: int = 0
    proposed: int = 0
    """Open pull requests. When one is merged or closed, its job is archived and no longer counted."""


def count_jobs_by_project(database: Database) -> dict[str, ProjectJobCounts]:
    """Returns the counts by project id, without projects that have no jobs or only archived ones."""
    with database.read() as tx:
        return {row.project_id: ProjectJobCounts(row.at_work, row.proposed) for row in tx.execute(SELECT_JOB_COUNTS)}
