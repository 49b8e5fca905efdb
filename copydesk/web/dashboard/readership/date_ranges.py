"""The date ranges of the analytics pages: named ranges such as the last 30 days, custom ranges and previous periods."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from copydesk.analytics.date_ranges import EPOCH_ORDINAL, InvalidDate, parse_day
from copydesk.analytics.stores.base import ALL_DAYS, FIRST_DAY, LAST_DAY, DayRange, Interval
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest

RANGE_LABELS = {
    "today": "Today",
    "yesterday": "Yesterday",
    "7d": "Last 7 days",
    "14d": "Last 14 days",
    "30d": "Last 30 days",
    "90d": "Last 90 days",
    "month": "This month",
    "year": "Year to date",
    "all": "All time",
}
DEFAULT_RANGE = "30d"
CUSTOM_RANGE = "days"
MAX_CUSTOM_DAYS = 3_660
"""The longest custom range. The range `all` shows more."""
RUN_UP_DAYS = 13
MAX_DAYS_BY_DAY, MAX_DAYS_BY_WEEK = 92, 732
"""The longest ranges that have a point per day and a point per week. Longer ranges have a point per month."""


@dataclass(frozen=True)
class SelectedRange:
    name: str
    days: DayRange
    query: Mapping[str, str]
    """The query parameters that select this range."""

    @property
    def previous(self) -> DayRange | None:
        """The period of the same length just before; None for all time, or if it would begin too early."""
        first = self.days.first - (self.days.end - self.days.first)
        return DayRange(first, self.days.first) if first >= FIRST_DAY and self.days != ALL_DAYS else None

    @property
    def is_single_day(self) -> bool:
        return self.days.end - self.days.first == 1

    @property
    def run_up_days(self) -> DayRange:
        """The range with the days before it. The chart of a single day whose hours are not known shows them."""
        return DayRange(max(FIRST_DAY, self.days.first - RUN_UP_DAYS), self.days.end)

    @property
    def from_day(self) -> str:
        return "" if self.days == ALL_DAYS else date_from_day(self.days.first).isoformat()

    @property
    def to_day(self) -> str:
        return "" if self.days == ALL_DAYS else date_from_day(self.days.end - 1).isoformat()


NO_RANGE = SelectedRange("", ALL_DAYS, {})


def parse_range(name: str, first: str = "", last: str = "", today: int | None = None) -> SelectedRange:
    """Parses a range from its name, or from its first and last day. Days without a name are a custom range."""
    name = name or (CUSTOM_RANGE if first or last else DEFAULT_RANGE)
    if name == CUSTOM_RANGE:
        return _parse_custom_range(first, last)
    if name not in RANGE_LABELS:
        raise InvalidRequest(f"Unknown range. Use one of {', '.join(RANGE_LABELS)}, or pick days.")
    return SelectedRange(name, _resolve_named_range(name, clock.today() if today is None else today), {"range": name})


def _resolve_named_range(name: str, today: int) -> DayRange:
    match name:
        case "today":
            return DayRange(today, today + 1)
        case "yesterday":
            return DayRange(today - 1, today)
        case "month":
            return DayRange(_day_from_date(date_from_day(today).replace(day=1)), today + 1)
        case "year":
            return DayRange(_day_from_date(date_from_day(today).replace(month=1, day=1)), today + 1)
        case "all":
            return ALL_DAYS
    return DayRange(today + 1 - int(name.removesuffix("d")), today + 1)


def _parse_custom_range(first: str, last: str) -> SelectedRange:
    begin = _parse_bound(first, "first")
    end = _parse_bound(last, "last") + 1
    if begin >= end:
        raise InvalidRequest("The first day is after the last day. Swap them.")
    if begin < FIRST_DAY or end > LAST_DAY + 1:
        raise InvalidRequest(f"Pick days from {date_from_day(FIRST_DAY)} to {date_from_day(LAST_DAY)}.")
    if end - begin > MAX_CUSTOM_DAYS:
        raise InvalidRequest("Pick at most ten years, or use the range All time.")
    return SelectedRange(CUSTOM_RANGE, DayRange(begin, end), {"range": CUSTOM_RANGE, "from": first, "to": last})


def _parse_bound(text: str, bound: str) -> int:
    try:
        if len(text) != len("2026-01-31"):
            raise InvalidDate
        return parse_day(text)
    except InvalidDate:
        raise InvalidRequest(f"The {bound} day must be a date such as 2026-01-31.") from None


def date_from_day(day_number: int) -> date:
    return date.fromordinal(EPOCH_ORDINAL + day_number)


def _day_from_date(calendar_day: date) -> int:
    return calendar_day.toordinal() - EPOCH_ORDINAL


def format_range(span: DayRange) -> str:
    """Formats a range, such as `3 Mar 2026` or `3 Mar – 1 Apr 2026`."""
    first = date_from_day(span.first)
    last = date_from_day(span.end - 1)
    if first == last:
        return f"{last.day} {last:%b %Y}"
    year = "" if first.year == last.year else f" {first.year}"
    return f"{first.day} {first:%b}{year} – {last.day} {last:%b %Y}"


def choose_interval(span: DayRange) -> Interval:
    """Returns the interval of a chart's points, so that there are enough points but not too many."""
    length = span.end - span.first
    return "day" if length <= MAX_DAYS_BY_DAY else "week" if length <= MAX_DAYS_BY_WEEK else "month"


def list_interval_starts(interval: Interval, span: DayRange) -> list[int]:
    """Returns the first day of every interval that overlaps the range."""
    starts = []
    start = interval_start(interval, span.first)
    while start < span.end:
        starts.append(start)
        start = next_interval_start(interval, start)
    return starts


def interval_start(interval: Interval, number: int) -> int:
    calendar_day = date_from_day(number)
    if interval == "week":
        return number - calendar_day.weekday()
    return _day_from_date(calendar_day.replace(day=1)) if interval == "month" else number


def next_interval_start(interval: Interval, number: int) -> int:
    """Returns the first day of the interval after the one that begins on this day."""
    if interval == "month":
        calendar_day = date_from_day(number)
        years, month = divmod(calendar_day.month, 12)
        return _day_from_date(date(calendar_day.year + years, month + 1, 1))
    return number + (7 if interval == "week" else 1)
