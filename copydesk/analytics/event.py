"""A view as it arrives: from a site's server, a beacon or a log."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from copydesk.analytics.addresses import packed
from copydesk.analytics.classify import LONGEST_AGENT, Classifier
from copydesk.analytics.identify import Key
from copydesk.analytics.paths import LONGEST_URL, Place
from copydesk.analytics.view import Dropped, Reason, Verdict
from copydesk.core.clock import DAY

LONGEST_ID, LONGEST_TIMESTAMP = 256, 64
EPOCH, MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
YEAR_2000 = 946_684_800_000
AHEAD = DAY
"""How far ahead a timestamp may be: clocks run fast, and some servers send their local time as UTC."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a project says about its views, made once and shared by all of them."""

    project: str
    classifier: Classifier
    key: Key
    base: str = ""
    keep: frozenset[str] = frozenset()
    """Query parameters that make another page."""


@dataclass(slots=True)
class Raw:
    """On its way through the pipeline: the stages fill in `place` and `verdict`."""

    site: Site
    url: str
    at: int
    user_agent: str | None = None
    address: bytes | None = None
    referrer: str | None = None
    method: str = "GET"
    status: int = 200
    accept: str | None = None
    purpose: str | None = None
    """`Sec-Purpose`, `Purpose` or `X-Moz`, where the request itself was seen."""
    signer: str | None = None
    """The host that signed the request, as `botauth` verified it."""
    visitor_id: str | None = None
    event_id: str | None = None
    place: Place = field(init=False)
    verdict: Verdict = field(init=False)


def read(event: object, site: Site, now: int) -> Raw | Dropped:
    """An event as a site's server sends it. Unknown fields are the caller's to refuse."""
    if not isinstance(event, Mapping):
        return Dropped(Reason.NOT_AN_EVENT)
    for name, value in event.items():
        longest = LONGEST.get(name)
        if longest is None or value is None:
            continue
        if len(value) > longest if isinstance(value, str) else type(value) is not NUMBERS.get(name):
            too_long = name in ("url", "path") and isinstance(value, str)
            return Dropped(Reason.PATH_TOO_LONG if too_long else Reason.BAD_FIELD, name)
    url = event.get("url") or event.get("path")
    if not url:
        return Dropped(Reason.NO_PATH)
    timestamp = event.get("timestamp")
    at = now if timestamp is None else moment(timestamp, now)
    if isinstance(at, Dropped):
        return at
    agent, visitor_id, ip = event.get("userAgent"), event.get("visitorId"), event.get("ip")
    status = event.get("status")
    return Raw(
        site,
        url,
        at,
        user_agent=agent[:LONGEST_AGENT] if agent is not None else None,
        address=packed(ip) if ip else None,
        referrer=event.get("referrer"),
        method=event.get("method") or "GET",
        status=200 if status is None else status,
        accept=event.get("accept"),
        visitor_id=None if visitor_id is None else str(visitor_id),
        event_id=event.get("eventId"),
    )


LONGEST = {
    "url": LONGEST_URL,
    "path": LONGEST_URL,
    "userAgent": 1 << 16,
    "ip": LONGEST_ID,
    "referrer": 1 << 16,
    "method": 32,
    "status": -1,
    "accept": 4096,
    "visitorId": LONGEST_ID,
    "eventId": LONGEST_ID,
}
"""How long the text in a field may be; a status is never text."""
NUMBERS = {"status": int, "visitorId": int}


def moment(timestamp: object, now: int) -> int | Dropped:
    """Milliseconds since 1970 from ISO 8601 (UTC where it does not say) or a number of seconds, milli-, micro- or
    nanoseconds since 1970. Late by years is fine; before 2000 or more than a day ahead is not."""
    return plausible(milliseconds(timestamp), now)


def plausible(at: int | None, now: int) -> int | Dropped:
    if at is None:
        return Dropped(Reason.BAD_TIMESTAMP, "timestamp")
    if at > now + AHEAD:
        return Dropped(Reason.TIMESTAMP_IN_FUTURE, "timestamp")
    return at if at >= YEAR_2000 else Dropped(Reason.TIMESTAMP_TOO_OLD, "timestamp")


def milliseconds(timestamp: object) -> int | None:
    """Since 1970; None for what is no time."""
    if isinstance(timestamp, str):
        if len(timestamp) > LONGEST_TIMESTAMP:
            return None
        text = timestamp.strip()
        if text.isascii() and text.replace(".", "", 1).isdecimal():
            return _scaled(float(text))
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            return None
        return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - EPOCH) // MILLISECOND
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
        return None
    return _scaled(timestamp)


def _scaled(number: float) -> int | None:
    """What the number counts shows in its size: 100,000,000,000 seconds are the year 5138, as milliseconds 1973."""
    if not 0 <= number < 1e20 or not math.isfinite(number):
        return None
    if number < 1e11:
        return int(number * 1000)
    if number < 1e14:
        return int(number)
    return int(number // 1000) if number < 1e17 else int(number // 1_000_000)
