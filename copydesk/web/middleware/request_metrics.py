"""Metrics and log lines of requests: kind, status and duration. They never contain the caller or the path."""

import logging

from copydesk.core.telemetry import instruments

log = logging.getLogger("copydesk.requests")

PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
STATUS_CLASSES = ("", "1xx", "2xx", "3xx", "4xx", "5xx")
TRACED_KINDS = frozenset({"create", "jobs", "webhook", "page"})
"""The kinds of requests that can start or end a run. Their requests other than GET are traced."""


def classify_request(method: str, path: str) -> str:
    """Returns the kind of the request, for metrics and logs. Paths are not used there: they contain IDs and secrets."""
    if path.startswith("/v1/collect/"):
        return "beacon"
    if path.startswith("/v1/analytics/"):
        return "events" if path.endswith("/events") else "export"
    if path.startswith("/v2/agent/"):
        if method == "POST" and path.endswith("/job"):
            return "create"
        if path.endswith("/events"):
            return "live"
        return "poll" if method == "GET" and path.count("/") == 5 else "jobs"
    if path.startswith("/webhooks/"):
        return "webhook"
    return "probe" if path in PROBE_PATHS else "page"


def record_request(kind: str, status: int, seconds: float, *, should_log: bool) -> None:
    instruments.requests.add(kind, STATUS_CLASSES[status // 100])
    instruments.request_seconds.observe(seconds, kind)
    if should_log:
        log.info("%s %d in %.1f ms", kind, status, seconds * 1000)
