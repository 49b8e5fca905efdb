"""All that /metrics tells: what this process counted, and how the stores, the queue and the worker are right now."""

import platform
from concurrent.futures import Future
from typing import Any

from copydesk import __version__
from copydesk.core.runtime.cached_probe import Asked
from copydesk.core.telemetry import instruments as measured
from copydesk.core.telemetry import metrics
from copydesk.core.telemetry.metrics import Counter, Gauge
from copydesk.core.telemetry.process_metrics import process
from copydesk.desk import Desk
from copydesk.jobs.execution.worker import Worker
from copydesk.jobs.storage.queue_stats import Waiting, waiting
from copydesk.web.operations.readiness import PATIENCE_SECONDS, Readiness, Report


class Gauges:
    """What cannot be asked right now is left out, and `copydesk_ready` says which part is away."""

    def __init__(self, desk: Desk, readiness: Readiness, worker: Worker | None = None) -> None:
        self.desk, self.readiness, self.worker = desk, readiness, worker
        self._queue = Asked(lambda: waiting(desk.database))

    def text(self) -> str:
        queue, report = self._queue.begin(), self.readiness.report()
        stores, queued = self._stores(report), _queued(queue)
        return metrics.text([*_process(), *stores, *queued, *self._worker(), *measured.ALL])

    def _stores(self, report: Report) -> list[Gauge]:
        pool: Any = self.desk.database.engine.pool
        found = [
            Gauge(
                "copydesk_ready",
                "1 for each part that can do its work.",
                [({"part": part}, float(fault is None)) for part, fault in report.faults.items()],
            ),
            Gauge(
                "copydesk_database_connections",
                "Connections to the database.",
                [({"state": "in_use"}, pool.checkedout()), ({"state": "idle"}, pool.checkedin())],
            ),
        ]
        if report.backlog is not None:
            keeper = self.desk.keeper
            found += [
                Gauge("copydesk_views_waiting", "Views that wait to be folded.", report.backlog),
                Gauge("copydesk_fold_lag_seconds", "For how long the oldest of them has waited.", keeper.lag),
                Gauge("copydesk_fold_failing", "1 while folding fails and is tried again.", float(keeper.is_failing)),
            ]
        return found

    def _worker(self) -> list[Gauge]:
        if self.worker is None:
            return []
        busy = self.worker.busy
        slots = [({"state": "busy"}, busy), ({"state": "free"}, max(0, self.worker.slots - busy))]
        return [
            Gauge("copydesk_worker_slots", "Jobs that this worker has under way, and could take.", slots),
            Gauge(
                "copydesk_worker_heartbeat_timestamp_seconds",
                "When this worker last renewed its leases, since 1970.",
                self.worker.beat_at,
            ),
        ]


def _process() -> list[Counter | Gauge]:
    build = {"version": __version__, "python": platform.python_version()}
    return [Gauge("copydesk_build_info", "What is running.", [(build, 1)]), *process()]


def _queued(answer: "Future[Waiting]") -> list[Gauge]:
    try:
        queue = answer.result(PATIENCE_SECONDS / 4)  # it was asked before the stores were, and waited for with them
    except Exception:  # copydesk_ready tells of it
        return []
    states = {"queued": queue.queued, "running": queue.running, "orphaned": queue.orphaned}
    return [
        Gauge("copydesk_jobs_active", "Jobs that are not over.", queue.active),
        Gauge(
            "copydesk_runs",
            "Runs that wait or are under way; an orphaned one is running too, but its worker is gone.",
            [({"state": state}, count) for state, count in states.items()],
        ),
        Gauge("copydesk_oldest_queued_seconds", "For how long the oldest queued run waits.", queue.oldest_seconds),
        Gauge("copydesk_workers_busy", "Workers that have a run under way, over all processes.", queue.workers),
    ]
