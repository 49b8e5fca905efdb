"""Schedules, against an independent implementation: croniter on wall time, and zoneinfo for the time zone."""

from datetime import UTC, datetime, timedelta
from itertools import count, takewhile
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from copydesk.automations.schedule import BadSchedule, find_last_slot, find_next_slot, validate_schedule
from copydesk.core import clock

MINUTE = 60 * clock.SECOND


def at(text: str, zone: str = "UTC") -> int:
    """Returns the time in milliseconds. A wall time that occurs twice means the first; `*` at its end the second."""
    moment = datetime.fromisoformat(text.rstrip("*")).replace(tzinfo=ZoneInfo(zone), fold=int(text.endswith("*")))
    return int(moment.timestamp()) * clock.SECOND


def show(slot: int | None, zone: str = "UTC") -> str:
    assert slot is not None
    return datetime.fromtimestamp(slot / 1000, ZoneInfo(zone)).isoformat(timespec="minutes")


def list_slots(cron: str, zone: str, start: int, end: int) -> list[int]:
    slots: list[int] = []
    slot = find_next_slot(cron, zone, start - 1)
    while slot is not None and slot <= end:
        slots.append(slot)
        slot = find_next_slot(cron, zone, slot)
    return slots


DST_CASES = [
    # New York, 2026-03-08: 2:00 to 3:00 does not exist.
    ("30 2 * * *", "America/New_York", "2026-03-07T12:00", ["2026-03-08T03:00-04:00", "2026-03-09T02:30-04:00"]),
    ("0 3 * * *", "America/New_York", "2026-03-07T12:00", ["2026-03-08T03:00-04:00", "2026-03-09T03:00-04:00"]),
    ("30 * * * *", "America/New_York", "2026-03-08T01:00", ["2026-03-08T01:30-05:00", "2026-03-08T03:30-04:00"]),
    # New York, 2026-11-01: 1:00 to 2:00 exists twice.
    ("30 1 * * *", "America/New_York", "2026-10-31T12:00", ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"]),
    ("30 1 * * *", "America/New_York", "2026-11-01T01:10*", ["2026-11-02T01:30-05:00"]),
    (
        "30 * * * *",
        "America/New_York",
        "2026-11-01T00:45",
        ["2026-11-01T01:30-04:00", "2026-11-01T01:30-05:00", "2026-11-01T02:30-05:00"],
    ),
    # Berlin: 2026-03-29 skips 2:00 to 3:00; 2026-10-25 repeats it.
    ("15 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:15+02:00"]),
    ("15 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T02:15+02:00", "2026-10-26T02:15+01:00"]),
    # Lord Howe changes by half an hour: 2026-04-05 repeats 1:30 to 2:00; 2026-10-04 skips 2:00 to 2:30.
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"]),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
    # A zone with odd minutes, one that never changes, and one that skips midnight itself.
    ("0 0 * * *", "Asia/Kathmandu", "2026-05-01T12:00", ["2026-05-02T00:00+05:45"]),
    ("0 9 * * 1-5", "Asia/Tokyo", "2026-05-01T12:00", ["2026-05-04T09:00+09:00"]),
    ("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", ["2026-04-24T01:00+03:00", "2026-04-25T00:00+03:00"]),
    # Leap days, the last day of months, and February in a century.
    ("0 0 29 2 *", "UTC", "2026-01-01T00:00", ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
    ("0 0 29 2 *", "UTC", "2096-03-01T00:00", ["2104-02-29T00:00+00:00"]),
    ("0 0 31 * *", "UTC", "2026-04-01T00:00", ["2026-05-31T00:00+00:00", "2026-07-31T00:00+00:00"]),
    ("0 12 L * *", "UTC", "2028-02-01T00:00", ["2028-02-29T12:00+00:00", "2028-03-31T12:00+00:00"]),
    # The day of the month or of the week, if both are given.
    ("0 0 13 * 5", "UTC", "2026-02-01T00:00", ["2026-02-06T00:00+00:00", "2026-02-13T00:00+00:00"]),
    ("0 0 * * 7", "UTC", "2026-11-16T00:00", ["2026-11-22T00:00+00:00"]),
]


@pytest.mark.parametrize(("cron", "zone", "start", "slots"), DST_CASES, ids=lambda value: str(value)[:40])
def test_slots_around_clock_changes_and_leap_days(cron: str, zone: str, start: str, slots: list[str]) -> None:
    slot = at(start, zone)
    found = []
    for _ in slots:
        following = find_next_slot(cron, zone, slot)
        assert following is not None
        found.append(show(following, zone))
        slot = following
    assert found == slots


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns")
EXPRESSIONS = (
    "*/7 * * * *", "*/15 * * * *", "7,37 * * * *", "0 * * * *", "5 */6 * * *", "0 6 * * *", "30 2 * * *", "30 1 * * *",
    "0 0 1 * *", "0 0 * * 0", "0 9-17/2 * * 1-5", "15 3 31 * *", "0 0 13 * 5", "0 12 1,15 2-4 *", "59 23 * 12 SUN",
)  # fmt: skip
PERIODS = (("2026-03-26", 6), ("2026-10-22", 6), ("2026-04-03", 4), ("2026-10-02", 4), ("2028-02-26", 5))


