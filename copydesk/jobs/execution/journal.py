"""The journal: a step that has a result is not run again. An attempt that lost its claim can write nothing more."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, insert, select, text, update

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.telemetry import traces
from copydesk.jobs.execution.queue import Claim, hold_job
from copydesk.jobs.job import Ending, Job, Phase, Reason, Status
from copydesk.jobs.storage.records import QUEUE, EventKind, NewEvent, change, enqueue, job_of, keep_files
from copydesk.jobs.storage.tables import jobs, runs, steps

if TYPE_CHECKING:
    from copydesk.jobs.workspace.patches import FilePatch

T = TypeVar("T")
LARGEST_RESULT = 64 * 1024 * 1024

RESULTS = select(steps.c.name, steps.c.result).where(steps.c.run_id == bindparam("run"))
NEW_STEP = insert(steps)
OURS = text(
    "select lease_until from runs where id = :run and attempt = :attempt and worker = :worker and state = 'running'"
)
END_RUN = text("update runs set state = 'done', finished_at = :now, reason = :reason where id = :run")
PROMPTS = text("select prompt from messages where run_id = :run order by created_at, id")
UNREAD = text("select 1 from messages where job_id = :job and run_id is null and created_at > :since limit 1")


class Lost(Exception):
    """This attempt no longer holds the run: it was cancelled, ended, or taken over."""


@dataclass(frozen=True)
class EarlierRun:
    reason: Reason | None
    results: dict[str, bytes]


class Journal:
    def __init__(self, database: Database, claim: Claim) -> None:
        self.database = database
        self.claim = claim
        self._is_traced = False
        self._results: dict[str, bytes] = {}
        if claim.attempt > 1:
            with database.read() as tx:
                self._results = {row.name: row.result for row in tx.execute(RESULTS, {"run": claim.run_id})}

    def has(self, name: str) -> bool:
        return name in self._results

    def step(
        self,
        name: str,
        kind: type[T],
        act: Callable[[], T],
        *,
        notes: Callable[[T], Sequence[NewEvent]] = lambda _: (),
        effects: Callable[[Connection, T], None] = lambda _tx, _result: None,
    ) -> T:
        """The step's result: from the journal, or by acting and recording it with its events, all or nothing."""
        if name in self._results:
            return TypeAdapter(kind).validate_json(self._results[name])
        with self._traced(name):
            result = act()
            self.record(name, kind, lambda _tx: result, notes=notes, effects=effects)
        return result

    def record(
        self,
        name: str,
        kind: type[T],
        act: Callable[[Connection], T],
        *,
        notes: Callable[[T], Sequence[NewEvent]] = lambda _: (),
        effects: Callable[[Connection, T], None] = lambda _tx, _result: None,
    ) -> T:
        """Acts within the very transaction that records the result: for acts on our own database."""
        if name in self._results:
            return TypeAdapter(kind).validate_json(self._results[name])
        with self._traced(name), self.database.write() as tx:
            self._hold(tx)
            result = act(tx)
            data = TypeAdapter(kind).dump_json(result)
            if len(data) > LARGEST_RESULT:
                raise ValueError(f"the result of step {name} has {len(data)} bytes")
            position = len(self._results) + 1
            row = {"run_id": self.claim.run_id, "name": name, "position": position, "result": data, "at": clock.now()}
            tx.execute(NEW_STEP, row)
            effects(tx, result)
            if told := notes(result):
                change(self.database, tx, self.claim.job_id, told)
        self._results[name] = data
        return result

    def guard(self) -> None:
        """Right before an act on the outside world: Lost unless the lease still runs."""
        with self.database.read() as tx:
            until = tx.execute(OURS, self._key()).scalar()
            if until is None or until <= tx.execute(select(self.database.now)).scalar_one():
                raise Lost

    def record_event(self, event: NewEvent) -> None:
        """Stores an event that belongs to no step."""
        with self.database.write() as tx:
            self._hold(tx)
            change(self.database, tx, self.claim.job_id, [event])

    def enter(self, phase: Phase) -> None:
        with self.database.write() as tx:
            self._hold(tx)
            change(self.database, tx, self.claim.job_id, [NewEvent(EventKind.PHASE, {"phase": phase})], phase=phase)

    def set(self, tx: Connection, **values: Any) -> None:
        """Changes the job within a step's own transaction."""
        tx.execute(update(jobs).where(jobs.c.id == self.claim.job_id).values(**values))

    def keep(self, **values: Any) -> None:
        with self.database.write() as tx:
            self._hold(tx)
            self.set(tx, **values)

    def keep_files(self, patches: "Sequence[FilePatch]") -> None:
        """What the job changed so far."""
        with self.database.write() as tx:
            self._hold(tx)
            keep_files(tx, self.claim.job_id, patches)

    def job(self) -> Job:
        with self.database.read() as tx:
            return job_of(tx.execute(select(jobs).where(jobs.c.id == self.claim.job_id)).one())

    def prompts(self, tx: Connection) -> Sequence[str]:
        """What this run was asked."""
        return tx.execute(PROMPTS, {"run": self.claim.run_id}).scalars().all()

    def earlier(self) -> list[EarlierRun]:
        """The job's earlier runs, in the order they came, and so their results."""
        wanted = (
            select(runs.c.number, runs.c.reason, steps.c.name, steps.c.result)
            .join(runs, runs.c.id == steps.c.run_id)
            .where(runs.c.job_id == self.claim.job_id, runs.c.number < self.claim.number)
            .order_by(runs.c.number, steps.c.position)
        )
        found: dict[int, EarlierRun] = {}
        with self.database.read() as tx:
            for row in tx.execute(wanted) if self.claim.number > 1 else ():
                run = found.setdefault(row.number, EarlierRun(Reason(row.reason) if row.reason else None, {}))
                run.results[row.name] = row.result
        return list(found.values())

    def settle(self, ending: Ending) -> bool:
        """Ends the run. A message that came while it ran starts the next one. False when the claim was lost."""
        now = clock.now()
        try:
            with self.database.write() as tx:
                self._hold(tx)
                tx.execute(END_RUN, {"run": self.claim.run_id, "now": now, "reason": ending.reason})
                self.database.notify(tx, QUEUE)  # a slot is free
                since = self.claim.created_at if ending.status is Status.FAILED else 0
                waiting = tx.execute(UNREAD, {"job": self.claim.job_id, "since": since}).first() is not None
                if waiting and ending.reason is not Reason.BUDGET_EXCEEDED:
                    enqueue(self.database, tx, self.claim.job_id, self.claim.project_id, self.claim.number + 1)
                    change(
                        self.database,
                        tx,
                        self.claim.job_id,
                        [NewEvent(EventKind.PHASE, {"phase": Phase.QUEUED})],
                        phase=Phase.QUEUED,
                    )
                else:
                    end_job(self.database, tx, self.claim.job_id, ending)
            return True
        except Lost:
            return False

    @contextmanager
    def _traced(self, step: str) -> Iterator[None]:
        """One span for a step, recording included. A turn's steps are named alike, and which turn it was is told
        beside."""
        if self._is_traced:
            yield
            return
        _, turn, part = step.split("-") if step.startswith("turn-") else ("", None, step)
        self._is_traced = True
        try:
            with traces.span(part, turn=int(turn) if turn else None):
                yield
        finally:
            self._is_traced = False

    def _hold(self, tx: Connection) -> None:
        """Fences an attempt that was taken over: from here to the commit nobody else can end or claim the run."""
        hold_job(self.database, tx, self.claim.run_id)
        if tx.execute(OURS, self._key()).first() is None:
            raise Lost

    def _key(self) -> dict[str, Any]:
        return {"run": self.claim.run_id, "attempt": self.claim.attempt, "worker": self.claim.worker}


def end_job(database: Database, tx: Connection, job_id: str, ending: Ending) -> None:
    facts = {"status": ending.status, "reason": ending.reason, "message": ending.message}
    change(
        database,
        tx,
        job_id,
        [NewEvent(EventKind.FINISHED, facts)],
        phase=Phase.DONE,
        finished_at=clock.now(),
        **facts,
    )
