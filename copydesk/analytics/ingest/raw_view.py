"""A view as it arrives: from a site's server, a beacon or a log."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from copydesk.analytics.classification.classifier import LONGEST_AGENT, Classifier
from copydesk.analytics.ingest.event_schema import LONGEST_TIMESTAMP, Event
from copydesk.analytics.ingest.visitor_ids import Key
from copydesk.analytics.ip_addresses import packed
from copydesk.analytics.page_paths import NOWHERE, Place
from copydesk.analytics.page_view import NOBODY, Dropped, Reason, Verdict
from copydesk.core.clock import DAY

EPOCH, MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
YEAR_2000 = 946_684_800_000
AHEAD = DAY
"""How far ahead a timestamp may be: clocks run fast, and some servers send their local time as UTC."""


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """What a project says about its views, made once and shared by all of them."""

    project: str
    classifier: Classifier
    key: Key
    base: str = ""
    keep: frozenset[str] = frozenset()
    """Query parameters that make another page."""


class Raw(msgspec.Struct, gc=False):
    """On its way through the pipeline: the stages fill in what is not known when it arrives."""

    site: Site
    url: str
    at: int
    user_agent: str | None = None
    address: bytes | None = None
    referrer: str | None = None
    method: str = "GET"
    status: int = 200
    accept: str | None = None
    visitor_id: str | None = None
    event_id: str | None = None
    purpose: str | None = None
    """`Sec-Purpose`, `Purpose` or `X-Moz`, where the request itself was seen."""
    signer: str | None = None
    """The host that signed the request, as `botauth` verified it."""
    place: Place = NOWHERE
    verdict: Verdict = NOBODY
    visitor: int | None = None


def read(event: Event, site: Site, now: int) -> Raw | Dropped:
    url = event.url or event.path
    if not url:
        return Dropped(Reason.NO_PATH)
    at = now if event.timestamp is None else moment(event.timestamp, now)
    if isinstance(at, Dropped):
        return at
    agent, visitor_id, ip, status = event.user_agent, event.visitor_id, event.ip, event.status
    return Raw(
        site,
        url,
        at,
        agent[:LONGEST_AGENT] if agent is not None else None,
        packed(ip) if ip else None,
        event.referrer,
        event.method or "GET",
        200 if status is None else status,
        event.accept,
        None if visitor_id is None else str(visitor_id),
        event.event_id,
    )


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
