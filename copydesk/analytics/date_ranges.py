"""Parses the date range of a report: UTC days, given as dates or as times."""

import re
from datetime import date

from copydesk.analytics.stores.base import FIRST_DAY, LAST_DAY, DayRange

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
MINUTES_PER_DAY = 24 * 60
TIMESTAMP_PATTERN = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<hour>[01][0-9]|2[0-4]):(?P<minute>[0-5][0-9])(?::(?:[0-5][0-9]|60)(?:[.,][0-9]+)?)?"
    r"(?:[Zz]|(?P<sign>[+ -])(?P<hours>[01][0-9]|2[0-3]):?(?P<minutes>[0-5][0-9])?)?)?"
)
"""The sign may be a space: a plus sign in a query decodes to a space unless the client encodes it."""


class InvalidDate(ValueError):
    message = "must be a date such as 2026-01-31, or an ISO 8601 date and time"

    def __init__(self) -> None:
        super().__init__(self.message)


def parse_day(text: str) -> int:
    """Returns the UTC day of a date or a time, as days since 1970.

    Uses integer arithmetic, because applying an offset to a datetime would overflow in the first and last year.
    """
    match = TIMESTAMP_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidDate
    try:
        day_number = date.fromisoformat(match["date"]).toordinal() - EPOCH_ORDINAL
    except ValueError:
        raise InvalidDate from None
    offset_minutes = int(match["hours"] or 0) * 60 + int(match["minutes"] or 0)
    minute_of_day = int(match["hour"] or 0) * 60 + int(match["minute"] or 0)
    return (
        day_number + (minute_of_day - (-offset_minutes if match["sign"] == "-" else offset_minutes)) // MINUTES_PER_DAY
    )


def clamp_day_range(first_day: int | None, end_day: int | None) -> DayRange:
    """Returns the days from first_day (inclusive) to end_day (exclusive), limited to the days that a store can hold."""
    return DayRange(
        FIRST_DAY if first_day is None else min(max(first_day, FIRST_DAY), LAST_DAY + 1),
        LAST_DAY + 1 if end_day is None else min(max(end_day, FIRST_DAY), LAST_DAY + 1),
    )


def format_day(day: int) -> str:
    return date.fromordinal(EPOCH_ORDINAL + day).isoformat()
