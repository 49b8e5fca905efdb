"""What a report is asked for: a range of UTC days, written as dates or as moments."""

import re
from datetime import date

from copydesk.analytics.stores.base import FIRST_DAY, LAST_DAY, Range

EPOCH = date(1970, 1, 1).toordinal()
MINUTES = 24 * 60
MOMENT = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<hour>[01][0-9]|2[0-4]):(?P<minute>[0-5][0-9])(?::(?:[0-5][0-9]|60)(?:[.,][0-9]+)?)?"
    r"(?:[Zz]|(?P<sign>[+ -])(?P<hours>[01][0-9]|2[0-3]):?(?P<minutes>[0-5][0-9])?)?)?"
)
"""A plus sign that nobody encoded arrives as a space."""


class NotADate(ValueError):
    message = "must be a date such as 2026-01-31, or a date and time of ISO 8601"

    def __init__(self) -> None:
        super().__init__(self.message)


def day(text: str) -> int:
    """The UTC day that a date names or a moment falls in, counted from 1970. Plain arithmetic: no year overflows."""
    found = MOMENT.fullmatch(text)
    if found is None:
        raise NotADate
    try:
        days = date.fromisoformat(found["date"]).toordinal() - EPOCH
    except ValueError:
        raise NotADate from None
    ahead = int(found["hours"] or 0) * 60 + int(found["minutes"] or 0)
    minute = int(found["hour"] or 0) * 60 + int(found["minute"] or 0)
    return days + (minute - (-ahead if found["sign"] == "-" else ahead)) // MINUTES


def days(first: int | None, end: int | None) -> Range:
    """From the one (inclusive) to the other (exclusive), as far as the store's own days reach."""
    return Range(
        FIRST_DAY if first is None else min(max(first, FIRST_DAY), LAST_DAY + 1),
        LAST_DAY + 1 if end is None else min(max(end, FIRST_DAY), LAST_DAY + 1),
    )


def date_of(day: int) -> str:
    return date.fromordinal(EPOCH + day).isoformat()
