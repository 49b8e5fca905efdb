"""Metrics and log lines of requests: kind, status and duration. They never contain the caller or the path."""

import logging

from copydesk.core.telemetry import instruments
from copydesk.web import route_patterns as paths

log = logging.getLogger("copydesk.requests")

STATUS_CLASSES = ("", "1xx", "2xx", "3xx", "4xx", "5xx")
TRACED_KINDS = frozenset({"create", "jobs", "webhook", "page"})
"""The kinds of requests that can start or end a run. Their requests other than GET are traced."""


def classify_request(method: str, path: str) -> str:
    """Returns the kind of the request, for metrics and logs. Paths are not used there: they contain IDs and secrets."""
    if path.startswith(paths.COLLECTOR_PREFIX):
        return "beacon"
    if path.startswith(paths.ANALYTICS_PREFIX):
        return "events" if paths.SEND_EVENTS_PATH.fullmatch(path) else "export"
    if path.startswith(paths.JOBS_PREFIX):
        if method == "POST" and (paths.CREATE_JOB_PATH.fullmatch(path) or paths.CREATE_SESSION_PATH.fullmatch(path)):
            return "create"
        if paths.JOB_EVENTS_PATH.fullmatch(path):
            return "live"
        is_poll = paths.GET_JOB_PATH.fullmatch(path) or paths.GET_SESSION_PATH.fullmatch(path)
        return "poll" if method == "GET" and is_poll else "jobs"
    if path == paths.MCP_PATH:
        return "mcp"
    if path.startswith(paths.WEBHOOK_PREFIX):
        return "webhook"
    return "probe" if path in paths.PROBE_PATHS else "page"


def record_request(kind: str, status: int, seconds: float, *, should_log: bool) -> None:
    instruments.requests.labels(kind, STATUS_CLASSES[status // 100]).inc()
    instruments.request_seconds.labels(kind).observe(seconds)
    if should_log:
        log.info("%s %d in %.1f ms", kind, status, seconds * 1000)
