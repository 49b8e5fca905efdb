"""Logs that are JSON, a record a line: each format is a table of the names it gives to the fields of a request."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from copydesk.analytics.ingest.event_schema import LONGEST_ID
from copydesk.analytics.log_import.log_line import MALFORMED, Line, More, asked
from copydesk.analytics.page_view import Dropped, Reason

Names = Mapping[str, tuple[str, ...]]
JSON_LINES: Names = {
    "when": ("timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "time", "date", "ts", "StartUTC"),
    "url": ("url", "path", "request_uri", "uri", "RequestPath"),
    "request": ("request",),
    "method": ("method", "request_method", "RequestMethod"),
    "status": ("status", "DownstreamStatus"),
    "address": ("ip", "remote_addr", "client_ip", "clientip", "remote_ip", "ClientHost"),
    "host": ("host", "http_host", "server_name", "vhost", "RequestHost"),
    "referrer": ("referrer", "http_referer", "referer", "request_Referer"),
    "agent": ("userAgent", "http_user_agent", "user_agent", "agent", "request_User-Agent"),
    "forwarded": ("http_x_forwarded_for", "x_forwarded_for"),
    "accept": ("accept", "http_accept"),
    "purpose": ("http_sec_purpose", "sec_purpose", "http_purpose"),
    "type": ("sent_http_content_type",),
    "visitor_id": ("visitorId",),
    "event_id": ("eventId",),
}
"""Our own events, and the names that nginx's and Traefik's users choose most."""
CLOUDFLARE: Names = {
    "when": ("EdgeStartTimestamp",),
    "url": ("ClientRequestURI", "ClientRequestPath"),
    "method": ("ClientRequestMethod",),
    "status": ("EdgeResponseStatus",),
    "address": ("ClientIP",),
    "host": ("ClientRequestHost",),
    "referrer": ("ClientRequestReferer",),
    "agent": ("ClientRequestUserAgent",),
    "type": ("EdgeResponseContentType",),
}
CADDY: Names = {
    "when": ("ts",),
    "url": ("uri",),
    "method": ("method",),
    "status": ("status",),
    "address": ("client_ip", "remote_ip", "remote_addr"),
    "host": ("host",),
    "referrer": ("Referer",),
    "agent": ("User-Agent",),
    "accept": ("Accept",),
    "purpose": ("Sec-Purpose", "Purpose"),
    "type": ("Content-Type",),
}
ASKED = ("User-Agent", "Referer", "Accept", "Sec-Purpose", "Purpose")
FROM_OUTSIDE = ("eyeball", "unknown", "orangeToOrange", "")
"""Other sources are parts of Cloudflare's network that fetch for themselves: workers, health checks, image resizing."""

NO_PATH, NO_TIME = Dropped(Reason.NO_PATH), Dropped(Reason.BAD_TIMESTAMP, "timestamp")
INTERNAL = Dropped(Reason.INTERNAL)
LONGEST = {"address": LONGEST_ID, "visitor_id": LONGEST_ID, "event_id": LONGEST_ID, "host": LONGEST_ID, "accept": 4096}
LONGEST_TEXT = 1 << 16


class Records:
    """`name` and `names`: of the format, and those under which it tells the fields of a request."""

    def __init__(self, name: str, names: Names) -> None:
        self.name = name
        self._where = lru_cache(maxsize=256)(partial(_where, names))

    def read(self, text: str) -> Iterator[Line | Dropped | None]:
        """One for each line: the request, why there is none, or None for an empty line."""
        for line in text.split("\n"):
            yield self._read(line) if line and not line.isspace() else None

    def whole(self, line: str) -> bool:
        """Whether a line that nothing ends is surely complete."""
        return loaded(line) is not None

    def _read(self, line: str) -> Line | Dropped:
        record = loaded(line)
        return MALFORMED if record is None else self.line(line, record)

    def line(self, text: str, record: Mapping[str, Any]) -> Line | Dropped:
        where = self._where(tuple(record))
        return line_of(text, {field: record[name] for field, name in where}) if where else NO_PATH


class Caddy(Records):
    """The request is a record within the record, and its headers are lists."""

    def line(self, text: str, record: Mapping[str, Any]) -> Line | Dropped:
        request = record.get("request")
        if record.get("msg") != "handled request" or not isinstance(request, dict):
            return MALFORMED
        sent, answered = _headers(request, "headers", ASKED), _headers(record, "resp_headers", ("Content-Type",))
        told = {name: record[name] for name in ("ts", "status") if name in record}
        return super().line(text, {**request, **sent, **answered, **told})


class Cloudflare(Records):
    def line(self, text: str, record: Mapping[str, Any]) -> Line | Dropped:
        return super().line(text, record) if record.get("ClientRequestSource", "") in FROM_OUTSIDE else INTERNAL


def line_of(text: str, told: dict[str, Any]) -> Line | Dropped:
    """The request, if every field has the type and the size that it must have."""
    when, status, visitor_id = told.pop("when", None), told.get("status", 200), told.get("visitor_id")
    if type(status) is int and 0 <= status <= 999:
        told["status"] = status = f"{status:03}"
    if not isinstance(status, str) or len(status) != 3 or not status.isdecimal():
        return Dropped(Reason.BAD_FIELD, "status")
    if type(visitor_id) is int:
        told["visitor_id"] = str(visitor_id)
    for field, value in told.items():
        if not isinstance(value, str) or len(value) > LONGEST.get(field, LONGEST_TEXT):
            return Dropped(Reason.BAD_FIELD, field)
    if when is None:
        return NO_TIME
    get = told.get
    method, url = (get("method", "GET"), told["url"]) if "url" in told else asked(told["request"])
    more = More(get("accept", ""), get("purpose", ""), get("type", ""), get("visitor_id"), get("event_id"))
    return Line(
        text,
        get("host", ""),
        get("address", ""),
        when,
        method,
        url,
        status,
        get("referrer", ""),
        get("agent", ""),
        get("forwarded", ""),
        more,
    )


def loaded(line: str) -> dict[str, Any] | None:
    """The record without what is null: that is as good as not told."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    return {name: value for name, value in record.items() if value is not None} if None in record.values() else record


def _where(names: Names, keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Which name of a record tells which field; nothing where none tells what was asked for."""
    held = set(keys)
    found = {field: next((name for name in known if name in held), "") for field, known in names.items()}
    return tuple((field, name) for field, name in found.items() if name) if found["url"] or found.get("request") else ()


def _headers(record: Mapping[str, Any], where: str, names: tuple[str, ...]) -> dict[str, Any]:
    headers = record.get(where)
    if not isinstance(headers, dict):
        return {}
    return {name: values[0] for name in names if isinstance(values := headers.get(name), list) and values}
