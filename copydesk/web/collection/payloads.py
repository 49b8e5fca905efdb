"""Parses the bodies of events and beacons: decompresses them within limits, and decodes JSON or lines of JSON."""

import zlib
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import DecodeError
from pydantic import Field, ValidationError
from pydantic_core import from_json
from starlette.datastructures import Headers

from copydesk.analytics.ingest.event_schema import MAX_ID_CHARS, Event, decode_event, decode_events
from copydesk.analytics.ingest.interaction_events import InteractionEvent, validate_any_event
from copydesk.analytics.interactions.feedback import (
    MAX_CODE_CHARS,
    MAX_COMMENT_CHARS,
    MAX_CONTACT_CHARS,
    MAX_FILENAME_CHARS,
    MAX_LANG_CHARS,
)
from copydesk.analytics.interactions.searches import MAX_QUERY_CHARS
from copydesk.analytics.page_view import Dropped, DropReason
from copydesk.core.errors import InvalidRequest, RequestTooLarge, WrongMediaType
from copydesk.web.api.schemas import LenientRequestModel
from copydesk.web.responses.validation_errors import to_invalid_request

MAX_UNPACKED_BYTES = 10 * 1024 * 1024
MAX_EVENTS = 1_000
MAX_LINES = 10_000
MAX_GZIP_MEMBERS = 1_000
MAX_JSON_MARKS = 200 * MAX_EVENTS
"""The limit of commas, quotes and opening brackets in JSON that is parsed at once. It bounds how many objects are built
before they are counted. An event with all fields has about sixty, so every array of MAX_EVENTS events is allowed."""
CHUNK_BYTES = 64 * 1024
GZIP_WBITS = 16 + zlib.MAX_WBITS
NDJSON_MEDIA_TYPES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DECODE_ERRORS = (DecodeError, UnicodeDecodeError, RecursionError)

AnyEvent = Event | InteractionEvent | Dropped
NumberedEvent = tuple[int, AnyEvent]


class InvalidGzip(InvalidRequest):
    message = "The body is not valid gzip, or part of it is missing."


def parse_media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_events(headers: Headers, body: bytes) -> list[NumberedEvent]:
    """Returns the events with their positions in the body. A line that is not JSON becomes a dropped event."""
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
    """Returns whether parsing this JSON could take far more memory than MAX_EVENTS events. Only counts characters."""
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
            f"An array can contain up to {MAX_EVENTS:,} events. This one contains far more values than that."
        )
    try:  # the fast path for valid events: decodes and validates in one pass
        events: Sequence[AnyEvent] = decode_events(body) if body.startswith(b"[") else [decode_event(body)]
    except DECODE_ERRORS:
        events = _validate_events(parse_json(body))
    if len(events) > MAX_EVENTS:
        raise RequestTooLarge(f"An array can contain up to {MAX_EVENTS:,} events. This one contains {len(events):,}.")
    return list(enumerate(events))


def _validate_events(value: object) -> Sequence[AnyEvent]:
    if isinstance(value, dict):
        return [validate_any_event(value)]
    if not isinstance(value, list):
        raise InvalidRequest("The body must be an event (a JSON object) or an array of events.")
    return [validate_any_event(event) for event in value[: MAX_EVENTS + 1]]


def _parse_lines(body: bytes) -> list[NumberedEvent]:
    """Parses each line and skips blank lines. Numbers count all lines, so that they match the file that was sent."""
    if body.count(b"\n") > MAX_LINES:
        raise RequestTooLarge(f"A body can contain up to {MAX_LINES:,} lines. Send the rest in another request.")
    lines = body.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    return [(number, _parse_line(line)) for number, line in enumerate(lines) if line and not line.isspace()]


def _parse_line(line: bytes) -> AnyEvent:
    try:
        return decode_event(line)
    except DECODE_ERRORS:
        pass
    if has_too_many_values(line):
        return Dropped(DropReason.NOT_AN_EVENT)
    try:
        return validate_any_event(from_json(line, allow_inf_nan=False))
    except ValueError:
        return Dropped(DropReason.NOT_JSON)


def _decompress(headers: Headers, body: bytes) -> bytes:
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        body = gunzip(body)
    elif encoding not in ("identity", ""):
        raise WrongMediaType("The body can only be compressed with gzip.", headers={"Accept-Encoding": "gzip"})
    if len(body) > MAX_UNPACKED_BYTES:
        raise RequestTooLarge(f"The body is larger than {MAX_UNPACKED_BYTES // 1024 // 1024} MiB when decompressed.")
    return body


