"""What a report is asked for: a range of UTC days, written as dates or as moments."""

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
"""A plus sign that nobody encoded arrives as a space."""


class InvalidDate(ValueError):
    message = "must be a date such as 2026-01-31, or a date and time of ISO 8601"

    def __init__(self) -> None:
        super().__init__(self.message)


def parse_day(text: str) -> int:
    """The UTC day that a date names or a moment falls in, counted from 1970. Plain arithmetic: no year overflows."""
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
    """From the one (inclusive) to the other (exclusive), as far as the store's own days reach."""
    return DayRange(
        FIRST_DAY if first_day is None else min(max(first_day, FIRST_DAY), LAST_DAY + 1),
        LAST_DAY + 1 if end_day is None else min(max(end_day, FIRST_DAY), LAST_DAY + 1),
    )


def format_day(day: int) -> str:
    return date.fromordinal(EPOCH_ORDINAL + day).isoformat()
