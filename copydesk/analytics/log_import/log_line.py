"""Parsed log lines, and the parsing of times, request lines and escapes in logs."""

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Literal, NamedTuple

from copydesk.analytics.ingest.raw_view import EPOCH, MILLISECOND, to_milliseconds
from copydesk.analytics.page_view import Dropped, DropReason
from copydesk.core.clock import SECOND

MALFORMED = Dropped(DropReason.MALFORMED_LINE)
MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTH_NUMBERS = {name: number for number, name in enumerate(MONTH_NAMES, 1)}
COMMON_TIME_PATTERN = re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:[0-6]\d [+-]\d{4}", re.ASCII)
ESCAPE_PATTERN = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.)", re.DOTALL)
ESCAPED_CHARS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"a": b"\a"}


class ExtraFields(NamedTuple):
    """Fields that few logs have. Empty or None means missing."""

    accept: str = ""
    purpose: str = ""
    content_type: str = ""
    """The media type of the response."""
    visitor_id: str | None = None
    event_id: str | None = None


class LogLine(NamedTuple):
    """A request in a log. Empty fields are missing in the log.

    The fields have the order of text logs, so that the groups of a match can be used directly.
    """

    text: str
    """The whole line, which identifies it when it is imported again."""
    host: str
    address: str
    time: object
    method: str
    url: str
    status: str
    referrer: str
    user_agent: str
    forwarded: str
    """`X-Forwarded-For`, with or without quotes, or any other text after the user agent."""
    extra: ExtraFields | Literal[""] = ""


def parse_log_time(time: object) -> int | None:
    """Returns milliseconds since 1970, or None. Accepts `10/Oct/2026:13:55:36 +0200` and all formats of events."""
    return (
        _parse_common_time(time)
        if isinstance(time, str) and len(time) == 26 and time[2] == "/"
        else to_milliseconds(time)
    )


@lru_cache(maxsize=1 << 10)
def _parse_common_time(time: str) -> int | None:
    """Parses the common log format's time. Cached, because consecutive lines often have the same second."""
    if not COMMON_TIME_PATTERN.fullmatch(time):
        return None
    try:
        offset = timedelta(hours=int(time[22:24]), minutes=int(time[24:26]))
        zone = timezone(-offset if time[21] == "-" else offset)
        day = int(time[:2])
        month = MONTH_NUMBERS[time[3:6]]
        year = int(time[7:11])
        minute = datetime(year, month, day, int(time[12:14]), int(time[15:17]), tzinfo=zone)
        return (minute - EPOCH) // MILLISECOND + int(time[18:20]) * SECOND  # datetime does not accept leap seconds (60)
    except (ValueError, KeyError, OverflowError):
        return None


def parse_request_line(request: str) -> tuple[str, str]:
    """Returns the method and target of a request line. The target may contain spaces; the version may be missing."""
    method, _, target = request.partition(" ")
    return method, target.rpartition(" HTTP/")[0] or target


def unescape(text: str) -> str:
    """Resolves the backslash escapes of nginx and Apache. Bytes that are not UTF-8 become surrogates."""
    if "\\" not in text:
        return text
    data = ESCAPE_PATTERN.sub(_unescape_match, text.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "surrogateescape")


def _unescape_match(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    return bytes([int(escape[1:], 16)]) if len(escape) == 3 else ESCAPED_CHARS.get(escape, escape)
