"""Stores the trace that a run belongs to, so that any process can continue the trace."""

from sqlalchemy import Connection, bindparam, select

from copydesk.core import clock
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.telemetry import traces
from copydesk.jobs.storage.tables import steps

TRACE_STEP_NAME = "trace"
"""The trace is stored in the table of steps under this name."""
SELECT_TRACE_PARENT = select(steps.c.result).where(steps.c.run_id == bindparam("run"), steps.c.name == TRACE_STEP_NAME)


def save_trace_parent(tx: Connection, run_id: str) -> None:
    """Stores the current trace as the run's trace, unless the run has one already or tracing is off.

    Called in the transaction that creates the run, or else when an attempt starts."""
    if traceparent := traces.current_traceparent():
        result = traceparent.encode()
        row = {"run_id": run_id, "name": TRACE_STEP_NAME, "position": 0, "result": result, "at": clock.now()}
        insert_if_absent(tx, steps, row)


def read_trace_parent(tx: Connection, run_id: str) -> str | None:
    """Returns the traceparent that was stored for the run, or None."""
    result = tx.execute(SELECT_TRACE_PARENT, {"run": run_id}).scalar()
    return result.decode() if result else None
