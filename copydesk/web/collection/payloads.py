"""Bodies of events and beacons: unpacked within bounds, and read as JSON or line by line."""

import zlib
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import DecodeError
from pydantic import Field, ValidationError
from pydantic_core import from_json
from starlette.datastructures import Headers

from copydesk.analytics.feedback import MAX_COMMENT_CHARS
from copydesk.analytics.ingest.collector import NumberedEvent
from copydesk.analytics.ingest.event_schema import MAX_ID_CHARS, Event, decode_event, decode_events, validate_event
from copydesk.analytics.page_view import Dropped, DropReason
from copydesk.core.errors import InvalidRequest, RequestTooLarge, WrongMediaType
from copydesk.web.api.schemas import RequestModel
from copydesk.web.responses.validation_errors import to_invalid_request

MAX_UNPACKED_BYTES = 10 * 1024 * 1024
MAX_EVENTS = 1_000
MAX_LINES = 10_000
MAX_GZIP_MEMBERS = 1_000
MAX_JSON_MARKS = 200 * MAX_EVENTS
"""Commas, quotes and opening brackets in what is built at one go. An event with all its fields has about sixty, so this
bounds the objects that are built before they are counted, and refuses no array that MOST_EVENTS allows."""
CHUNK_BYTES = 64 * 1024
GZIP_WBITS = 16 + zlib.MAX_WBITS
NDJSON_MEDIA_TYPES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DECODE_ERRORS = (DecodeError, UnicodeDecodeError, RecursionError)


class InvalidGzip(InvalidRequest):
    message = "The body is not valid gzip, or part of it is missing."


def parse_media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_events(headers: Headers, body: bytes) -> list[NumberedEvent]:
    """The events, numbered as they were sent; of lines, one that is not JSON is an event that is dropped."""
    content_type = parse_media_type(headers)
    if content_type in NDJSON_MEDIA_TYPES:
        return _parse_lines(_decompress(headers, body))
    if content_type == "application/json":
        return _parse_json_events(_decompress(headers, body))
    raise WrongMediaType("Send events as application/json or, one on each line, as application/x-ndjson.")


def parse_json(body: bytes) -> object:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:
        raise InvalidRequest("The body is not valid JSON.") from None


def has_too_many_values(body: bytes) -> bool:
    """Returns whether building this JSON could take far more memory than a thousand events, without building any."""
    if len(body) <= MAX_JSON_MARKS:
        return False
    marks = 0
    for mark in (b",", b'"', b"{", b"["):
        marks += body.count(mark)
        if marks > MAX_JSON_MARKS:
            return True
    return False


def _parse_json_events(body: bytes) -> list[NumberedEvent]:
    body = body.removeprefix(BYTE_ORDER_MARK).strip()
    if has_too_many_values(body):
        raise RequestTooLarge(
            f"An array may hold {MAX_EVENTS:,} events; this one holds far more values than so many have."
        )
    try:  # the way of nearly all: read and checked in one pass
        events: Sequence[Event | Dropped] = decode_events(body) if body.startswith(b"[") else [decode_event(body)]
    except DECODE_ERRORS:
        events = _validate_events(parse_json(body))
    if len(events) > MAX_EVENTS:
        raise RequestTooLarge(f"An array may hold {MAX_EVENTS:,} events; this one has {len(events):,}.")
    return list(enumerate(events))


def _validate_events(value: object) -> Sequence[Event | Dropped]:
    if isinstance(value, dict):
        return [validate_event(value)]
    if not isinstance(value, list):
        raise InvalidRequest("The body must be an event, which is a JSON object, or an array of events.")
    return [validate_event(event) for event in value[: MAX_EVENTS + 1]]


