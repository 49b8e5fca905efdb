"""What is noted of each request: its kind, how it ended, and how long that took. Never who asked, nor for what."""

import logging

from copydesk.core.telemetry import instruments as measured

log = logging.getLogger("copydesk.requests")

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
STATUSES = ("", "1xx", "2xx", "3xx", "4xx", "5xx")
TRACED = frozenset({"create", "jobs", "webhook", "page"})
"""The kinds that may begin or end a run, where they change something."""


def kind_of(method: str, path: str) -> str:
    """One of a dozen words: addresses hold ids, and some of them secrets."""
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
    return "probe" if path in PROBES else "page"


def note(kind: str, status: int, seconds: float, *, is_logged: bool) -> None:
    measured.requests.add(kind, STATUSES[status // 100])
    measured.request_seconds.observe(seconds, kind)
    if is_logged:
        log.info("%s %d in %.1f ms", kind, status, seconds * 1000)
