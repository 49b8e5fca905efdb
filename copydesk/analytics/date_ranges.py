"""Parses the range of a report, given as dates or as times: UTC days for counts, milliseconds for single rows."""

import re
from dataclasses import dataclass
from datetime import date

from copydesk.analytics.stores.base import FIRST_DAY, LAST_DAY, DayRange
from copydesk.core.clock import DAY

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
MINUTE_MS = 60_000
MIN_TIME, END_TIME = FIRST_DAY * DAY, (LAST_DAY + 1) * DAY
TIMESTAMP_PATTERN = re.compile(
    r"(?P<year>[0-9]{4})(?P<dash>-?)(?P<month>[0-9]{2})(?P=dash)(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[01][0-9]|2[0-4])(?P<colon>:?)(?P<minute>[0-5][0-9])"
    r"(?:(?P=colon)(?P<second>[0-5][0-9]|60)(?:[.,](?P<fraction>[0-9]+))?)?"
    r"(?:[Zz]|(?P<sign>[+ -])(?P<hours>[01][0-9]|2[0-3]):?(?P<minutes>[0-5][0-9])?)?)?"
)
"""Extended (2026-01-31T09:30:00Z) and basic form (20260131T093000Z). The sign may be a space: a plus sign in a query
decodes to a space unless the client encodes it."""


class InvalidDate(ValueError):
    message = "must be a date such as 2026-01-31, or an ISO 8601 date and time"

    def __init__(self) -> None:
        super().__init__(self.message)


@dataclass(frozen=True)
class TimeRange:
    """A range of times in milliseconds since 1970; `end` is exclusive."""

    first: int = MIN_TIME
    end: int = END_TIME

    @classmethod
    def from_days(cls, days: DayRange) -> "TimeRange":
        return cls(days.first * DAY, days.end * DAY)


ALL_TIME = TimeRange()


def parse_time(text: str) -> int:
    """Returns the time in milliseconds since 1970. A date means its first millisecond in UTC.

    Uses integer arithmetic, because applying an offset to a datetime would overflow in the first and last year.
    """
    match = TIMESTAMP_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidDate
    try:
        day_number = date(int(match["year"]), int(match["month"]), int(match["day"])).toordinal() - EPOCH_ORDINAL
    except ValueError:
        raise InvalidDate from None
    offset_minutes = int(match["hours"] or 0) * 60 + int(match["minutes"] or 0)
    minute_of_day = int(match["hour"] or 0) * 60 + int(match["minute"] or 0)
    utc_minute = minute_of_day - (-offset_minutes if match["sign"] == "-" else offset_minutes)
    second_ms = min(int(match["second"] or 0) * 1000 + int((match["fraction"] or "0")[:3].ljust(3, "0")), MINUTE_MS - 1)
    return day_number * DAY + utc_minute * MINUTE_MS + second_ms


def parse_day(text: str) -> int:
    """Returns the UTC day of a date or a time, as days since 1970."""
    return parse_time(text) // DAY


def clamp_day_range(first_day: int | None, end_day: int | None) -> DayRange:
    """Returns the days from first_day (inclusive) to end_day (exclusive), limited to the days that a store can hold."""
    return DayRange(
        FIRST_DAY if first_day is None else min(max(first_day, FIRST_DAY), LAST_DAY + 1),
        LAST_DAY + 1 if end_day is None else min(max(end_day, FIRST_DAY), LAST_DAY + 1),
    )


def clamp_time_range(first: int | None, end: int | None) -> TimeRange:
    """Returns the times from `first` (inclusive) to `end` (exclusive), limited to the days that a store can hold."""
    return TimeRange(
        MIN_TIME if first is None else min(max(first, MIN_TIME), END_TIME),
        END_TIME if end is None else min(max(end, MIN_TIME), END_TIME),
    )


def format_day(day: int) -> str:
    return date.fromordinal(EPOCH_ORDINAL + day).isoformat()
