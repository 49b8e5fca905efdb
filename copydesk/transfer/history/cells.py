"""Parses the cells of exports: dates, numbers and paths."""

import unicodedata

from copydesk.analytics.date_ranges import InvalidDate, parse_day
from copydesk.analytics.page_paths import MAX_PATH_BYTES
from copydesk.core import clock
from copydesk.transfer.history.csv_rows import quote_value

MAX_COUNT = 10**12
YEAR_1990_DAY = 7_305
"""No tool has counted page views before."""
NULL_TEXTS = frozenset({"", "\\N", "NULL"})
"""How databases write that there is no value."""


class InvalidCell(ValueError):
    """A cell that cannot be imported; the message says why."""


def is_null(text: str) -> bool:
    return text in NULL_TEXTS


def parse_date(text: str) -> int:
    """Returns the day of a date or a time, as days since 1970. A time with an offset belongs to its day in UTC."""
    try:
        day = parse_day(text.strip().removesuffix("UTC").rstrip())
    except InvalidDate:
        raise InvalidCell(f"{quote_value(text)} is not a date") from None
    if not YEAR_1990_DAY <= day <= clock.today() + 1:
        raise InvalidCell(f"the date {quote_value(text)} is before 1990 or in the future")
    return day


def parse_count(column: str, text: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdecimal() and len(stripped) <= len(str(MAX_COUNT))):
        raise InvalidCell(f"{column} is {quote_value(text)}, which is not a whole number")
    return int(stripped)


def parse_path(text: str) -> str:
    """Returns a path as the other tool counted it, without control characters, and with a slash at its start."""
    path_text = "" if is_null(text) else text
    cleaned = "".join(character for character in path_text if unicodedata.category(character) not in ("Cc", "Cs"))
    path = cleaned if cleaned.startswith("/") else f"/{cleaned}"
    if len(path.encode()) > MAX_PATH_BYTES:
        raise InvalidCell(f"the path {quote_value(text)} is longer than {MAX_PATH_BYTES:,} bytes")
    return path
