"""Stores the trace that a run belongs to, so that the run's trace goes on in any process."""

from sqlalchemy import Connection, bindparam, select, text

from copydesk.core import clock
from copydesk.core.telemetry import traces
from copydesk.jobs.storage.tables import steps

TRACE_STEP_NAME = "trace"
"""The journal keeps it as a step of this name."""
INSERT_TRACE_PARENT = text(
    """
    insert into steps (run_id, name, position, result, at) values (:run, :name, 0, :result, :at)
    on conflict do nothing
    """
)
SELECT_TRACE_PARENT = select(steps.c.result).where(steps.c.run_id == bindparam("run"), steps.c.name == TRACE_STEP_NAME)


def save_trace_parent(tx: Connection, run_id: str) -> None:
    """Stores the current trace as the run's, unless it has one or nothing is traced.

    Called within the transaction that creates the run, or before its first attempt."""
    if traceparent := traces.current_traceparent():
        values = {"run": run_id, "name": TRACE_STEP_NAME, "result": traceparent.encode(), "at": clock.now()}
        tx.execute(INSERT_TRACE_PARENT, values)


def read_trace_parent(tx: Connection, run_id: str) -> str | None:
    """Returns the trace that the run belongs to."""
    result = tx.execute(SELECT_TRACE_PARENT, {"run": run_id}).scalar()
    return result.decode() if result else None
