"""The queue of runs: which run is next, which worker holds it, and for how long. Leases use the database's clock."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, text

from copydesk.core import clock
from copydesk.core.db.advisory_locks import AdvisoryLock, acquire_lock
from copydesk.core.db.database import Database
from copydesk.jobs.job import CANCELLED, Phase
from copydesk.jobs.storage.records import QUEUE_TOPIC, STOP_TOPIC, WORKFLOW_VERSION, EventKind, NewEvent, update_job

CLOCK_STEP_MS = 15 * 60 * clock.SECOND
"""Tolerance for changes of the database's clock. A lease that ends later than the longest possible lease plus this
was written before the clock was set back, and counts as expired."""

IS_LEASED = "(lease_until > {now} and lease_until <= {now} + :max_lease_ms)"
# Picks the oldest queued run of the project with the fewest running runs, within the limits on slots. -1 puts abandoned
# runs first: running runs without a valid lease.
SELECT_NEXT_RUN = """
    with busy as (
        select project_id, count(*) as n from runs where state = 'running' and {is_leased} group by project_id
    ),
    heads as (
        select project_id, min(id) as id from runs
        where state = 'queued' and version <= :version group by project_id
    )
    select id from (
        select id, -1 as running_in_project from runs
        where state = 'running' and not {is_leased} and version <= :version
        union all
        select heads.id, coalesce(busy.n, 0) from heads left join busy on busy.project_id = heads.project_id
        where coalesce(busy.n, 0) < :project_slots and (select coalesce(sum(n), 0) from busy) < :total_slots
    ) as candidates
    order by running_in_project, id limit 1
"""
# A running run with released_at null was lost in a crash. started_at is moved forward so that {now} - started_at is
# the time that workers held the run: time without a worker, or skipped by the clock, does not count.
CLAIM_RUN = """
    update runs set state = 'running', attempt = attempt + 1, worker = :worker,
        crashes = crashes + case when state = 'running' and released_at is null then 1 else 0 end,
        lease_until = {now} + :lease, released_at = null,
        started_at = {now} - case when lease_until > started_at then lease_until - started_at else 0 end
    where id = :id and (state = 'queued' or (state = 'running' and not {is_leased}))
    returning id, job_id, project_id, number, attempt, crashes, started_at, created_at, {now} - started_at as worked_ms
"""
# Does not renew a released run. A lease that has expired by now means that the clock was set forward or the machine
# slept; started_at is moved forward so that this time does not count.
RENEW_LEASES = """
    update runs set lease_until = {now} + :lease,
        started_at = started_at + case when lease_until < {now} then {now} - lease_until else 0 end
    where id in :ids and worker = :worker and state = 'running' and released_at is null returning id
"""
RELEASE_LEASES = """
    update runs set lease_until = {now}, released_at = {now}
    where id in :ids and worker = :worker and state = 'running'
"""

CANCEL_RUNS = text(
    "update runs set state = 'done', finished_at = :now, reason = :reason, message = :message "
    "where job_id = :job and state <> 'done'"
)
LOCK_JOB_OF_RUN = text("select id from jobs where id = (select job_id from runs where id = :run) for update")


@dataclass(frozen=True)
class Claim:
    """A run that a worker holds, with the number of its attempt."""

    run_id: str
    job_id: str
    project_id: str
    run_number: int
    attempt: int
    crashes: int
    """Number of attempts that ended without releasing the run."""
    created_at: int
    worked_ms: int
    """Milliseconds that workers held the run, over all attempts."""
    worker: str
    """Distinguishes two attempts with the same number, which exist if a failover of the database lost a claim."""


@dataclass(frozen=True)
class QueueLimits:
    lease_ms: int
    project_slots: int
    total_slots: int


class Queue:
    def __init__(self, database: Database, limits: QueueLimits) -> None:
        self.database = database
        self.limits = limits
        now = database.clock_sql
        is_leased = IS_LEASED.format(now=now)
        self._select_next_run = text(SELECT_NEXT_RUN.format(now=now, is_leased=is_leased))
        self._claim_run = text(CLAIM_RUN.format(now=now, is_leased=is_leased))
        self._renew_leases = text(RENEW_LEASES.format(now=now)).bindparams(bindparam("ids", expanding=True))
        self._release_leases = text(RELEASE_LEASES.format(now=now)).bindparams(bindparam("ids", expanding=True))

    def claim(self, worker: str) -> Claim | None:
        """Claims the next queued run, or one whose worker is gone. Returns None if there is none."""
        limits = self.limits
        lease_params = {"max_lease_ms": limits.lease_ms + CLOCK_STEP_MS}
        slot_params = {
            "project_slots": limits.project_slots,
            "total_slots": limits.total_slots,
            "version": WORKFLOW_VERSION,
        }
        with self.database.write() as tx:
            acquire_lock(self.database, tx, AdvisoryLock.CLAIM_RUN)  # makes the slot limits exact across workers
            run_id = tx.execute(self._select_next_run, {**slot_params, **lease_params}).scalar()
            if run_id is None:
                return None
            lock_job(self.database, tx, run_id)
            row = tx.execute(
                self._claim_run, {"id": run_id, "worker": worker, "lease": limits.lease_ms, **lease_params}
            ).first()
            if row is None:
                return None
            update_job(self.database, tx, row.job_id, [_claim_event(row)], phase=Phase.PREPARING)
        return Claim(
            run_id=row.id,
            job_id=row.job_id,
            project_id=row.project_id,
            run_number=row.number,
            attempt=row.attempt,
            crashes=row.crashes,
            created_at=row.created_at,
            worked_ms=row.worked_ms,
            worker=worker,
        )

    def renew(self, worker: str, run_ids: Collection[str]) -> set[str]:
        """Renews leases. Returns the runs that this worker still holds; others were claimed, cancelled or finished."""
        if not run_ids:
            return set()
        with self.database.write() as tx:
            params = {"ids": sorted(run_ids), "worker": worker, "lease": self.limits.lease_ms}
            return set(tx.execute(self._renew_leases, params).scalars())

    def release(self, worker: str, run_ids: Collection[str]) -> None:
        """Ends the leases immediately, so that other workers can claim the runs."""
        if run_ids:
            with self.database.write() as tx:
                tx.execute(self._release_leases, {"ids": sorted(run_ids), "worker": worker})
                self.database.notify(tx, QUEUE_TOPIC)


def lock_job(database: Database, tx: Connection, run_id: str) -> None:
    """Locks the job's row. Every transaction that changes a job or its runs does this first.

    Locks are then always taken in the same order, which prevents deadlocks. SQLite has only one writer at a time."""
    if not database.is_sqlite:
        tx.execute(LOCK_JOB_OF_RUN, {"run": run_id})


def cancel_runs(database: Database, tx: Connection, job_id: str) -> None:
    """Ends the job's unfinished runs, and wakes the heartbeat of their workers so that they stop soon."""
    outcome = {"reason": CANCELLED.reason, "message": CANCELLED.message}
    tx.execute(CANCEL_RUNS, {"now": clock.now(), "job": job_id, **outcome})
    database.notify(tx, STOP_TOPIC)
    database.notify(tx, QUEUE_TOPIC)


def _claim_event(row: Row[Any]) -> NewEvent:
    if row.attempt == 1:
        return NewEvent(EventKind.PHASE, {"phase": Phase.PREPARING})
    return NewEvent(EventKind.RESUMED, {"phase": Phase.PREPARING, "attempt": row.attempt})
