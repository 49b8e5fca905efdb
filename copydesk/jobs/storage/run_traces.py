"""A run's trace goes on in whichever process takes it up: its beginning is kept in the run's journal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, select, text

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.telemetry import logs, traces
from copydesk.jobs.storage.tables import steps

if TYPE_CHECKING:
    from copydesk.jobs.execution.queue import Claim

NAME = "trace"
NEW = text(
    """
    insert into steps (run_id, name, position, result, at) values (:run, :name, 0, :result, :at)
    on conflict do nothing
    """
)
KEPT = select(steps.c.result).where(steps.c.run_id == bindparam("run"), steps.c.name == NAME)


def keep(tx: Connection, run_id: str) -> None:
    """Within the transaction that makes the run, or before its first attempt."""
    if here := traces.current():
        tx.execute(NEW, {"run": run_id, "name": NAME, "result": here.encode(), "at": clock.now()})


@contextmanager
def attempt(database: Database, claim: "Claim") -> Iterator[traces.Span]:
    """A take-over has the same parent as the attempt before it: what that one finished is in the trace already."""
    if not traces.is_on():
        yield traces.OFF
        return
    with database.read() as tx:
        kept = tx.execute(KEPT, {"run": claim.run_id}).scalar()
    parent = kept.decode() if kept else None
    if claim.attempt == 1 or parent is None:
        began = min(claim.created_at, clock.now())  # by the database's clock, and ours may be behind
        with traces.span("queued", parent=parent, began=began, job=claim.job_id, run=claim.number):
            if parent is None:
                parent = traces.current()
                with database.write() as tx:
                    keep(tx, claim.run_id)
    with (
        traces.span(
            "attempt",
            parent=parent,
            job=claim.job_id,
            project=claim.project_id,
            run=claim.number,
            attempt=claim.attempt,
            crashes=claim.crashes,
        ) as span,
        logs.about(traceId=span.trace_id),
    ):
        yield span
