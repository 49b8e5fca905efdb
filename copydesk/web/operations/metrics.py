"""Collects the metrics: the counters of this process, and the state of the stores, the queue and the worker."""

import platform
from concurrent.futures import Future
from typing import Any

from copydesk import __version__
from copydesk.core.runtime.cached_probe import CachedProbe
from copydesk.core.telemetry import instruments, metrics
from copydesk.core.telemetry.metrics import Counter, Gauge
from copydesk.core.telemetry.process_metrics import collect_process_metrics
from copydesk.desk import Desk
from copydesk.jobs.execution.worker import Worker
from copydesk.jobs.storage.stats import QueueStats, read_queue_stats
from copydesk.web.operations.readiness import PROBE_TIMEOUT_SECONDS, Readiness, ReadinessReport
from copydesk.webhooks.service import WebhookStats


class MetricsCollector:
    """Collects all metrics. Leaves out those of an unavailable part; `copydesk_ready` shows which part that is."""

    def __init__(self, desk: Desk, readiness: Readiness, worker: Worker | None = None) -> None:
        self.desk = desk
        self.readiness = readiness
        self.worker = worker
        self._queue_probe = CachedProbe(lambda: read_queue_stats(desk.database))
        self._webhook_probe = CachedProbe(desk.webhooks.read_stats)

    def render(self) -> str:
        queue_future, webhook_future = self._queue_probe.start(), self._webhook_probe.start()
        report = self.readiness.check()
        store_gauges = self._collect_stores(report)
        queue_gauges = [*_collect_queue(queue_future), *_collect_webhooks(webhook_future)]
        return metrics.render_metrics(
            [*_collect_process(), *store_gauges, *queue_gauges, *self._collect_worker(), *instruments.ALL_INSTRUMENTS]
        )

    def _collect_stores(self, report: ReadinessReport) -> list[Gauge]:
        pool: Any = self.desk.database.engine.pool
        gauges = [
            Gauge(
                "copydesk_ready",
                "1 for each part that works, else 0.",
                [({"part": part}, float(fault is None)) for part, fault in report.faults.items()],
            ),
            Gauge(
                "copydesk_database_connections",
                "Connections to the database.",
                [({"state": "in_use"}, pool.checkedout()), ({"state": "idle"}, pool.checkedin())],
            ),
        ]
        if report.backlog is not None:
            scheduler = self.desk.fold_scheduler
            gauges += [
                Gauge("copydesk_views_waiting", "Views waiting to be folded.", report.backlog),
                Gauge("copydesk_fold_lag_seconds", "How long the oldest of these views has waited.", scheduler.lag),
                Gauge(
                    "copydesk_fold_failing",
                    "1 while folding fails and is retried, else 0.",
                    float(scheduler.is_failing),
                ),
            ]
        return gauges

    def _collect_worker(self) -> list[Gauge]:
        if self.worker is None:
            return []
        busy = self.worker.running_count
        slots = [({"state": "busy"}, busy), ({"state": "free"}, max(0, self.worker.slots - busy))]
        return [
            Gauge("copydesk_worker_slots", "Job slots of this worker, busy and free.", slots),
            Gauge(
                "copydesk_worker_heartbeat_timestamp_seconds",
                "When this worker last renewed its leases, in seconds since 1970.",
                self.worker.last_heartbeat_at,
            ),
        ]


def _collect_process() -> list[Counter | Gauge]:
    build = {"version": __version__, "python": platform.python_version()}
    return [
        Gauge("copydesk_build_info", "The versions of Copydesk and Python.", [(build, 1)]),
        *collect_process_metrics(),
    ]


def _collect_queue(future: "Future[QueueStats]") -> list[Gauge]:
    try:
        stats = future.result(PROBE_TIMEOUT_SECONDS / 4)  # it has been running while the stores were checked
    except Exception:  # copydesk_ready reports it
        return []
    states = {"queued": stats.queued, "running": stats.running, "orphaned": stats.orphaned}
    return [
        Gauge("copydesk_jobs_active", "Active jobs.", stats.active),
        Gauge(
            "copydesk_runs",
            "Runs that are queued or running. Orphaned runs are running ones whose worker has died.",
            [({"state": state}, count) for state, count in states.items()],
        ),
        Gauge("copydesk_oldest_queued_seconds", "How long the oldest queued run has waited.", stats.oldest_seconds),
        Gauge("copydesk_workers_busy", "Workers of all processes that have a running job.", stats.workers),
    ]


def _collect_webhooks(future: "Future[WebhookStats]") -> list[Gauge]:
    try:
        stats = future.result(PROBE_TIMEOUT_SECONDS / 4)
    except Exception:  # copydesk_ready reports it
        return []
    return [
        Gauge("copydesk_webhooks_waiting", "Webhook deliveries that wait or are retried.", stats.waiting),
        Gauge("copydesk_oldest_webhook_seconds", "How long the oldest of them has waited.", stats.oldest_seconds),
    ]
