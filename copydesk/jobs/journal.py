"""The journal: a step that has a result is not run again. An attempt that lost its claim can write nothing more."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import Connection, insert, select, text, update

from copydesk.core import clock
from copydesk.core.database import Database
from copydesk.jobs.job import Ending, Job, Phase, Status
from copydesk.jobs.queue import Claim, hold_job
from copydesk.jobs.records import Note, change, enqueue, job_of
from copydesk.jobs.tables import jobs, messages, runs, steps

T = TypeVar("T")
LARGEST_RESULT = 64 * 1024 * 1024


class Lost(Exception):
    """This attempt no longer holds the run: it was cancelled, ended, or taken over."""


class Journal:
    def __init__(self, database: Database, claim: Claim) -> None:
        self.database = database
        self.claim = claim
        with database.read() as tx:
            mine = select(steps.c.name, steps.c.result).where(steps.c.run_id == claim.run_id)
            self._results = {row.name: row.result for row in tx.execute(mine)}

    def has(self, name: str) -> bool:
        return name in self._results

    def step(
        self,
        name: str,
        kind: type[T],
        act: Callable[[], T],
        *,
        notes: Callable[[T], Sequence[Note]] = lambda _: (),
        effects: Callable[[Connection, T], None] = lambda _tx, _result: None,
    ) -> T:
        """The step's result: from the journal, or by acting and recording it with its events, all or nothing."""
        if name in self._results:
            return TypeAdapter(kind).validate_json(self._results[name])
        result = act()
        self.record(name, kind, lambda _tx: result, notes=notes, effects=effects)
        return result

    def record(
        self,
        name: str,
        kind: type[T],
        act: Callable[[Connection], T],
        *,
        notes: Callable[[T], Sequence[Note]] = lambda _: (),
        effects: Callable[[Connection, T], None] = lambda _tx, _result: None,
    ) -> T:
        """Acts within the very transaction that records the result: for acts on our own database."""
        if name in self._results:
            return TypeAdapter(kind).validate_json(self._results[name])
        with self.database.write() as tx:
            self._hold(tx)
            result = act(tx)
            data = TypeAdapter(kind).dump_json(result)
            if len(data) > LARGEST_RESULT:
                raise ValueError(f"the result of step {name} has {len(data)} bytes")
            position = len(self._results) + 1
            row = {"run_id": self.claim.run_id, "name": name, "position": position, "result": data, "at": clock.now()}
            tx.execute(insert(steps).values(row))
            effects(tx, result)
            change(self.database, tx, self.claim.job_id, notes(result))
        self._results[name] = data
        return result

    def guard(self) -> None:
        """Right before an act on the outside world: Lost unless the lease still runs."""
        with self.database.read() as tx:
            held = f"select 1 from runs where {_OURS} and lease_until > {self.database.now}"  # noqa: S608
            if tx.execute(text(held), self._key()).first() is None:
                raise Lost

    def enter(self, phase: Phase) -> None:
        with self.database.write() as tx:
            self._hold(tx)
            change(self.database, tx, self.claim.job_id, [("phase", {"phase": phase})], phase=phase)

    def set(self, tx: Connection, **values: Any) -> None:
        """Changes the job within a step's own transaction."""
        tx.execute(update(jobs).where(jobs.c.id == self.claim.job_id).values(**values))

    def keep(self, **values: Any) -> None:
        with self.database.write() as tx:
            self._hold(tx)
            self.set(tx, **values)

    def job(self) -> Job:
        with self.database.read() as tx:
            return job_of(tx.execute(select(jobs).where(jobs.c.id == self.claim.job_id)).one())

    def earlier(self) -> dict[int, dict[str, bytes]]:
        """The results of the job's earlier runs, by run number, each in the order they came."""
        wanted = (
            select(runs.c.number, steps.c.name, steps.c.result)
            .join(runs, runs.c.id == steps.c.run_id)
            .where(runs.c.job_id == self.claim.job_id, runs.c.number < self.claim.number)
            .order_by(runs.c.number, steps.c.position)
        )
        found: dict[int, dict[str, bytes]] = {}
        with self.database.read() as tx:
            for row in tx.execute(wanted):
                found.setdefault(row.number, {})[row.name] = row.result
        return found

    def settle(self, ending: Ending, **values: Any) -> bool:
        """Ends the run. A message that came too late for it starts the next one. False when the claim was lost."""
        now = clock.now()
        try:
            with self.database.write() as tx:
                self._hold(tx)
                tx.execute(update(runs).where(runs.c.id == self.claim.run_id).values(state="done", finished_at=now))
                waiting = select(messages.c.id).where(
                    messages.c.job_id == self.claim.job_id, messages.c.run_id.is_(None)
                )
                if tx.execute(waiting).first() is not None and ending.status is not Status.FAILED:
                    enqueue(self.database, tx, self.claim.job_id, self.claim.project_id, self.claim.number + 1)
                    change(
                        self.database, tx, self.claim.job_id, [("phase", {"phase": Phase.QUEUED})], phase=Phase.QUEUED
                    )
                else:
                    end_job(self.database, tx, self.claim.job_id, ending, **values)
            return True
        except Lost:
            return False

    def _hold(self, tx: Connection) -> None:
        """Fences an attempt that was taken over: from here to the commit nobody else can end or claim the run."""
        hold_job(self.database, tx, self.claim.run_id)
        if tx.execute(text(f"select 1 from runs where {_OURS}"), self._key()).first() is None:  # noqa: S608
            raise Lost

    def _key(self) -> dict[str, Any]:
        return {"run": self.claim.run_id, "attempt": self.claim.attempt}


_OURS = "id = :run and attempt = :attempt and state = 'running'"


def end_job(database: Database, tx: Connection, job_id: str, ending: Ending, **values: Any) -> None:
    facts = {"status": ending.status, "reason": ending.reason, "message": ending.message}
    change(
        database,
        tx,
        job_id,
        [("finished", facts)],
        phase=Phase.DONE,
        finished_at=clock.now(),
        **facts,
        **values,
    )
