"""Adds the stale pages to the message of an automation's run, in the worker that begins the run."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel
from sqlalchemy import Connection, bindparam, func, select, update

from copydesk.automations.automation import Outcome
from copydesk.automations.reader_signals import ReaderSignals, StaleSignal, render_stale_pages
from copydesk.automations.records import load_runs, select_runs
from copydesk.automations.tables import automation_runs
from copydesk.automations.triggers.stale_pages.finder import StalePageFinder
from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Project
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.job import COMPLETED, Job, JobOutcome, Reason
from copydesk.jobs.storage.message_origins import MessageOrigin
from copydesk.jobs.storage.records import EventKind, NewEvent, update_job
from copydesk.jobs.storage.tables import messages

POPULAR_MS = 30 * clock.DAY
"""Pages are popular by their readers in this time."""
MAX_RUNS_SEARCHED = 50
STEP = "stale-pages"
SELECT_UNREAD = (
    select(messages.c.id, messages.c.data, messages.c.origin)
    .where(messages.c.job_id == bindparam("job"), messages.c.run_id.is_(None))
    .order_by(messages.c.created_at, messages.c.id)
)


class WaitingMessage(NamedTuple):
    """A message of an automation that has no stale pages yet."""

    id: str
    data: str
    origin: MessageOrigin


class RunDataResult(BaseModel):
    """The journaled result: why the run has nothing to do, or None."""

    nothing_to_do: str | None


class StaleRunData:
    def __init__(self, database: Database, signals: ReaderSignals, finder: StalePageFinder) -> None:
        self.database = database
        self.signals = signals
        self.finder = finder

    def prepare_run(self, journal: Journal, project: Project, job: Job) -> JobOutcome | None:
        """Compares the popular pages, if a message of the run waits for that, and adds the stale ones to the message.

        Returns the outcome of a run that has nothing to do, so that no model is asked. Raises RepositoryFailed if a
        repository is unreadable.
        """
        with journal.step(STEP, RunDataResult) as step:
            if not step.is_done:
                waiting = self._list_waiting(job.id)
                if not waiting:
                    return None
                compared_at = clock.now()
                signals = {message.id: self._compare(project, job, message, compared_at) for message in waiting}
                with step.transaction() as tx:
                    step.save(self._store_signals(tx, journal, job, waiting, signals, compared_at))
        reason = step.result.nothing_to_do
        return None if reason is None else JobOutcome(COMPLETED, Reason.NO_CHANGES, reason)

    def _list_waiting(self, job_id: str) -> list[WaitingMessage]:
        with self.database.read() as tx:
            rows = tx.execute(SELECT_UNREAD, {"job": job_id}).all()
        unread = [
            WaitingMessage(row.id, row.data or "", MessageOrigin.model_validate(row.origin))
            for row in rows
            if row.origin
        ]
        return [message for message in unread if message.origin.awaits_comparison]

    def _compare(self, project: Project, job: Job, message: WaitingMessage, now: int) -> StaleSignal:
        """Returns the popular pages whose sources changed, or why there is nothing to do.

        A page that an earlier run was told of counts again when a source changes once more.
        """
        told = self._list_told_pages(job, message.id)
        pages = self.signals.list_popular_pages(project.id, now - POPULAR_MS)
        comparison = self.finder.find(project, pages, told, job.context)
        return render_stale_pages(comparison, pages, told, now)

    def _list_told_pages(self, job: Job, message_id: str) -> Mapping[str, int]:
        """Returns when an earlier run of the automation that did not fail was told of each page."""
        is_earlier = (automation_runs.c.automation_id == job.automation_id) & (
            automation_runs.c.message_id < message_id
        )
        with self.database.read() as tx:
            earlier = load_runs(tx, select_runs().where(is_earlier).limit(MAX_RUNS_SEARCHED))
        told: dict[str, int] = {}
        for run in earlier:
            for address in run.trigger.get("pages", ()) if run.outcome is not Outcome.FAILED else ():
                told.setdefault(address, run.trigger.get("comparedAt", run.fired_at))
        return told

    def _store_signals(
        self,
        tx: Connection,
        journal: Journal,
        job: Job,
        waiting: Sequence[WaitingMessage],
        signals: Mapping[str, StaleSignal],
        compared_at: int,
    ) -> RunDataResult:
        """Stores the messages with their pages. With nothing to do, marks them as read if there is no other message."""
        of_job = messages.c.job_id == job.id
        unread_count = tx.execute(select(func.count()).where(of_job, messages.c.run_id.is_(None))).scalar_one()
        is_idle = unread_count == len(waiting) and all(signal.text is None for signal in signals.values())
        for message in waiting:
            signal = signals[message.id]
            collected = signal.text or signal.nothing_to_do
            origin = message.origin.model_copy(update={"awaits_comparison": False})
            values: dict[str, Any] = {"origin": origin.model_dump()}
            if is_idle:
                values["run_id"] = journal.claim.run_id
            else:
                values["data"] = "\n\n".join(part for part in (message.data, collected) if part)
                update_job(self.database, tx, job.id, [NewEvent(EventKind.DATA, {"text": collected})])
            tx.execute(update(messages).where(of_job, messages.c.id == message.id).values(**values))
            _record_pages(tx, job.id, message.id, signal.pages, compared_at, ended_at_once=is_idle)
        return RunDataResult(nothing_to_do=signals[waiting[-1].id].nothing_to_do if is_idle else None)


def _record_pages(
    tx: Connection, job_id: str, message_id: str, pages: Sequence[str], compared_at: int, *, ended_at_once: bool
) -> None:
    """Stores the listed pages with the run, unless its automation was deleted meanwhile."""
    same_run = (automation_runs.c.job_id == job_id) & (automation_runs.c.message_id == message_id)
    row = tx.execute(select(automation_runs.c.trigger).where(same_run)).first()
    if row is not None:
        listed = {"pages": list(pages), "comparedAt": compared_at} if pages else {}
        values = {"trigger": {**row.trigger, **listed}, "ended_at_once": ended_at_once}
        tx.execute(update(automation_runs).where(same_run).values(**values))
