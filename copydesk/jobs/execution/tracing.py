"""The trace span of an attempt, within the trace of its run."""

from collections.abc import Iterator
from contextlib import contextmanager

from copydesk.core import clock
from copydesk.core.db.database import Database
from copydesk.core.telemetry import logs, traces
from copydesk.jobs.execution.queue import Claim
from copydesk.jobs.storage.run_traces import read_trace_parent, save_trace_parent


@contextmanager
def attempt_span(database: Database, claim: Claim) -> Iterator[traces.Span]:
    """Opens the span of an attempt.

    All attempts of a run have the same parent, so that the trace also shows the steps of earlier attempts."""
    if not traces.is_enabled():
        yield traces.NO_SPAN
        return
    with database.read() as tx:
        parent = read_trace_parent(tx, claim.run_id)
    if claim.attempt == 1 or parent is None:
        queued_at = min(claim.created_at, clock.now())  # this clock may be behind the database's
        with traces.start_span("queued", parent=parent, started_at=queued_at, job=claim.job_id, run=claim.run_number):
            if parent is None:
                parent = traces.current_traceparent()
                with database.write() as tx:
                    save_trace_parent(tx, claim.run_id)
    with (
        traces.start_span(
            "attempt",
            parent=parent,
            job=claim.job_id,
            project=claim.project_id,
            run=claim.run_number,
            attempt=claim.attempt,
            crashes=claim.crashes,
        ) as span,
        logs.log_context(traceId=span.trace_id),
    ):
        yield span
