"""Times are whole milliseconds since 1970, UTC; users see ISO 8601 with Z."""

import time
from datetime import UTC, datetime

SECOND = 1000
HOUR = 3600 * SECOND
DAY = 24 * HOUR


def now() -> int:
    return time.time_ns() // 1_000_000


def today() -> int:
    """The UTC day, counted from 1970."""
    return now() // DAY


def format_iso(at: int) -> str:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_iso_or_none(at: int | None) -> str | None:
    return None if at is None else format_iso(at)
