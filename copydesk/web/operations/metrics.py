"""Collects the metrics: the counters of this process, and the state of the stores, the queue and the worker."""

import platform
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from copydesk import __version__
from copydesk.core.runtime.cached_probe import CachedProbe
from copydesk.core.telemetry import instruments
from copydesk.desk import Desk
from copydesk.jobs.execution.worker import Worker
from copydesk.jobs.storage.stats import QueueStats, read_queue_stats
from copydesk.web.operations.readiness import PROBE_TIMEOUT_SECONDS, Readiness, ReadinessReport
from copydesk.webhooks.service import WebhookStats

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
Samples = Iterable[tuple[Mapping[str, str], float]]


class MetricsCollector(Collector):
    """Exposes all metrics in a registry of this desk. Leaves out those of an unavailable part; `copydesk_ready` shows
    which part that is."""

    def __init__(self, desk: Desk, readiness: Readiness, worker: Worker | None = None) -> None:
        self.desk = desk
        self.readiness = readiness
        self.worker = worker
        self._queue_probe = CachedProbe(lambda: read_queue_stats(desk.database))
        self._webhook_probe = CachedProbe(desk.webhooks.read_stats)

        self._registry = CollectorRegistry()
        for each in (self, ProcessCollector(registry=None), *instruments.ALL_INSTRUMENTS):
            self._registry.register(each)

    def describe(self) -> list[GaugeMetricFamily]:
        """Returns no names, so that registering this collector does not read the stores."""
        return []

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        queue_future, webhook_future = self._queue_probe.start(), self._webhook_probe.start()
        report = self.readiness.check()
        build = {"version": __version__, "python": platform.python_version()}
        yield gauge("copydesk_build_info", "The versions of Copydesk and Python.", [(build, 1)])
        yield gauge("process_threads", "Threads of this process.", threading.active_count())
        yield from self._collect_stores(report)
        yield from _collect_queue(queue_future)
        yield from _collect_webhooks(webhook_future)
        yield from self._collect_worker()

    def _collect_stores(self, report: ReadinessReport) -> list[GaugeMetricFamily]:
        pool: Any = self.desk.database.engine.pool
        gauges = [
            gauge(
                "copydesk_ready",
                "1 for each part that works, else 0.",
                [({"part": part}, float(fault is None)) for part, fault in report.faults.items()],
            ),
            gauge(
                "copydesk_database_connections",
                "Connections to the database.",
                [({"state": "in_use"}, pool.checkedout()), ({"state": "idle"}, pool.checkedin())],
            ),
        ]
        if report.backlog is not None:
            scheduler = self.desk.fold_scheduler
            gauges += [
                gauge("copydesk_views_waiting", "Views waiting to be folded.", report.backlog),
                gauge("copydesk_fold_lag_seconds", "How long the oldest of these views has waited.", scheduler.lag),
                gauge(
                    "copydesk_fold_failing",
                    "1 while folding fails and is retried, else 0.",
                    float(scheduler.is_failing),
                ),
            ]
        return gauges

    def _collect_worker(self) -> list[GaugeMetricFamily]:
        if self.worker is None:
            return []
        busy = self.worker.running_count
        slots = [({"state": "busy"}, busy), ({"state": "free"}, max(0, self.worker.slots - busy))]
        return [
            gauge("copydesk_worker_slots", "Job slots of this worker, busy and free.", slots),
            gauge(
                "copydesk_worker_heartbeat_timestamp_seconds",
                "When this worker last renewed its leases, in seconds since 1970.",
                self.worker.last_heartbeat_at,
            ),
        ]


def gauge(name: str, help_text: str, samples: Samples | float) -> GaugeMetricFamily:
    """Returns a gauge with its values by label, or with one value that has no labels."""
    if isinstance(samples, int | float):
        return GaugeMetricFamily(name, help_text, value=samples)
    family = GaugeMetricFamily(name, help_text)
    for labels, value in samples:
        family.add_sample(name, dict(labels), value)
    return family


def _collect_queue(future: "Future[QueueStats]") -> list[GaugeMetricFamily]:
    try:
        stats = future.result(PROBE_TIMEOUT_SECONDS / 4)  # it has been running while the stores were checked
    except Exception:  # copydesk_ready reports it
        return []
    states = {"queued": stats.queued, "running": stats.running, "orphaned": stats.orphaned}
    return [
        gauge("copydesk_jobs_active", "Active jobs.", stats.active),
        gauge(
            "copydesk_runs",
            "Runs that are queued or running. Orphaned runs are running ones whose worker has died.",
            [({"state": state}, count) for state, count in states.items()],
        ),
        gauge("copydesk_oldest_queued_seconds", "How long the oldest queued run has waited.", stats.oldest_seconds),
        gauge("copydesk_workers_busy", "Workers of all processes that have a running job.", stats.workers),
    ]


def _collect_webhooks(future: "Future[WebhookStats]") -> list[GaugeMetricFamily]:
    try:
        stats = future.result(PROBE_TIMEOUT_SECONDS / 4)
    except Exception:  # copydesk_ready reports it
        return []
    return [
        gauge("copydesk_webhooks_waiting", "Webhook deliveries that wait or are retried.", stats.waiting),
        gauge("copydesk_oldest_webhook_seconds", "How long the oldest of them has waited.", stats.oldest_seconds),
    ]