def gunzip(body: bytes) -> bytes:
    """Decompresses a body of one or more gzip members. Returns at most MAX_UNPACKED_BYTES + 1 bytes, so that the caller
    detects a body that is too large without decompressing all of it."""
    unpacked = bytearray()
    offset = 0
    for _ in range(MAX_GZIP_MEMBERS):
        offset = _gunzip_member(body, offset, unpacked)
        if offset == len(body) or len(unpacked) > MAX_UNPACKED_BYTES:
            return bytes(unpacked)
        if body[offset] == 0 and body.count(0, offset) == len(body) - offset:  # zero padding, which gzip allows
            return bytes(unpacked)
    raise RequestTooLarge(f"The body has more than {MAX_GZIP_MEMBERS:,} gzip members.")


def _gunzip_member(body: bytes, offset: int, unpacked: bytearray) -> int:
    """Decompresses the gzip member at `offset`, until its end or the size limit. Returns the new offset."""
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


class ViewBeacon(LenientRequestModel):
    u: str = Field(min_length=1, examples=["https://docs.example.com/guide/install"])
    """The URL of the page."""
    r: str | None = Field(None, examples=["https://www.example.org/"])
    """The referrer: the URL that the visitor came from."""
    v: Annotated[str, Field(max_length=MAX_ID_CHARS)] | int | None = None
    """The site's own ID for the visitor."""
    e: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None
    """The ID of the event. An event with a known ID is not counted again."""


class MissingBeacon(ViewBeacon):
    k: Literal["missing"]
    """The page says that there is no such page."""


class FeedbackBeacon(LenientRequestModel):
    k: Literal["feedback"]
    u: str = Field(min_length=1)
    """The URL of the page."""
    h: bool | None = None
    """Whether the page was helpful."""
    c: Annotated[str, Field(max_length=MAX_COMMENT_CHARS)] | None = None
    """The reader's comment."""
    contact: Annotated[str, Field(max_length=MAX_CONTACT_CHARS)] | None = None
    """How to reach the reader."""
    code: Annotated[str, Field(max_length=MAX_CODE_CHARS)] | None = None
    """The code snippet that the feedback is about."""
    filename: Annotated[str, Field(max_length=MAX_FILENAME_CHARS)] | None = None
    lang: Annotated[str, Field(max_length=MAX_LANG_CHARS)] | None = None
    agent: bool | None = None
    """Whether an AI agent sends the feedback."""
    v: Annotated[str, Field(max_length=MAX_ID_CHARS)] | int | None = None
    e: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None


class SearchBeacon(LenientRequestModel):
    k: Literal["search"]
    u: str = Field(min_length=1)
    """The URL of the page."""
    q: str = Field(min_length=1, max_length=MAX_QUERY_CHARS)
    """What the reader searched for."""
    n: Annotated[int, Field(ge=0, le=1 << 30)] | None = None
    """How many results were found."""
    t: str | None = None
    """The URL of the result that the reader opened."""
    v: Annotated[str, Field(max_length=MAX_ID_CHARS)] | int | None = None
    e: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None


Beacon = ViewBeacon | MissingBeacon | FeedbackBeacon | SearchBeacon
MODEL_BY_KIND: dict[object, type[Beacon]] = {"search": SearchBeacon, "missing": MissingBeacon}
"""All other kinds are feedback, whose model names the right kinds in its error."""


def parse_beacon(headers: Headers, body: bytes) -> Beacon:
    """Parses a view, a missing page, feedback or a search.

    Also accepts text/plain, which browsers send to other sites without a preflight.
    """
    if parse_media_type(headers) not in ("text/plain", "application/json"):
        raise WrongMediaType("Send the beacon's JSON as text/plain or application/json.")
    payload = parse_json(body)
    model = _choose_model(payload)
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        raise to_invalid_request([{**fault, "loc": ("body", *fault["loc"][:1])} for fault in error.errors()]) from None


def _choose_model(payload: object) -> type[Beacon]:
    if not isinstance(payload, dict) or "k" not in payload:
        return ViewBeacon
    kind = payload["k"]
    return MODEL_BY_KIND.get(kind, FeedbackBeacon) if isinstance(kind, str) else FeedbackBeacon
