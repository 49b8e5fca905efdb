"""An event as a site's server sends it, and what is wrong with one that is none."""

from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from copydesk.analytics.paths import LONGEST_URL
from copydesk.analytics.view import Dropped, Reason

LONGEST_ID, LONGEST_TIMESTAMP, LONGEST_HEADER = 256, 64, 1 << 16
LONGEST_NAME = 64

Url = Annotated[str, Field(max_length=LONGEST_URL)]
Header = Annotated[str, Field(max_length=LONGEST_HEADER)]
Id = Annotated[str, Field(max_length=LONGEST_ID)]


@with_config(ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True))
class Event(TypedDict, total=False):
    """A request for a page, as the site's server saw it. It needs `url` or `path`."""

    url: Annotated[Url | None, Field(examples=["https://docs.example.com/guide/install"])]
    path: Url | None
    """Instead of `url`."""
    timestamp: Annotated[
        Annotated[str, Field(max_length=LONGEST_TIMESTAMP)] | int | float | None,
        Field(examples=["2026-01-31T09:30:00Z"]),
    ]
    """ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970; now when left out."""
    userAgent: Annotated[Header | None, Field(examples=["ChatGPT-User/1.0"])]
    ip: Annotated[Id | None, Field(examples=["203.0.113.7"])]
    """The visitor's address. It is hashed, never stored."""
    referrer: Header | None
    method: Annotated[Annotated[str, Field(max_length=32)] | None, Field(examples=["GET"])]
    status: Annotated[int | None, Field(examples=[200])]
    accept: Annotated[Annotated[str, Field(max_length=4096)] | None, Field(examples=["text/markdown, */*"])]
    visitorId: Id | int | None
    """The site's own id of the visitor. It is hashed, never stored."""
    eventId: Id | None
    """Seen before in this project, the event is a duplicate, and not counted again."""


EVENT, EVENTS = TypeAdapter(Event), TypeAdapter(list[Event])


def checked(event: object) -> Event | Dropped:
    try:
        return EVENT.validate_python(event)
    except ValidationError as error:
        return fault(error)


def fault(error: ValidationError) -> Dropped:
    """Why what was sent is no event. What an unknown field means is not known either: it is not counted on a guess."""
    faults = {found["type"]: found for found in reversed(error.errors(include_url=False, include_input=False))}
    found = faults.get("extra_forbidden") or next(reversed(faults.values()))
    if not found["loc"]:
        return Dropped(Reason.NOT_AN_EVENT)
    name = str(found["loc"][0])[:LONGEST_NAME]
    if found["type"] == "extra_forbidden":
        return Dropped(Reason.UNKNOWN_FIELD, name)
    if name == "timestamp":
        return Dropped(Reason.BAD_TIMESTAMP, name)
    too_long = found["type"] == "string_too_long" and name in ("url", "path")
    return Dropped(Reason.PATH_TOO_LONG if too_long else Reason.BAD_FIELD, name)
