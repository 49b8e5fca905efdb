"""The claim: which run is next, who holds it, and for how long. Leases go by the database's clock."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, text

from copydesk.core import clock
from copydesk.core.db.advisory_locks import AdvisoryLock, take_lock
from copydesk.core.db.database import Database
from copydesk.jobs.job import Phase, Reason
from copydesk.jobs.storage.records import QUEUE, STOP, WORKFLOW_VERSION, EventKind, NewEvent, change

CLOCK_STEP = 15 * 60 * clock.SECOND
"""A lease that has this much longer to run than any can is from before the database's clock was set back."""

HELD = "(lease_until > {now} and lease_until <= {now} + :longest)"
# A run whose worker is gone; else the oldest, but of the project that has the fewest running, within the bounds.
NEXT = """
    with busy as (
        select project_id, count(*) as n from runs where state = 'running' and {held} group by project_id
    ),
    heads as (
        select project_id, min(id) as id from runs
        where state = 'queued' and version <= :version group by project_id
    )
    select id from (
        select id, -1 as turn from runs
        where state = 'running' and not {held} and version <= :version
        union all
        select heads.id, coalesce(busy.n, 0) from heads left join busy on busy.project_id = heads.project_id
        where coalesce(busy.n, 0) < :project_slots and (select coalesce(sum(n), 0) from busy) < :total_slots
    ) as candidates
    order by turn, id limit 1
"""
# A run that was not released was lost by a crash. Its age is the time that workers had it: not the time without any,
# nor what the clock was set forward by.
TAKE = """
    update runs set state = 'running', attempt = attempt + 1, worker = :worker,
        crashes = crashes + case when state = 'running' and released_at is null then 1 else 0 end,
        lease_until = {now} + :lease, released_at = null,
        started_at = {now} - case when lease_until > started_at then lease_until - started_at else 0 end
    where id = :id and (state = 'queued' or (state = 'running' and not {held}))
    returning id, job_id, project_id, number, attempt, crashes, started_at, created_at, {now} - started_at as age
"""
# A released run is not taken back. A lease that is over already: the clock was set, or the machine slept.
RENEW = """
    update runs set lease_until = {now} + :lease,
        started_at = started_at + case when lease_until < {now} then {now} - lease_until else 0 end
    where id in :ids and worker = :worker and state = 'running' and released_at is null returning id
"""
RELEASE = """
    update runs set lease_until = {now}, released_at = {now}
    where id in :ids and worker = :worker and state = 'running'
"""

END_RUNS = text(
    "update runs set state = 'done', finished_at = :now, reason = :reason where job_id = :job and state <> 'done'"
)
JOB_OF_RUN = text("select id from jobs where id = (select job_id from runs where id = :run) for update")


@dataclass(frozen=True)
class Claim:
    """A run that this worker holds, as the attempt of this number."""

    run_id: str
    job_id: str
    project_id: str
    number: int
    attempt: int
    crashes: int
    """How many attempts ended without giving the run back."""
    created_at: int
    age: int
    """Milliseconds that workers had the run, over all attempts."""
    worker: str
    """Two attempts have one number where a fail-over of the database lost the first claim."""


@dataclass(frozen=True)
class Bounds:
    lease: int
    project_slots: int
    total_slots: int


class Queue:
    def __init__(self, database: Database, bounds: Bounds) -> None:
        self.database = database
        self.bounds = bounds
        now = database.clock
        held = HELD.format(now=now)
        self._next, self._take = text(NEXT.format(now=now, held=held)), text(TAKE.format(now=now, held=held))
        self._renew, self._release = (
            text(statement.format(now=now)).bindparams(bindparam("ids", expanding=True))
            for statement in (RENEW, RELEASE)
        )

    def claim(self, worker: str) -> Claim | None:
        """The next run, or one whose worker is gone; None when there is nothing to do."""
        bounds = self.bounds
        longest = {"longest": bounds.lease + CLOCK_STEP}
        slots = {"project_slots": bounds.project_slots, "total_slots": bounds.total_slots, "version": WORKFLOW_VERSION}
        with self.database.write() as tx:
            take_lock(self.database, tx, AdvisoryLock.CLAIM_RUN)  # keeps the bounds exact over all workers
            run_id = tx.execute(self._next, {**slots, **longest}).scalar()
            if run_id is None:
                return None
            hold_job(self.database, tx, run_id)
            row = tx.execute(self._take, {"id": run_id, "worker": worker, "lease": bounds.lease, **longest}).first()
            if row is None:
                return None
            change(self.database, tx, row.job_id, [_claim_event(row)], phase=Phase.PREPARING)
        return Claim(
            run_id=row.id,
            job_id=row.job_id,
            project_id=row.project_id,
            number=row.number,
            attempt=row.attempt,
            crashes=row.crashes,
            created_at=row.created_at,
            age=row.age,
            worker=worker,
        )

    def renew(self, worker: str, run_ids: Collection[str]) -> set[str]:
        """The runs that are still this worker's; the others were taken over, cancelled or ended."""
        if not run_ids:
            return set()
        with self.database.write() as tx:
            bound = {"ids": sorted(run_ids), "worker": worker, "lease": self.bounds.lease}
            return set(tx.execute(self._renew, bound).scalars())

    def release(self, worker: str, run_ids: Collection[str]) -> None:
        """Gives runs back at once, for a worker that shuts down."""
        if run_ids:
            with self.database.write() as tx:
                tx.execute(self._release, {"ids": sorted(run_ids), "worker": worker})
                self.database.notify(tx, QUEUE)


def hold_job(database: Database, tx: Connection, run_id: str) -> None:
    """Whoever changes a job or its runs holds the job's row first: one order, no deadlock."""
    if not database.is_sqlite:
        tx.execute(JOB_OF_RUN, {"run": run_id})


def end_runs(database: Database, tx: Connection, job_id: str) -> None:
    """Ends what the job has under way; its worker notices at its next heartbeat, which this hastens."""
    tx.execute(END_RUNS, {"now": clock.now(), "job": job_id, "reason": Reason.CANCELLED})
    database.notify(tx, STOP)
    database.notify(tx, QUEUE)


def _claim_event(row: Row[Any]) -> NewEvent:
    if row.attempt == 1:
        return NewEvent(EventKind.PHASE, {"phase": Phase.PREPARING})
    return NewEvent(EventKind.RESUMED, {"phase": Phase.PREPARING, "attempt": row.attempt})
