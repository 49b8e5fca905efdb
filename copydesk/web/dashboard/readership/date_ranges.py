"""Ranges that people speak of: today, the last 30 days, this month, days they pick; and the period before each."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from copydesk.analytics.date_ranges import EPOCH, NotADate, day
from copydesk.analytics.stores.base import ALWAYS, FIRST_DAY, LAST_DAY, Interval, Range
from copydesk.core import clock
from copydesk.core.errors import InvalidRequest

NAMES = {
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
USUAL = "30d"
PICKED = "days"
LONGEST = 3_660
"""Days that can be picked; all time is the way to look at more."""
RUN_UP = 13
DAILY, WEEKLY = 92, 732
"""Up to so many days a chart has a point for each day, or for each week."""


@dataclass(frozen=True)
class Chosen:
    name: str
    days: Range
    query: Mapping[str, str]
    """What names it in an address."""

    @property
    def before(self) -> Range | None:
        """As many days, just before. All time has none."""
        first = self.days.first - (self.days.end - self.days.first)
        return Range(first, self.days.first) if first >= FIRST_DAY and self.days != ALWAYS else None

    @property
    def drawn(self) -> Range:
        """What a chart shows: a single day says little without those that led up to it."""
        is_one = self.days.end - self.days.first == 1
        return Range(max(FIRST_DAY, self.days.first - RUN_UP), self.days.end) if is_one else self.days

    @property
    def from_day(self) -> str:
        return "" if self.days == ALWAYS else as_date(self.days.first).isoformat()

    @property
    def to_day(self) -> str:
        return "" if self.days == ALWAYS else as_date(self.days.end - 1).isoformat()


NO_RANGE = Chosen("", ALWAYS, {})


def chosen(name: str, first: str = "", last: str = "", today: int | None = None) -> Chosen:
    """By its name, or by its first and its last day. Days that are given without a name are picked ones."""
    name = name or (PICKED if first or last else USUAL)
    if name == PICKED:
        return _picked(first, last)
    if name not in NAMES:
        raise InvalidRequest(f"There is no range of this name; choose one of {', '.join(NAMES)}, or pick days.")
    return Chosen(name, _named(name, clock.today() if today is None else today), {"range": name})


def _named(name: str, today: int) -> Range:
    match name:
        case "today":
            return Range(today, today + 1)
        case "yesterday":
            return Range(today - 1, today)
        case "month":
            return Range(_number(as_date(today).replace(day=1)), today + 1)
        case "year":
            return Range(_number(as_date(today).replace(month=1, day=1)), today + 1)
        case "all":
            return ALWAYS
    return Range(today + 1 - int(name.removesuffix("d")), today + 1)


def _picked(first: str, last: str) -> Chosen:
    begin, end = _day(first, "first"), _day(last, "last") + 1
    if begin >= end:
        raise InvalidRequest("The first day lies after the last one; swap them.")
    if begin < FIRST_DAY or end > LAST_DAY + 1:
        raise InvalidRequest(f"Pick days from {as_date(FIRST_DAY)} to {as_date(LAST_DAY)}.")
    if end - begin > LONGEST:
        raise InvalidRequest("Pick at most ten years, or look at all time.")
    return Chosen(PICKED, Range(begin, end), {"range": PICKED, "from": first, "to": last})


def _day(text: str, which: str) -> int:
    try:
        if len(text) != len("2026-01-31"):
            raise NotADate
        return day(text)
    except NotADate:
        raise InvalidRequest(f"The {which} day must be a date such as 2026-01-31.") from None


def as_date(number: int) -> date:
    return date.fromordinal(EPOCH + number)


def _number(moment: date) -> int:
    return moment.toordinal() - EPOCH


def spoken(span: Range) -> str:
    """Such as `3 Mar 2026`, or `3 Mar – 1 Apr 2026`."""
    first, last = as_date(span.first), as_date(span.end - 1)
    if first == last:
        return f"{last.day} {last:%b %Y}"
    year = "" if first.year == last.year else f" {first.year}"
    return f"{first.day} {first:%b}{year} – {last.day} {last:%b %Y}"


def interval_for(span: Range) -> Interval:
    """How long a point of the chart lasts, so that there are enough of them and not too many."""
    length = span.end - span.first
    return "day" if length <= DAILY else "week" if length <= WEEKLY else "month"


def begins(interval: Interval, span: Range) -> list[int]:
    """The first day of every interval that the range touches, also of those in which there was nothing."""
    found = []
    moment = begin_of(interval, span.first)
    while moment < span.end:
        found.append(moment)
        moment = _following(interval, moment)
    return found


def begin_of(interval: Interval, number: int) -> int:
    moment = as_date(number)
    if interval == "week":
        return number - moment.weekday()
    return _number(moment.replace(day=1)) if interval == "month" else number


def _following(interval: Interval, number: int) -> int:
    if interval == "month":
        moment = as_date(number)
        years, month = divmod(moment.month, 12)
        return _number(date(moment.year + years, month + 1, 1))
    return number + (7 if interval == "week" else 1)
