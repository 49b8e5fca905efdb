"""Raw views, as they arrive from a site's server, the beacon or an access log; and the parsing of their timestamps."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from copydesk.analytics.classification.classifier import MAX_AGENT_CHARS, Classifier
from copydesk.analytics.ingest.event_schema import MAX_TIMESTAMP_CHARS, Event
from copydesk.analytics.ingest.visitor_ids import VisitorHasher
from copydesk.analytics.ip_addresses import parse_ip
from copydesk.analytics.page_paths import UNKNOWN_LOCATION, PageLocation
from copydesk.analytics.page_view import UNCLASSIFIED, Classification, Dropped, DropReason
from copydesk.core.clock import DAY

EPOCH, MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
YEAR_2000_MS = 946_684_800_000
MAX_AHEAD_MS = DAY
"""How far a timestamp may be in the future: clocks run fast, and some servers send their local time as UTC."""


@dataclass(frozen=True, slots=True, eq=False)
class SiteConfig:
    """The analytics configuration of a project, created once and shared by all its views."""

    project_id: str
    classifier: Classifier
    hasher: VisitorHasher
    base_path: str = ""
    kept_params: frozenset[str] = frozenset()
    """Query parameters that identify a separate page."""


class RawView(msgspec.Struct, gc=False):
    """A view in the pipeline. The stages fill in location, classification and visitor."""

    site: SiteConfig
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
    """The header `Sec-Purpose`, `Purpose` or `X-Moz`; None unless we received the visitor's request ourselves."""
    signer: str | None = None
    """The host that signed the request, as `bot_signatures` verified it, or with CLAIM_PREFIX as it claims."""
    location: PageLocation = UNKNOWN_LOCATION
    classification: Classification = UNCLASSIFIED
    visitor: int | None = None


def raw_view_from_event(event: Event, site: SiteConfig, now: int) -> RawView | Dropped:
    url = event.url or event.path
    if not url:
        return Dropped(DropReason.NO_PATH)
    at = now if event.timestamp is None else parse_timestamp(event.timestamp, now)
    if isinstance(at, Dropped):
        return at
    user_agent = event.user_agent
    visitor_id = event.visitor_id
    ip = event.ip
    status = event.status
    return RawView(
        site,
        url,
        at,
        user_agent[:MAX_AGENT_CHARS] if user_agent is not None else None,
        parse_ip(ip) if ip else None,
        event.referrer,
        event.method or "GET",
        200 if status is None else status,
        event.accept,
        None if visitor_id is None else str(visitor_id),
        event.event_id,
    )


def parse_timestamp(timestamp: object, now: int) -> int | Dropped:
    """Returns milliseconds since 1970, or why the view is dropped.

    Accepts ISO 8601 (UTC unless it has a zone), or seconds, milli-, micro- or nanoseconds since 1970. The time may be
    years in the past, but not before 2000 and not more than a day in the future.
    """
    return validate_timestamp(to_milliseconds(timestamp), now)


def validate_timestamp(at: int | None, now: int) -> int | Dropped:
    if at is None:
        return Dropped(DropReason.BAD_TIMESTAMP, "timestamp")
    if at > now + MAX_AHEAD_MS:
        return Dropped(DropReason.TIMESTAMP_IN_FUTURE, "timestamp")
    return at if at >= YEAR_2000_MS else Dropped(DropReason.TIMESTAMP_TOO_OLD, "timestamp")


def to_milliseconds(timestamp: object) -> int | None:
    """Returns milliseconds since 1970, or None if the value is not a time."""
    if isinstance(timestamp, str):
        if len(timestamp) > MAX_TIMESTAMP_CHARS:
            return None
        text = timestamp.strip()
        if text.isascii() and text.replace(".", "", 1).isdecimal():
            return _scale_to_milliseconds(float(text))
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            return None
        return ((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) - EPOCH) // MILLISECOND
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
        return None
    return _scale_to_milliseconds(timestamp)


def _scale_to_milliseconds(number: float) -> int | None:
    """Detects the unit of a number by its size: 100,000,000,000 is the year 5138 in seconds, 1973 in milliseconds."""
    if not 0 <= number < 1e20 or not math.isfinite(number):
        return None
    if number < 1e11:
        return int(number * 1000)
    if number < 1e14:
        return int(number)
    return int(number // 1000) if number < 1e17 else int(number // 1_000_000)
