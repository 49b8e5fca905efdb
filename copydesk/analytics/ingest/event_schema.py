"""The schema of events that a site's server sends, and their validation."""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from copydesk.analytics.page_paths import MAX_URL_CHARS
from copydesk.analytics.page_view import Dropped, DropReason

MAX_ID_CHARS, MAX_TIMESTAMP_CHARS, MAX_HEADER_CHARS = 256, 64, 1 << 16
ERROR_FIELD_PATTERN = re.compile(r"missing required field `(\w+)`$| - at `\$\.(\w+)[^`]*`$")

Url = Annotated[str, Meta(max_length=MAX_URL_CHARS)]
Header = Annotated[str, Meta(max_length=MAX_HEADER_CHARS)]
Id = Annotated[str, Meta(max_length=MAX_ID_CHARS)]


class Event(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """A request for a page, as the site's server received it. `url` or `path` is required."""

    url: Annotated[Url | None, Meta(examples=["https://docs.example.com/guide/install"])] = None
    path: Annotated[Url | None, Meta(description="Use instead of `url`.")] = None
    timestamp: Annotated[
        Annotated[str, Meta(max_length=MAX_TIMESTAMP_CHARS)] | int | float | None,
        Meta(
            description="ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970. Default: now.",
            examples=["2026-01-31T09:30:00Z"],
        ),
    ] = None
    user_agent: Annotated[Header | None, Meta(examples=["ChatGPT-User/1.0"])] = None
    ip: Annotated[
        Id | None, Meta(description="The visitor's IP address. It is hashed, never stored.", examples=["203.0.113.7"])
    ] = None
    referrer: Header | None = None
    method: Annotated[Annotated[str, Meta(max_length=32)] | None, Meta(examples=["GET"])] = None
    status: Annotated[int | None, Meta(examples=[200])] = None
    accept: Annotated[Annotated[str, Meta(max_length=4096)] | None, Meta(examples=["text/markdown, */*"])] = None
    visitor_id: Annotated[Id | int | None, Meta(description="Your ID of the visitor. It is hashed, never stored.")] = (
        None
    )
    event_id: Annotated[
        Id | None, Meta(description="An event whose ID the project has seen before is a duplicate and is not counted.")
    ] = None
    type: Annotated[Literal["view"] | None, Meta(description="Other types are searches, questions and feedback.")] = (
        None
    )


EVENT_FIELDS = frozenset(Event.__struct_encode_fields__)
decode_event = msgspec.json.Decoder(Event).decode
"""Parses and validates JSON in one pass. Raises DecodeError or UnicodeDecodeError for an invalid event."""
decode_events = msgspec.json.Decoder(list[Event]).decode
"""Parses and validates a JSON array of events, like `decode_event`."""


def validate_event(event: object) -> Event | Dropped:
    """Returns the event, or why it is dropped. Ignores unknown fields."""
    if not isinstance(event, dict):
        return Dropped(DropReason.NOT_AN_EVENT)
    try:
        return msgspec.convert(event, Event)
    except msgspec.ValidationError as error:
        return drop_from_error(str(error))


def drop_from_error(message: str) -> Dropped:
    """Converts msgspec's message, which ends with the invalid or missing field."""
    match = ERROR_FIELD_PATTERN.search(message)
    name = (match[1] or match[2]) if match else ""
    if name == "timestamp":
        return Dropped(DropReason.BAD_TIMESTAMP, name)
    too_long = "of length <=" in message and name in ("url", "path")
    return Dropped(DropReason.PATH_TOO_LONG if too_long else DropReason.BAD_FIELD, name)
