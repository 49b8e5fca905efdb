"""Bodies of events and beacons: unpacked within bounds, and read as JSON or line by line."""

import zlib
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import DecodeError
from pydantic import Field, ValidationError
from pydantic_core import from_json
from starlette.datastructures import Headers

from copydesk.analytics.feedback import LONGEST_COMMENT
from copydesk.analytics.ingest.collector import Numbered
from copydesk.analytics.ingest.event_schema import LONGEST_ID, Event, checked, one, several
from copydesk.analytics.page_view import Dropped, Reason
from copydesk.core.errors import InvalidRequest, TooLarge, WrongMediaType
from copydesk.web.api.schemas import Body
from copydesk.web.responses.validation_errors import explained

LARGEST_UNPACKED = 10 * 1024 * 1024
MOST_EVENTS = 1_000
MOST_LINES = 10_000
MOST_MEMBERS = 1_000
MAX_MARKS = 200 * MOST_EVENTS
"""Commas, quotes and opening brackets in what is built at one go. An event with all its fields has about sixty, so this
bounds the objects that are built before they are counted, and refuses no array that MOST_EVENTS allows."""
PIECE = 64 * 1024
GZIP = 16 + zlib.MAX_WBITS
LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NOT_EVENTS = (DecodeError, UnicodeDecodeError, RecursionError)


class NotGzip(InvalidRequest):
    message = "The body is not valid gzip, or part of it is missing."


def media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def events_in(headers: Headers, body: bytes) -> list[Numbered]:
    """The events, numbered as they were sent; of lines, one that is not JSON is an event that is dropped."""
    kind = media_type(headers)
    if kind in LINES:
        return _lines(_unpacked(headers, body))
    if kind == "application/json":
        return _events(_unpacked(headers, body))
    raise WrongMediaType("Send events as application/json or, one on each line, as application/x-ndjson.")


def json_of(body: bytes) -> object:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:
        raise InvalidRequest("The body is not valid JSON.") from None


def has_too_many_values(body: bytes) -> bool:
    """Returns whether building this JSON could take far more memory than a thousand events, without building any."""
    if len(body) <= MAX_MARKS:
        return False
    marks = 0
    for mark in (b",", b'"', b"{", b"["):
        marks += body.count(mark)
        if marks > MAX_MARKS:
            return True
    return False


def _events(body: bytes) -> list[Numbered]:
    body = body.removeprefix(BYTE_ORDER_MARK).strip()
    if has_too_many_values(body):
        raise TooLarge(f"An array may hold {MOST_EVENTS:,} events; this one holds far more values than so many have.")
    try:  # the way of nearly all: read and checked in one pass
        found: Sequence[Event | Dropped] = several(body) if body.startswith(b"[") else [one(body)]
    except NOT_EVENTS:
        found = _each(json_of(body))
    if len(found) > MOST_EVENTS:
        raise TooLarge(f"An array may hold {MOST_EVENTS:,} events; this one has {len(found):,}.")
    return list(enumerate(found))


def _each(sent: object) -> Sequence[Event | Dropped]:
    if isinstance(sent, dict):
        return [checked(sent)]
    if not isinstance(sent, list):
        raise InvalidRequest("The body must be an event, which is a JSON object, or an array of events.")
    return [checked(event) for event in sent[: MOST_EVENTS + 1]]


def _lines(body: bytes) -> list[Numbered]:
    """Numbered as in the file, so that a person finds them; blank lines are none."""
    if body.count(b"\n") > MOST_LINES:
        raise TooLarge(f"A body may hold {MOST_LINES:,} lines; send the rest in another request.")
    lines = body.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    return [(number, _line(line)) for number, line in enumerate(lines) if line and not line.isspace()]


def _line(line: bytes) -> Event | Dropped:
    try:
        return one(line)
    except NOT_EVENTS:
        pass
    if has_too_many_values(line):
        return Dropped(Reason.NOT_AN_EVENT)
    try:
        return checked(from_json(line, allow_inf_nan=False))
    except ValueError:
        return Dropped(Reason.NOT_JSON)


def _unpacked(headers: Headers, body: bytes) -> bytes:
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding in ("gzip", "x-gzip"):
        body = gunzipped(body)
    elif coding not in ("identity", ""):
        raise WrongMediaType("The body may be packed with gzip alone.", headers={"Accept-Encoding": "gzip"})
    if len(body) > LARGEST_UNPACKED:
        raise TooLarge(f"The body is larger than {LARGEST_UNPACKED // 1024 // 1024} MiB when unpacked.")
    return body


def gunzipped(body: bytes) -> bytes:
    """At most one byte more than is allowed, whatever the body says of itself. It may consist of several members."""
    unpacked, at = bytearray(), 0
    for _ in range(MOST_MEMBERS):
        at = _member(body, at, unpacked)
        if at == len(body) or len(unpacked) > LARGEST_UNPACKED:
            return bytes(unpacked)
        if body[at] == 0 and body.count(0, at) == len(body) - at:  # padding, as of tape
            return bytes(unpacked)
    raise TooLarge(f"The body is packed as more than {MOST_MEMBERS:,} gzip members.")


def _member(body: bytes, at: int, unpacked: bytearray) -> int:
    """Unpacks what begins here, up to its end, which is returned, or until there is too much."""
    packing = zlib.decompressobj(wbits=GZIP)
    while not packing.eof and len(unpacked) <= LARGEST_UNPACKED:
        piece = body[at : at + PIECE]
        if not piece:
            raise NotGzip
        try:
            unpacked += packing.decompress(piece, LARGEST_UNPACKED + 1 - len(unpacked))
        except zlib.error:
            raise NotGzip from None
        at += len(piece) - len(packing.unused_data)
    return at


class ViewBeacon(Body):
    u: str = Field(min_length=1, examples=["https://docs.example.com/guide/install"])
    """The page's address."""
    r: str | None = Field(None, examples=["https://www.example.org/"])
    """The address it was reached from."""
    v: Annotated[str, Field(max_length=LONGEST_ID)] | int | None = None
    """The site's own id of the visitor."""
    e: Annotated[str, Field(max_length=LONGEST_ID)] | None = None
    """The event's id: seen before, it is not counted again."""


class FeedbackBeacon(Body):
    k: Literal["feedback"]
    u: str = Field(min_length=1)
    """The page's address."""
    h: bool
    """Whether the page was helpful."""
    c: Annotated[str, Field(max_length=LONGEST_COMMENT)] | None = None
    """What the reader says of it."""
    v: Annotated[str, Field(max_length=LONGEST_ID)] | int | None = None
    e: Annotated[str, Field(max_length=LONGEST_ID)] | None = None


def beacon_in(headers: Headers, body: bytes) -> ViewBeacon | FeedbackBeacon:
    """As text too, which a browser sends to another site without asking first."""
    if media_type(headers) not in ("text/plain", "application/json"):
        raise WrongMediaType("Send the beacon's JSON as text/plain or application/json.")
    sent = json_of(body)
    kind = FeedbackBeacon if isinstance(sent, dict) and "k" in sent else ViewBeacon
    try:
        return kind.model_validate(sent)
    except ValidationError as error:
        raise explained([{**fault, "loc": ("body", *fault["loc"][:1])} for fault in error.errors()]) from None
