"""An event as a site's server sends it, and what is wrong with one that is none."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from copydesk.analytics.page_paths import LONGEST_URL
from copydesk.analytics.page_view import Dropped, Reason

LONGEST_ID, LONGEST_TIMESTAMP, LONGEST_HEADER = 256, 64, 1 << 16
LONGEST_NAME = 64
AT = re.compile(r" - at `\$\.(\w+)`$")

Url = Annotated[str, Meta(max_length=LONGEST_URL)]
Header = Annotated[str, Meta(max_length=LONGEST_HEADER)]
Id = Annotated[str, Meta(max_length=LONGEST_ID)]


class Event(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, gc=False):
    """A request for a page, as the site's server saw it. It needs `url` or `path`."""

    url: Annotated[Url | None, Meta(examples=["https://docs.example.com/guide/install"])] = None
    path: Annotated[Url | None, Meta(description="Instead of `url`.")] = None
    timestamp: Annotated[
        Annotated[str, Meta(max_length=LONGEST_TIMESTAMP)] | int | float | None,
        Meta(
            description="ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970; now when left out.",
            examples=["2026-01-31T09:30:00Z"],
        ),
    ] = None
    user_agent: Annotated[Header | None, Meta(examples=["ChatGPT-User/1.0"])] = None
    ip: Annotated[
        Id | None, Meta(description="The visitor's address. It is hashed, never stored.", examples=["203.0.113.7"])
    ] = None
    referrer: Header | None = None
    method: Annotated[Annotated[str, Meta(max_length=32)] | None, Meta(examples=["GET"])] = None
    status: Annotated[int | None, Meta(examples=[200])] = None
    accept: Annotated[Annotated[str, Meta(max_length=4096)] | None, Meta(examples=["text/markdown, */*"])] = None
    visitor_id: Annotated[
        Id | int | None, Meta(description="The site's own id of the visitor. It is hashed, never stored.")
    ] = None
    event_id: Annotated[
        Id | None, Meta(description="Seen before in this project, the event is a duplicate, and not counted again.")
    ] = None


NAMES = frozenset(Event.__struct_encode_fields__)
one, several = msgspec.json.Decoder(Event).decode, msgspec.json.Decoder(list[Event]).decode
"""Read and check JSON in one pass. A DecodeError or a UnicodeDecodeError says that it is none, or not such events."""


def checked(event: object) -> Event | Dropped:
    """What an unknown field means is not known either: it is not counted on a guess."""
    if not isinstance(event, dict):
        return Dropped(Reason.NOT_AN_EVENT)
    if unknown := next((str(name) for name in event if name not in NAMES), None):
        return Dropped(Reason.UNKNOWN_FIELD, unknown[:LONGEST_NAME])
    try:
        return msgspec.convert(event, Event)
    except msgspec.ValidationError as error:
        return _fault(str(error))


def _fault(message: str) -> Dropped:
    at = AT.search(message)
    name = at[1] if at else ""
    if name == "timestamp":
        return Dropped(Reason.BAD_TIMESTAMP, name)
    too_long = "of length <=" in message and name in ("url", "path")
    return Dropped(Reason.PATH_TOO_LONG if too_long else Reason.BAD_FIELD, name)
