"""Logs with one JSON record per line. A format is a table from the fields of a request to their names in a record."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from copydesk.analytics.ingest.event_schema import MAX_ID_CHARS
from copydesk.analytics.log_import.log_line import MALFORMED, ExtraFields, LogLine, parse_request_line
from copydesk.analytics.page_view import Dropped, DropReason

FieldNames = Mapping[str, tuple[str, ...]]
JSON_LINES_FIELDS: FieldNames = {
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
"""The fields of our events, and the most common names in logs of nginx and Traefik."""
CLOUDFLARE_FIELDS: FieldNames = {
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
CADDY_FIELDS: FieldNames = {
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
REQUEST_HEADERS = ("User-Agent", "Referer", "Accept", "Sec-Purpose", "Purpose")
VISITOR_SOURCES = ("eyeball", "unknown", "orangeToOrange", "")
"""Values of ClientRequestSource for visitors. Others are Cloudflare's fetches: workers, health checks, image
resizing."""

NO_PATH, NO_TIMESTAMP = Dropped(DropReason.NO_PATH), Dropped(DropReason.BAD_TIMESTAMP, "timestamp")
INTERNAL = Dropped(DropReason.INTERNAL)
MAX_FIELD_CHARS = {
    "address": MAX_ID_CHARS,
    "visitor_id": MAX_ID_CHARS,
    "event_id": MAX_ID_CHARS,
    "host": MAX_ID_CHARS,
    "accept": 4096,
}
DEFAULT_MAX_FIELD_CHARS = 1 << 16


class JsonFormat:
    """A JSON format with its name and the names of its fields."""

    def __init__(self, name: str, field_names: FieldNames) -> None:
        self.name = name
        self._map_fields = lru_cache(maxsize=256)(partial(_map_fields, field_names))

    def parse_lines(self, text: str) -> Iterator[LogLine | Dropped | None]:
        """Yields one item per line: the request, why it is dropped, or None for an empty line."""
        for line in text.split("\n"):
            yield self._parse_line(line) if line and not line.isspace() else None

    def is_complete(self, line: str) -> bool:
        """Returns whether a last line without a newline is certainly complete."""
        return parse_record(line) is not None

    def _parse_line(self, line: str) -> LogLine | Dropped:
        record = parse_record(line)
        return MALFORMED if record is None else self.line_from_record(line, record)

    def line_from_record(self, text: str, record: Mapping[str, Any]) -> LogLine | Dropped:
        mapping = self._map_fields(tuple(record))
        return line_from_fields(text, {field: record[name] for field, name in mapping}) if mapping else NO_PATH


class CaddyFormat(JsonFormat):
    """Caddy's format: the request is a nested record, and its headers are lists."""

    def line_from_record(self, text: str, record: Mapping[str, Any]) -> LogLine | Dropped:
        request = record.get("request")
        if record.get("msg") != "handled request" or not isinstance(request, dict):
            return MALFORMED
        request_headers = _first_header_values(request, "headers", REQUEST_HEADERS)
        response_headers = _first_header_values(record, "resp_headers", ("Content-Type",))
        outcome = {name: record[name] for name in ("ts", "status") if name in record}
        return super().line_from_record(text, {**request, **request_headers, **response_headers, **outcome})


class CloudflareFormat(JsonFormat):
    def line_from_record(self, text: str, record: Mapping[str, Any]) -> LogLine | Dropped:
        return (
            super().line_from_record(text, record)
            if record.get("ClientRequestSource", "") in VISITOR_SOURCES
            else INTERNAL
        )


def line_from_fields(text: str, fields: dict[str, Any]) -> LogLine | Dropped:
    """Returns the request, or why it is dropped: a field has the wrong type or is too long, or the time is missing."""
    time = fields.pop("when", None)
    status = fields.get("status", 200)
    visitor_id = fields.get("visitor_id")
    if type(status) is int and 0 <= status <= 999:
        fields["status"] = status = f"{status:03}"
    if not isinstance(status, str) or len(status) != 3 or not status.isdecimal():
        return Dropped(DropReason.BAD_FIELD, "status")
    if type(visitor_id) is int:
        fields["visitor_id"] = str(visitor_id)
    for field, value in fields.items():
        if not isinstance(value, str) or len(value) > MAX_FIELD_CHARS.get(field, DEFAULT_MAX_FIELD_CHARS):
            return Dropped(DropReason.BAD_FIELD, field)
    if time is None:
        return NO_TIMESTAMP
    get = fields.get
    method, url = (get("method", "GET"), fields["url"]) if "url" in fields else parse_request_line(fields["request"])
    extra = ExtraFields(get("accept", ""), get("purpose", ""), get("type", ""), get("visitor_id"), get("event_id"))
    return LogLine(
        text,
        get("host", ""),
        get("address", ""),
        time,
        method,
        url,
        status,
        get("referrer", ""),
        get("agent", ""),
        get("forwarded", ""),
        extra,
    )


def parse_record(line: str) -> dict[str, Any] | None:
    """Returns the record without null fields, or None if the line is not a JSON object. Null means missing."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    return {name: value for name, value in record.items() if value is not None} if None in record.values() else record


def _map_fields(field_names: FieldNames, keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Returns pairs of field and name for a record with these keys; empty if the record has neither URL nor request."""
    present = set(keys)
    mapping = {
        field: next((name for name in candidates if name in present), "") for field, candidates in field_names.items()
    }
    return (
        tuple((field, name) for field, name in mapping.items() if name)
        if mapping["url"] or mapping.get("request")
        else ()
    )


def _first_header_values(record: Mapping[str, Any], key: str, names: tuple[str, ...]) -> dict[str, Any]:
    headers = record.get(key)
    if not isinstance(headers, dict):
        return {}
    return {name: values[0] for name in names if isinstance(values := headers.get(name), list) and values}