def _parse_lines(body: bytes) -> list[NumberedEvent]:
    """Numbered as in the file, so that a person finds them; blank lines are none."""
    if body.count(b"\n") > MAX_LINES:
        raise RequestTooLarge(f"A body may hold {MAX_LINES:,} lines; send the rest in another request.")
    lines = body.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    return [(number, _parse_line(line)) for number, line in enumerate(lines) if line and not line.isspace()]


def _parse_line(line: bytes) -> Event | Dropped:
    try:
        return decode_event(line)
    except DECODE_ERRORS:
        pass
    if has_too_many_values(line):
        return Dropped(DropReason.NOT_AN_EVENT)
    try:
        return validate_event(from_json(line, allow_inf_nan=False))
    except ValueError:
        return Dropped(DropReason.NOT_JSON)


def _decompress(headers: Headers, body: bytes) -> bytes:
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        body = gunzip(body)
    elif encoding not in ("identity", ""):
        raise WrongMediaType("The body may be packed with gzip alone.", headers={"Accept-Encoding": "gzip"})
    if len(body) > MAX_UNPACKED_BYTES:
        raise RequestTooLarge(f"The body is larger than {MAX_UNPACKED_BYTES // 1024 // 1024} MiB when unpacked.")
    return body


def gunzip(body: bytes) -> bytes:
    """At most one byte more than is allowed, whatever the body says of itself. It may consist of several members."""
    unpacked, offset = bytearray(), 0
    for _ in range(MAX_GZIP_MEMBERS):
        offset = _gunzip_member(body, offset, unpacked)
        if offset == len(body) or len(unpacked) > MAX_UNPACKED_BYTES:
            return bytes(unpacked)
        if body[offset] == 0 and body.count(0, offset) == len(body) - offset:  # padding, as of tape
            return bytes(unpacked)
    raise RequestTooLarge(f"The body is packed as more than {MAX_GZIP_MEMBERS:,} gzip members.")


def _gunzip_member(body: bytes, offset: int, unpacked: bytearray) -> int:
    """Unpacks what begins here, up to its end, which is returned, or until there is too much."""
    decompressor = zlib.decompressobj(wbits=GZIP_WBITS)
    while not decompressor.eof and len(unpacked) <= MAX_UNPACKED_BYTES:
        chunk = body[offset : offset + CHUNK_BYTES]
        if not chunk:
            raise InvalidGzip
        try:
            unpacked += decompressor.decompress(chunk, MAX_UNPACKED_BYTES + 1 - len(unpacked))
        except zlib.error:
            raise InvalidGzip from None
        offset += len(chunk) - len(decompressor.unused_data)
    return offset


class ViewBeacon(RequestModel):
    u: str = Field(min_length=1, examples=["https://docs.example.com/guide/install"])
    """The page's address."""
    r: str | None = Field(None, examples=["https://www.example.org/"])
    """The address it was reached from."""
    v: Annotated[str, Field(max_length=MAX_ID_CHARS)] | int | None = None
    """The site's own id of the visitor."""
    e: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None
    """The event's id: seen before, it is not counted again."""


class FeedbackBeacon(RequestModel):
    k: Literal["feedback"]
    u: str = Field(min_length=1)
    """The page's address."""
    h: bool
    """Whether the page was helpful."""
    c: Annotated[str, Field(max_length=MAX_COMMENT_CHARS)] | None = None
    """What the reader says of it."""
    v: Annotated[str, Field(max_length=MAX_ID_CHARS)] | int | None = None
    e: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None


def parse_beacon(headers: Headers, body: bytes) -> ViewBeacon | FeedbackBeacon:
    """As text too, which a browser sends to another site without asking first."""
    if parse_media_type(headers) not in ("text/plain", "application/json"):
        raise WrongMediaType("Send the beacon's JSON as text/plain or application/json.")
    payload = parse_json(body)
    model = FeedbackBeacon if isinstance(payload, dict) and "k" in payload else ViewBeacon
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        raise to_invalid_request([{**fault, "loc": ("body", *fault["loc"][:1])} for fault in error.errors()]) from None
