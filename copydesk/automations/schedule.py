"""Schedules: five-field cron expressions in a time zone. Slots are whole minutes, in milliseconds since 1970.

A slot in the hour that a clock change skips fires at the end of that hour. A slot in the hour that a clock change
repeats fires once, the first time, unless the expression's minute or hour begins with `*`. This is what Debian's cron
does.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from copydesk.core import clock

MAX_CRON_CHARS = 100
FIELD_COUNT = 5
MINUTE = 60 * clock.SECOND


class BadSchedule(ValueError):
    """The expression or the time zone is invalid. The message says why."""


def validate_schedule(cron: str, timezone: str) -> None:
    """Raises BadSchedule if the schedule is invalid or never occurs."""
    if len(cron) > MAX_CRON_CHARS or len(cron.split()) != FIELD_COUNT:
        raise BadSchedule(
            f"'{cron[:MAX_CRON_CHARS]}' is not a schedule. Write five fields: minute, hour, day of the month, month "
            "and day of the week, such as 0 6 * * 1 for Mondays at 6:00."
        )
    load_zone(timezone)
    if find_next_slot(cron, timezone, clock.now()) is None:
        raise BadSchedule(f"'{cron}' never occurs.")


def find_next_slot(cron: str, timezone: str, after: int) -> int | None:
    """Returns the first slot after this time, or None if there is none within 50 years. Raises BadSchedule."""
    zone = load_zone(timezone)
    is_fixed = not any(field.startswith("*") for field in cron.split()[:2])
    wall = datetime.fromtimestamp(after / 1000, UTC).astimezone(zone)
    slots = (_to_slot(wall_time, zone, after, is_fixed) for wall_time in _walk(cron, wall.replace(tzinfo=None)))
    slot = next((slot for slot in slots if slot is not None), None)
    repeated = None if is_fixed or not _occurs_again(wall) else _find_repeated_slot(cron, wall, after)
    return min((found for found in (slot, repeated) if found is not None), default=None)


def _walk(cron: str, start: datetime) -> Iterator[datetime]:
    """Yields the wall times after `start` that match. cronsim itself misses slots where clocks change by half an hour,
    so it never sees the time zone."""
    try:
        yield from CronSim(cron, start)
    except CronSimError as error:
        raise BadSchedule(f"'{cron}' is not a schedule: {_explain_error(error)}.") from None
    except (AssertionError, TypeError, ValueError, OverflowError):  # how cronsim refuses some combinations of signs
        raise BadSchedule(f"'{cron}' is not a schedule.") from None


def _to_slot(wall_time: datetime, zone: ZoneInfo, after: int, is_fixed: bool) -> int | None:
    """Returns the slot of a wall time if it is later; None for one that is over, or that a clock change skips."""
    moment = wall_time.replace(tzinfo=zone)
    if _is_skipped(moment):
        if not is_fixed:
            return None
        while _is_skipped(moment):
            moment += timedelta(minutes=1)
    slot = _to_milliseconds(moment)
    if slot <= after and not is_fixed:
        slot = _to_milliseconds(moment.replace(fold=1))
    return slot if slot > after else None


def _find_repeated_slot(cron: str, wall: datetime, after: int) -> int | None:
    """Returns the first slot in the repetition of an hour, while that hour passes for the first time."""
    start = wall.replace(second=0, microsecond=0)
    while _occurs_again(start - timedelta(minutes=1)):
        start -= timedelta(minutes=1)
    first = next(_walk(cron, start.replace(tzinfo=None) - timedelta(minutes=1)), None)
    again = first.replace(tzinfo=wall.tzinfo) if first else None
    return _to_milliseconds(again.replace(fold=1)) if again and _occurs_again(again) else None


def _occurs_again(moment: datetime) -> bool:
    """Returns whether this is the first of two times with the same wall time."""
    return moment.fold == 0 and not _is_skipped(moment) and moment.utcoffset() != moment.replace(fold=1).utcoffset()


def _is_skipped(moment: datetime) -> bool:
    """Returns whether no clock in the zone ever shows this wall time."""
    return moment.astimezone(UTC).astimezone(moment.tzinfo).replace(tzinfo=None) != moment.replace(tzinfo=None)


def _to_milliseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * clock.SECOND


def find_last_slot(cron: str, timezone: str, first: int, now: int) -> int:
    """Returns the last slot from `first`, which is one, until now. After downtime, the slots before it are skipped."""
    start = max(first, _find_start_of_search(cron, timezone, first, now))
    slot = start
    while (following := find_next_slot(cron, timezone, slot)) is not None and following <= now:
        slot = following
    return slot


def _find_start_of_search(cron: str, timezone: str, first: int, now: int) -> int:
    """Returns a slot near the last one, so that a month without a server costs no walk over 40,000 slots."""
    for reach in (clock.HOUR, clock.DAY, 32 * clock.DAY, 366 * clock.DAY):
        if now - reach <= first:
            break
        slot = find_next_slot(cron, timezone, now - reach)
        if slot is not None and slot <= now:
            return slot
    return first


@cache
def load_zone(name: str) -> ZoneInfo:
    """Returns the time zone. Raises BadSchedule if there is none of this name."""
    try:
        if name in available_timezones():
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise BadSchedule(f"Unknown time zone '{name[:60]}'. Use a name such as UTC or Europe/Berlin.")


def _explain_error(error: CronSimError) -> str:
    reason = str(error)
    return f"the {reason.removeprefix('Bad ')} is invalid" if reason.startswith("Bad ") else reason.lower()
