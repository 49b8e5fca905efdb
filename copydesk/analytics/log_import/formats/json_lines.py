"""Logs with one JSON record per line. A format is a table from the fields of a request to their names in a record."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import msgspec

from copydesk.analytics.ingest.event_schema import MAX_ID_CHARS, Event
from copydesk.analytics.log_import.log_line import MALFORMED, ExtraFields, LogLine, parse_request_line
from copydesk.analytics.page_view import Dropped, DropReason

FieldNames = Mapping[str, tuple[str, ...]]
Record = Mapping[str, Any]
JSON_LINES_FIELDS: FieldNames = {
    "when": (
        *("timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "time", "date", "ts", "datetime"),
        *("start_time", "time_start", "requestTime", "StartUTC"),
    ),
    "url": (
        *("url", "path", "request_uri", "uri", "request_url", "requestUrl", "request_path", "requestPath"),
        *("originalUrl", "RequestPath", "url.original", "url.full", "url.path", "req.url"),
        *("request.url", "request.uri", "http.url"),
    ),
    "request": ("request", "requestLine", "request_line"),
    "method": (
        *("method", "request_method", "http_method", "httpMethod", "requestMethod", "RequestMethod", "verb"),
        *("req.method", "request.method", "http.request.method", "http.method"),
    ),
    "status": (
        *("status", "status_code", "statusCode", "response_status", "responseStatus", "response_code", "http_status"),
        *("httpStatus", "http_status_code", "sc_status", "res.statusCode", "response.status", "response.status_code"),
        *("http.response.status_code", "http.status_code", "DownstreamStatus"),
    ),
    "address": (
        *("ip", "remote_addr", "client_ip", "clientip", "remote_ip", "clientIp", "clientIP", "client_addr"),
        *("remoteAddr", "remoteAddress", "remote_address", "source_ip", "client.ip", "client.address", "source.ip"),
        *("source.address", "req.remoteAddress", "request.remote_ip", "http.client_ip", "network.client.ip"),
        "ClientHost",
    ),
    "host": (
        *("host", "http_host", "server_name", "vhost", "hostname", "url.domain", "req.headers.host"),
        *("request.headers.host", "http.host", "RequestHost"),
    ),
    "referrer": (
        *("referrer", "http_referer", "referer", "http_referrer", "request_referer", "http.request.referrer"),
        *("req.headers.referer", "request.headers.referer", "http.referer", "request_Referer"),
    ),
    "agent": (
        *("userAgent", "http_user_agent", "user_agent", "agent", "useragent", "request_user_agent"),
        *("user_agent.original", "req.headers.user-agent", "request.headers.user-agent", "http.useragent"),
        *("http.user_agent", "headers.user-agent", "request_User-Agent"),
    ),
    "forwarded": (
        *("http_x_forwarded_for", "x_forwarded_for", "xForwardedFor", "forwarded_for", "req.headers.x-forwarded-for"),
        *("request.headers.x-forwarded-for",),
    ),
    "accept": ("accept", "http_accept", "req.headers.accept", "request.headers.accept"),
    "purpose": ("http_sec_purpose", "sec_purpose", "http_purpose", "req.headers.sec-purpose"),
    "type": ("sent_http_content_type", "response_content_type", "content_type", "res.headers.content-type"),
    "visitor_id": ("visitorId",),
    "event_id": ("eventId",),
}
"""The fields of our events, and the most common names in other logs. A dot separates the names of nested records."""
EVENT_KEYS = frozenset(field.encode_name for field in msgspec.structs.fields(Event))

NO_PATH, NO_TIMESTAMP = Dropped(DropReason.NO_PATH), Dropped(DropReason.BAD_TIMESTAMP, "timestamp")
NO_STATUS, NO_METHOD = Dropped(DropReason.BAD_FIELD, "status"), Dropped(DropReason.BAD_FIELD, "method")
MAX_FIELD_CHARS = {
    "address": MAX_ID_CHARS,
    "visitor_id": MAX_ID_CHARS,
    "event_id": MAX_ID_CHARS,
    "host": MAX_ID_CHARS,
    "accept": 4096,
}
DEFAULT_MAX_FIELD_CHARS = 1 << 16
MAX_NESTING = 4
NESTED_TYPES = frozenset({dict, list})


class JsonFormat:
    """A JSON format with its name, the names of its fields, and a test that a record must pass."""

    def __init__(
        self, name: str, field_names: FieldNames, is_own: Callable[[Record], bool] = lambda _: True, nested: bool = True
    ) -> None:
        self.name = name
        self._is_own = is_own
        self._nested = nested
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
        return MALFORMED if record is None or not self._is_own(record) else self.line_from_record(line, record)

    def line_from_record(self, text: str, record: Record) -> LogLine | Dropped:
        flat_record = flatten_record(record) if self._nested else record
        mapping = self._map_fields(tuple(flat_record))
        if not mapping:
            return NO_PATH
        return self._line_from_fields(text, {field: flat_record[name] for field, name in mapping}, flat_record)

    def _line_from_fields(self, text: str, fields: dict[str, Any], record: Record) -> LogLine | Dropped:
        return line_from_fields(text, fields)


class JsonLinesFormat(JsonFormat):
    """Our own events, or records of any program.

    In an event, status and method are optional. In any other record, their absence means that they have names that we
    do not know: the request may have failed, so it is not counted.
    """

    def _line_from_fields(self, text: str, fields: dict[str, Any], record: Record) -> LogLine | Dropped:
        if not EVENT_KEYS.issuperset(record):
            if "status" not in fields:
                return NO_STATUS
            if "method" not in fields and "request" not in fields:
                return NO_METHOD
        return line_from_fields(text, {"status": 200, **fields})


def line_from_fields(text: str, fields: dict[str, Any]) -> LogLine | Dropped:
    """Returns the request, or why it is dropped: a field has the wrong type or is too long, or status or time is
    missing."""
    time = fields.pop("when", None)
    status = fields.get("status")
    visitor_id = fields.get("visitor_id")
    if type(status) is int and 0 <= status <= 999:
        fields["status"] = status = f"{status:03}"
    if not isinstance(status, str) or len(status) != 3 or not (status.isascii() and status.isdecimal()):
        return NO_STATUS
    if type(visitor_id) is int:
        fields["visitor_id"] = str(visitor_id)
    for field, value in fields.items():
        if not isinstance(value, str) or len(value) > MAX_FIELD_CHARS.get(field, DEFAULT_MAX_FIELD_CHARS):
            return Dropped(DropReason.BAD_FIELD, field)
    if time is None:
        return NO_TIMESTAMP
    get = fields.get
    method, url = _find_method_and_url(fields)
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
    if not line.lstrip().startswith("{"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    return {name: value for name, value in record.items() if value is not None} if None in record.values() else record


def flatten_record(record: Record) -> Record:
    """Returns the record with nested records as dotted names, header names in lower case, and the first value of
    lists."""
    if NESTED_TYPES.isdisjoint(map(type, record.values())):
        return record
    return dict(_flatten(record, "", 0))


def _flatten(record: Record, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, dict):
            if depth < MAX_NESTING:
                below = f"{prefix}{name.lower() if name.lower().endswith('headers') else name}."
                yield from _flatten(value, below, depth + 1)
        elif value is not None:
            yield prefix + (name.lower() if prefix.endswith("headers.") else name), value


def _find_method_and_url(fields: Mapping[str, str]) -> tuple[str, str]:
    """Returns the method and the URL. Some programs log the method alone under the name `request`."""
    request = fields.get("request", "")
    if "url" not in fields:
        return parse_request_line(request)
    return fields.get("method") or (request.partition(" ")[0] if request else "GET"), fields["url"]


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
