"""The journal of a run: a step with a stored result is not repeated, and an attempt without the lease cannot write."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import Connection, bindparam, insert, or_, select, text, update

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.projects.project_events import EventType
from copydesk.core.telemetry import traces
from copydesk.jobs.execution.queue import Claim, lock_job
from copydesk.jobs.job import COMPLETED, FAILED, UNCHANGED_REASONS, Job, JobOutcome, Phase, Reason, Status
from copydesk.jobs.storage.job_events import END_EVENTS, GOOD_REASONS
from copydesk.jobs.storage.records import (
    QUEUE_TOPIC,
    EventKind,
    NewEvent,
    enqueue_run,
    job_from_row,
    record_job_event,
    save_changed_files_in,
    update_job,
)
from copydesk.jobs.storage.tables import jobs, messages, runs, steps

if TYPE_CHECKING:
    from copydesk.jobs.workspace.patches import FilePatch

T = TypeVar("T")
MAX_RESULT_BYTES = 64 * 1024 * 1024

SELECT_RESULTS = select(steps.c.name, steps.c.result).where(steps.c.run_id == bindparam("run"))
INSERT_STEP = insert(steps)
SELECT_OWN_LEASE = text(
    "select lease_until from runs where id = :run and attempt = :attempt and worker = :worker and state = 'running'"
)
FINISH_RUN = text(
    "update runs set state = 'done', finished_at = :now, reason = :reason, message = :message where id = :run"
)
SELECT_MESSAGES = text("select prompt, data from messages where run_id = :run order by created_at, id")
SELECT_ALL_PROMPTS = text("select prompt from messages where job_id = :job order by created_at, id")
SELECT_EARLIER_PROMPTS = text(
    "select prompt from messages where job_id = :job and run_id is not null and run_id <> :run order by created_at, id"
)
SELECT_OLDEST_UNREAD = (
    select(messages.c.origin)
    .where(messages.c.job_id == bindparam("job"), messages.c.run_id.is_(None))
    .order_by(messages.c.created_at, messages.c.id)
    .limit(1)
)
SELECT_LAST_CHANGING_RUN = (
    select(runs.c.reason, runs.c.message)
    .where(
        runs.c.job_id == bindparam("job"),
        runs.c.number < bindparam("number"),
        or_(runs.c.reason.is_(None), runs.c.reason.not_in(UNCHANGED_REASONS)),
    )
    .order_by(runs.c.number.desc())
    .limit(1)
)
SELECT_UNREAD_MESSAGE = text(
    "select 1 from messages where job_id = :job and run_id is null and created_at > :since limit 1"
)


class LeaseLost(Exception):
    """The attempt no longer holds the run: the run was cancelled, finished, or claimed by another worker."""


class MessageText(NamedTuple):
    """A message to the agent: the words of a person or an automation, and the data that Copydesk collected."""

    prompt: str
    data: str


@dataclass(frozen=True)
class EarlierRun:
    reason: Reason | None
    results: dict[str, bytes]


class Step(Generic[T]):
    """A step of a run. Either it is done and has a stored result, or the caller runs it and saves the result."""

    def __init__(self, journal: "Journal", name: str, adapter: TypeAdapter[T]) -> None:
        self.name = name
        self._journal = journal
        self._adapter = adapter
        self._tx: Connection | None = None
        self._saved: tuple[bytes, T] | None = None

    @property
    def is_done(self) -> bool:
        return self.name in self._journal.results

    @cached_property
    def result(self) -> T:
        return self._adapter.validate_json(self._journal.results[self.name])

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Opens a transaction that `save` joins, for steps that change Copydesk's own database."""
        with self._journal.transaction() as tx:
            self._tx = tx
            try:
                yield tx
            finally:
                self._tx = None
        self._mark_done()

    def save(
        self,
        result: T,
        *,
        events: Sequence[NewEvent] = (),
        job: Mapping[str, Any] | None = None,
        files: "Sequence[FilePatch] | None" = None,
        webhook_event: EventType | None = None,
    ) -> None:
        """Stores the result with new events, columns of the job, its changed files and an event for webhooks, in one
        transaction."""
        if self._tx is not None:
            self._store(self._tx, result, events, job, files, webhook_event)
            return
        with self._journal.transaction() as tx:
            self._store(tx, result, events, job, files, webhook_event)
        self._mark_done()

    def _store(
        self,
        tx: Connection,
        result: T,
        events: Sequence[NewEvent],
        job: Mapping[str, Any] | None,
        files: "Sequence[FilePatch] | None",
        webhook_event: EventType | None,
    ) -> None:
        data = self._adapter.dump_json(result)
        if len(data) > MAX_RESULT_BYTES:
            raise ValueError(f"the result of step {self.name} has {len(data)} bytes; the limit is {MAX_RESULT_BYTES}")
        claim = self._journal.claim
        position = len(self._journal.results) + 1
        row = {"run_id": claim.run_id, "name": self.name, "position": position, "result": data, "at": clock.now()}
        tx.execute(INSERT_STEP, row)
        if job:
            self._journal.save_job_values_in(tx, **job)
        if files is not None:
            save_changed_files_in(tx, claim.job_id, files)
        if events:
            update_job(self._journal.database, tx, claim.job_id, events)
        if webhook_event is not None:
            record_job_event(self._journal.database, tx, claim.job_id, webhook_event)
        self._saved = (data, result)

    def _mark_done(self) -> None:
        """Marks the step as done in memory. Called only after the commit, since a rollback discards the result."""
        if self._saved is not None:
            self._journal.results[self.name], self.result = self._saved


