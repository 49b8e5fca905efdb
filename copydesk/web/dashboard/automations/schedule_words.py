"""Describes schedules in words, such as `Mondays at 06:00 Europe/Berlin`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from copydesk.automations.schedule import find_next_slot, load_zone

WEEKDAYS = ("Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays")
WEEKDAY_NUMBERS = {name[:3].upper(): number for number, name in enumerate(WEEKDAYS)}
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WORKDAYS = [1, 2, 3, 4, 5]


def describe_schedule(cron: str, timezone: str) -> str:
    """Returns the schedule in words. Quotes an expression that is not of a common form."""
    minute, hour, day, month, weekday = cron.upper().split()
    days = _describe_days(day, month, weekday)
    clock_times = _describe_clock_times(minute, hour)
    interval = _describe_interval(minute, hour)
    if days is None or (clock_times is None and interval is None):
        return f"By the schedule {cron} ({timezone})"
    if clock_times is not None:
        subject = days if days.endswith("of every month") else days.removeprefix("on ")
        return f"{_capitalize(subject or 'every day')} at {clock_times} {timezone}"
    return " ".join(part for part in (interval, days, timezone) if part)


def list_next_slots(cron: str, timezone: str, after: int, count: int) -> list[str]:
    """Returns the next slots after this time, as local times of the schedule's zone."""
    zone, times, slot = load_zone(timezone), list[str](), find_next_slot(cron, timezone, after)
    while slot is not None and len(times) < count:
        times.append(datetime.fromtimestamp(slot / 1000, UTC).astimezone(zone).strftime("%a %Y-%m-%d %H:%M"))
        slot = find_next_slot(cron, timezone, slot)
    return times


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    """Joins words as in a sentence: `a, b and c`."""
    return f" {conjunction} ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def _describe_clock_times(minute: str, hour: str) -> str | None:
    hours = hour.split(",")
    if not minute.isdecimal() or not all(each.isdecimal() for each in hours):
        return None
    return join_words([f"{int(each):02d}:{int(minute):02d}" for each in hours])


def _describe_interval(minute: str, hour: str) -> str | None:
    """Returns how often it runs within a day, if the steps are equal; a step of 7 minutes is not."""
    if hour == "*" and minute in ("*", "*/1"):
        return "Every minute"
    step = _parse_step(minute, 60)
    if hour == "*" and step:
        return f"Every {step} minutes"
    if not minute.isdecimal():
        return None
    suffix = f" at minute {int(minute)}" if int(minute) else ""
    if hour in ("*", "*/1"):
        return f"Every hour{suffix}"
    step = _parse_step(hour, 24)
    return f"Every {step} hours{suffix}" if step else None


def _parse_step(field: str, whole: int) -> int | None:
    step = field.removeprefix("*/")
    is_equal_step = field.startswith("*/") and step.isdecimal() and int(step) > 1 and whole % int(step) == 0
    return int(step) if is_equal_step else None


def _describe_days(day: str, month: str, weekday: str) -> str | None:
    """Returns the days as a phrase such as `on Mondays`; empty for every day, None if there is no simple phrase."""
    if (day, month) == ("*", "*"):
        return "" if weekday == "*" else _describe_weekdays(weekday)
    if weekday != "*" or not day.isdecimal():
        return None
    if month == "*":
        return f"on day {int(day)} of every month"
    return f"on {MONTHS[int(month) - 1]} {int(day)} of every year" if month.isdecimal() else None


def _describe_weekdays(field: str) -> str | None:
    numbers = list[int]()
    for part in field.split(","):
        first, _, last = part.partition("-")
        start, end = _parse_weekday(first), _parse_weekday(last or first)
        if start is None or end is None or start > end:
            return None
        numbers.extend(range(start, end + 1))
    numbers = sorted({number % 7 for number in numbers}, key=lambda number: (number - 1) % 7)
    if len(numbers) == len(WEEKDAYS):
        return ""
    return "on weekdays" if numbers == WORKDAYS else f"on {join_words([WEEKDAYS[number] for number in numbers])}"


def _parse_weekday(text: str) -> int | None:
    """Returns the number of a weekday: 0 and 7 are Sunday."""
    if text.isdecimal() and int(text) <= 7:
        return int(text)
    return WEEKDAY_NUMBERS.get(text)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