@pytest.mark.deep
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", EXPRESSIONS)
def test_slots_equal_those_of_croniter_in_wall_time(cron: str, zone: str) -> None:
    """Outside the hours around a clock change, a slot is a time whose wall time matches."""
    for first_day, days in PERIODS:
        start = at(first_day, zone)
        end = start + days * clock.DAY
        changes = find_clock_changes(zone, start, end)
        assert drop_near(changes, list_slots(cron, zone, start, end)) == drop_near(
            changes, list_wall_slots(cron, zone, datetime.fromisoformat(first_day), end)
        )


def list_wall_slots(cron: str, zone: str, first: datetime, end: int) -> list[int]:
    slots = []
    wall_times = croniter(cron, first - timedelta(minutes=1))
    while (slot := at(wall_times.get_next(datetime).isoformat(), zone)) <= end:
        slots.append(slot)
    return slots


def find_clock_changes(zone: str, start: int, end: int) -> list[int]:
    hours = range(start, end + 1, clock.HOUR)
    offsets = [datetime.fromtimestamp(hour / 1000, ZoneInfo(zone)).utcoffset() for hour in hours]
    return [hour for hour, offset, before in zip(hours[1:], offsets[1:], offsets, strict=False) if offset != before]


def drop_near(changes: list[int], slots: list[int]) -> list[int]:
    return [slot for slot in slots if all(abs(slot - change) > 3 * clock.HOUR for change in changes)]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", ["30 1 * * *", "30 2 * * *", "0 3 * * *", "45 1 * * *", "15 2 1-31 * *"])
def test_daily_slot_occurs_on_every_day_exactly_once(cron: str, zone: str) -> None:
    start = at("2026-01-01", zone)
    slots = list_slots(cron, zone, start, at("2026-12-31T23:59", zone))
    days = [datetime.fromtimestamp(slot / 1000, ZoneInfo(zone)).date() for slot in slots]
    assert days == [datetime(2026, 1, 1, tzinfo=UTC).date() + timedelta(days=n) for n in range(365)]


@pytest.mark.deep
@pytest.mark.parametrize("cron", EXPRESSIONS)
def test_slots_equal_those_of_croniter_in_utc(cron: str) -> None:
    start = at("2026-01-01")
    end = start + (400 if cron.split()[1].isdigit() else 10) * clock.DAY
    other = croniter(cron, datetime(2026, 1, 1, tzinfo=UTC) - timedelta(minutes=1))
    expected = (int(other.get_next(float)) * clock.SECOND for _ in count())
    assert list_slots(cron, "UTC", start, end) == list(takewhile(lambda slot: slot <= end, expected))


def test_last_slot_after_downtime_of_an_hour_a_day_a_month_and_a_year() -> None:
    first = at("2026-05-01T06:00")
    for downtime in (clock.HOUR, clock.DAY, 31 * clock.DAY, 365 * clock.DAY):
        for cron in EXPRESSIONS:
            start = find_next_slot(cron, "Europe/Berlin", first)
            assert start is not None
            now = start + downtime
            assert find_last_slot(cron, "Europe/Berlin", start, now) == walk_to_last_slot(cron, start, now), cron


def walk_to_last_slot(cron: str, start: int, now: int) -> int:
    for reach in (2 * clock.HOUR, 3 * clock.DAY, 400 * clock.DAY):
        slots = list_slots(cron, "Europe/Berlin", max(start, now - reach), now)
        if slots:
            return slots[-1]
    raise AssertionError("the first slot is always there")


def test_last_slot_of_a_rare_schedule_is_the_missed_one() -> None:
    missed = at("2028-02-29T00:00")
    assert find_last_slot("0 0 29 2 *", "UTC", missed, at("2031-01-01")) == missed


@pytest.mark.deep
def test_next_slot_is_always_later() -> None:
    """Also in the repeated hour, where wall time goes back."""
    for zone in ZONES:
        for start in range(at("2026-10-24T22:00"), at("2026-10-25T04:00"), 19 * MINUTE):
            for cron in EXPRESSIONS:
                slot = find_next_slot(cron, zone, start)
                assert slot is not None
                assert slot > start


@pytest.mark.parametrize(
    "cron",
    ["", "x", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
     "*/0 * * * *",
     "5-1 * * * *", "@daily", "0 0 30 2 *", "0 0 * * 5#6", "0 0 * * L", "-1 * * * *", "1,,2 * * * *",
     "1" * 200 + " * * * *", "٣ * * * *"],
)  # fmt: skip
def test_invalid_expression_is_refused(cron: str) -> None:
    with pytest.raises(BadSchedule):
        validate_schedule(cron, "UTC")


@pytest.mark.parametrize("zone", ["", "Berlin", "../../etc/passwd", "/etc/localtime", "Europe/Berlin\x00", "a" * 5000])
def test_invalid_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(BadSchedule, match="time zone"):
        validate_schedule("0 6 * * *", zone)