class Journal:
    """Reads and writes the steps, events and job columns of one attempt."""

    def __init__(self, database: Database, claim: Claim) -> None:
        self.database = database
        self.claim = claim
        self.results: dict[str, bytes] = {}
        """Stored results of this run's steps, as JSON by step name."""
        if claim.attempt > 1:
            with database.read() as tx:
                self.results = {row.name: row.result for row in tx.execute(SELECT_RESULTS, {"run": claim.run_id})}

    def has_result(self, name: str) -> bool:
        return name in self.results

    @contextmanager
    def step(self, name: str, result_type: type[T]) -> Iterator[Step[T]]:
        """Opens a step. If it is not done, the caller must run it and save its result.

        A trace span covers the context of a step that is not done."""
        step = Step(self, name, TypeAdapter(result_type))
        if step.is_done:
            yield step
            return
        _, turn, span_name = name.split("-") if name.startswith("turn-") else ("", None, name)
        with traces.start_span(span_name, turn=int(turn) if turn else None):
            yield step

    def run_step(self, name: str, result_type: type[T], action: Callable[[], T]) -> T:
        """Returns the stored result of a step, or runs the step and stores its result."""
        with self.step(name, result_type) as step:
            if not step.is_done:
                step.save(action())
        return step.result

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Opens a transaction that only the holder of the run can commit. Raises LeaseLost for any other attempt."""
        with self.database.write() as tx:
            self._fence(tx)
            yield tx

    def check_lease(self) -> None:
        """Raises LeaseLost unless the lease is still valid. Call it right before a change outside the database."""
        with self.database.read() as tx:
            lease_until = tx.execute(SELECT_OWN_LEASE, self._attempt_params()).scalar()
            if lease_until is None or lease_until <= tx.execute(select(self.database.now)).scalar_one():
                raise LeaseLost

    def holds_lease(self) -> bool:
        """Returns False if another attempt owns the run, or if the run ended or was deleted."""
        with self.database.read() as tx:
            return tx.execute(SELECT_OWN_LEASE, self._attempt_params()).first() is not None

    def record_event(self, event: NewEvent) -> None:
        """Stores an event that belongs to no step."""
        with self.transaction() as tx:
            update_job(self.database, tx, self.claim.job_id, [event])

    def enter_phase(self, phase: Phase) -> None:
        with self.transaction() as tx:
            update_job(self.database, tx, self.claim.job_id, [NewEvent(EventKind.PHASE, {"phase": phase})], phase=phase)

    def save_job_values_in(self, tx: Connection, **values: Any) -> None:
        """Updates columns of the job in the caller's transaction."""
        tx.execute(update(jobs).where(jobs.c.id == self.claim.job_id).values(**values))

    def save_job_values(self, **values: Any) -> None:
        """Updates columns of the job in a transaction of its own."""
        with self.transaction() as tx:
            self.save_job_values_in(tx, **values)

    def save_changed_files(self, patches: "Sequence[FilePatch]") -> None:
        """Replaces the stored list of files that the job has changed so far, in a transaction of its own."""
        with self.transaction() as tx:
            save_changed_files_in(tx, self.claim.job_id, patches)

    def load_job(self) -> Job:
        with self.database.read() as tx:
            return job_from_row(tx.execute(select(jobs).where(jobs.c.id == self.claim.job_id)).one())

    def read_messages(self, tx: Connection) -> list[MessageText]:
        """Returns the messages that this run has read, oldest first."""
        rows = tx.execute(SELECT_MESSAGES, {"run": self.claim.run_id})
        return [MessageText(row.prompt, row.data or "") for row in rows]

    def read_all_prompts(self, tx: Connection) -> Sequence[str]:
        """Returns the words of people in all messages of the job, also in those that the agent has not read yet.

        Only they allow anything: a host, a name, a new folder.
        """
        return tx.execute(SELECT_ALL_PROMPTS, {"job": self.claim.job_id}).scalars().all()

    def read_earlier_prompts(self, tx: Connection) -> Sequence[str]:
        """Returns the prompts of the job's earlier runs, oldest first."""
        params = {"job": self.claim.job_id, "run": self.claim.run_id}
        return tx.execute(SELECT_EARLIER_PROMPTS, params).scalars().all()

    def is_started_by_automation(self) -> bool:
        with self.database.read() as tx:
            return self.is_started_by_automation_in(tx)

    def is_started_by_automation_in(self, tx: Connection) -> bool:
        """Returns whether the oldest message that no run has read is one of an automation."""
        return tx.execute(SELECT_OLDEST_UNREAD, {"job": self.claim.job_id}).scalar() is not None

    def list_earlier_runs(self) -> list[EarlierRun]:
        """Returns the job's earlier runs that have stored results, oldest first; results are in the order of steps."""
        query = (
            select(runs.c.number, runs.c.reason, steps.c.name, steps.c.result)
            .join(runs, runs.c.id == steps.c.run_id)
            .where(runs.c.job_id == self.claim.job_id, runs.c.number < self.claim.run_number)
            .order_by(runs.c.number, steps.c.position)
        )
        runs_by_number: dict[int, EarlierRun] = {}
        with self.database.read() as tx:
            for row in tx.execute(query) if self.claim.run_number > 1 else ():
                reason = Reason(row.reason) if row.reason else None
                run = runs_by_number.setdefault(row.number, EarlierRun(reason, {}))
                run.results[row.name] = row.result
        return list(runs_by_number.values())

    def finish_run(self, outcome: JobOutcome) -> bool:
        """Ends the run, and the job unless a message arrived meanwhile: then enqueues the next run.

        A run that changed nothing leaves the job of an open pull request as it was; the event and the run tell of it.
        Returns False when the lease was lost."""
        now = clock.now()
        try:
            with self.transaction() as tx:
                ended = {"run": self.claim.run_id, "now": now, "reason": outcome.reason, "message": outcome.message}
                tx.execute(FINISH_RUN, ended)
                self.database.notify(tx, QUEUE_TOPIC)  # a slot is free now
                has_read = any(name.endswith("-inbox") for name in self.results)
                since = self.claim.created_at if outcome.status is Status.FAILED and not has_read else 0
                has_unread = (
                    tx.execute(SELECT_UNREAD_MESSAGE, {"job": self.claim.job_id, "since": since}).first() is not None
                )
                if has_unread:
                    enqueue_run(self.database, tx, self.claim.job_id, self.claim.project_id, self.claim.run_number + 1)
                    update_job(
                        self.database,
                        tx,
                        self.claim.job_id,
                        [NewEvent(EventKind.PHASE, {"phase": Phase.QUEUED})],
                        phase=Phase.QUEUED,
                    )
                    self._record_automation_failure(tx, outcome, is_ended=False)
                else:
                    own = None if (kept := self._find_kept_outcome(tx, outcome)) is None else outcome
                    finish_job(self.database, tx, self.claim.job_id, kept or outcome, own)
                    self._record_automation_failure(tx, outcome, is_ended=True)
            return True
        except LeaseLost:
            return False

    def _find_kept_outcome(self, tx: Connection, outcome: JobOutcome) -> JobOutcome | None:
        """Returns how the job ended before a run that changed nothing; None if this run decides how it ends."""
        if not outcome.keeps_job and outcome.reason not in UNCHANGED_REASONS:
            return None
        job = tx.execute(select(jobs.c.pr_link, jobs.c.question).where(jobs.c.id == self.claim.job_id)).one()
        if job.pr_link is None and not outcome.keeps_job:
            return None
        params = {"job": self.claim.job_id, "number": self.claim.run_number}
        row = tx.execute(SELECT_LAST_CHANGING_RUN, params).first()
        reason = Reason(row.reason) if row is not None and row.reason else None
        if row is None or (reason is Reason.QUESTION and job.question is None):  # a question that was answered
            return JobOutcome(COMPLETED, None, outcome.message)
        message = " ".join(filter(None, [row.message, outcome.message])) or None
        return JobOutcome(COMPLETED if reason in (None, Reason.QUESTION) else FAILED, reason, message)

    def _record_automation_failure(self, tx: Connection, outcome: JobOutcome, *, is_ended: bool) -> None:
        """Records for webhooks that a run failed which an automation started.

        A message that no run has read belongs to this run if the job has ended with it."""
        if outcome.reason in GOOD_REASONS:
            return
        is_handled = messages.c.run_id == self.claim.run_id
        if is_ended:
            is_handled |= messages.c.run_id.is_(None)
        query = select(messages.c.origin, jobs.c.automation_id).join(jobs, jobs.c.id == messages.c.job_id)
        of_job = (messages.c.job_id == self.claim.job_id) & messages.c.origin.is_not(None)
        row = tx.execute(query.where(of_job, is_handled).order_by(messages.c.created_at.desc()).limit(1)).first()
        if row is not None:
            record_job_event(
                self.database,
                tx,
                self.claim.job_id,
                EventType.AUTOMATION_FAILED,
                automation={"id": row.automation_id, "name": row.origin["automation"]},
                reason=str(outcome.reason),
                message=outcome.message,
            )

    def _fence(self, tx: Connection) -> None:
        """Locks the job until the commit, so that no other process can end or claim the run.

        Raises LeaseLost for an attempt that was taken over."""
        lock_job(self.database, tx, self.claim.run_id)
        if tx.execute(SELECT_OWN_LEASE, self._attempt_params()).first() is None:
            raise LeaseLost

    def _attempt_params(self) -> dict[str, Any]:
        return {"run": self.claim.run_id, "attempt": self.claim.attempt, "worker": self.claim.worker}


def finish_job(
    database: Database, tx: Connection, job_id: str, outcome: JobOutcome, own: JobOutcome | None = None
) -> None:
    """Ends the job. `own` is the outcome of a last run that leaves the job as it was before."""
    values = {"status": outcome.status, "reason": outcome.reason, "message": outcome.message}
    run = {"run": {"reason": own.reason, "message": own.message}} if own else {}
    update_job(
        database,
        tx,
        job_id,
        [NewEvent(EventKind.FINISHED, {**values, **run})],
        phase=Phase.DONE,
        finished_at=clock.now(),
        **values,
    )
    record_job_event(database, tx, job_id, END_EVENTS[outcome.status])
