"""A request as a line of a log tells it, and the ways in which logs write times and text."""

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Literal, NamedTuple

from copydesk.analytics.ingest.raw_view import EPOCH, MILLISECOND, milliseconds
from copydesk.analytics.page_view import Dropped, Reason
from copydesk.core.clock import SECOND

MALFORMED = Dropped(Reason.MALFORMED_LINE)
MONTHS = {name: number for number, name in enumerate(re.findall("...", "JanFebMarAprMayJunJulAugSepOctNovDec"), 1)}
COMMON = re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:[0-6]\d [+-]\d{4}", re.ASCII)
ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.)", re.DOTALL)
LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"a": b"\a"}


class More(NamedTuple):
    """What few logs tell."""

    accept: str = ""
    purpose: str = ""
    type: str = ""
    """The media type of the answer."""
    visitor_id: str | None = None
    event_id: str | None = None


class Line(NamedTuple):
    """In the order in which logs tell it, so that what a pattern finds is a line at once. Empty is not told."""

    text: str
    """The line itself, by which it is recognised when it comes again."""
    host: str
    address: str
    when: object
    method: str
    url: str
    status: str
    referrer: str
    agent: str
    forwarded: str
    """`X-Forwarded-For`, in quotes or not; or whatever else stands after the agent."""
    more: More | Literal[""] = ""


def moment(when: object) -> int | None:
    """Milliseconds since 1970 from `10/Oct/2026:13:55:36 +0200`, as servers write it, or any form that events have."""
    return _common(when) if isinstance(when, str) and len(when) == 26 and when[2] == "/" else milliseconds(when)


@lru_cache(maxsize=1 << 10)
def _common(when: str) -> int | None:
    """Lines that follow each other often share the second."""
    if not COMMON.fullmatch(when):
        return None
    try:
        offset = timedelta(hours=int(when[22:24]), minutes=int(when[24:26]))
        zone = timezone(-offset if when[21] == "-" else offset)
        day, month, year = int(when[:2]), MONTHS[when[3:6]], int(when[7:11])
        minute = datetime(year, month, day, int(when[12:14]), int(when[15:17]), tzinfo=zone)
        return (minute - EPOCH) // MILLISECOND + int(when[18:20]) * SECOND  # a leap second has the number 60
    except (ValueError, KeyError, OverflowError):
        return None


def asked(request: str) -> tuple[str, str]:
    """Method and target of a request line; there may be spaces in what clients ask for, and no version."""
    method, _, target = request.partition(" ")
    return method, target.rpartition(" HTTP/")[0] or target


def unescaped(text: str) -> str:
    """Without the backslashes of nginx and Apache. Bytes that are no text stay, as what Python calls surrogates."""
    if "\\" not in text:
        return text
    plain = ESCAPE.sub(_byte, text.encode("utf-8", "surrogateescape"))
    return plain.decode("utf-8", "surrogateescape")


def _byte(found: re.Match[bytes]) -> bytes:
    told = found[1]
    return bytes([int(told[1:], 16)]) if len(told) == 3 else LETTERS.get(told, told)
