"""Times as whole milliseconds since 1970 in UTC. Users see them in ISO 8601 with Z."""

import time
from datetime import UTC, datetime

SECOND = 1000
HOUR = 3600 * SECOND
DAY = 24 * HOUR


def now() -> int:
    return time.time_ns() // 1_000_000


def today() -> int:
    """Returns the current UTC day as the number of days since 1970-01-01."""
    return now() // DAY


def format_iso(at: int) -> str:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_iso_or_none(at: int | None) -> str | None:
    return None if at is None else format_iso(at)
