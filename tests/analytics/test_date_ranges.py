"""Date ranges of reports."""

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.date_ranges import (
    ALL_TIME,
    InvalidDate,
    TimeRange,
    clamp_day_range,
    clamp_time_range,
    format_day,
    parse_day,
    parse_time,
)
from copydesk.analytics.stores.base import ALL_DAYS, FIRST_DAY, LAST_DAY, DayRange
from copydesk.core.clock import DAY

FIRST_OF_MARCH = (date(2026, 3, 1) - date(1970, 1, 1)).days
OFFSETS = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01",
        "2026-03-01T00:00:00Z",
        "2026-03-01T23:59:59.999999Z",
        "2026-03-01t12:00z",
        "2026-03-01T12:00:00",
        "2026-03-01 12:00:00",
        "2026-03-01T00:00:00.123456+00:00",
        "2026-03-01T00:00:00.123456 00:00",
        "2026-03-01T00:00:00,5-0000",
        "2026-03-01T01:30:00+01:30",
        "2026-03-02T01:29:59+01:30",
        "2026-02-28T23:00:00-01:00",
        "2026-02-28T20:00:00-04",
        "2026-03-01T23:59:60Z",
        "2026-02-28T24:00:00Z",
        "2026-03-01T00:00:00.1234567890123Z",
        "20260301",
        "20260301T235959Z",
        "20260301T120000.5Z",
        "20260301T1200",
        "20260302T0129+0130",
        "20260301T12:00:00Z",
    ],
)
def test_timestamp_means_its_utc_day(text: str) -> None:
    assert format_day(parse_day(text)) == "2026-03-01"
    assert parse_day(text) == FIRST_OF_MARCH


@given(st.dates(date(2, 1, 1), date(9998, 12, 31)), st.times(), OFFSETS)
def test_timestamps_in_any_time_zone_fall_on_their_utc_day(on: date, at: time, zone: timezone) -> None:
    local = datetime.combine(on, at, zone)
    assert format_day(parse_day(local.isoformat())) == local.astimezone(UTC).date().isoformat()


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "today", "2026", "2026-3-1", "2026-02-30", "2026-13-01", "0000-01-01", "20260230", "1772323200"),
        *("2026-03-01T", "2026-03-01T25:00:00Z", "2026-03-01T12:60Z", "2026-03-01T12Z", "2026-03-01Z"),
        *("2026-03-01T12:00:00+24:00", "2026-03-01T12:00:00 PST", "2026-03-01\n", "٢٠٢٦-٠٣-٠١", "2026-03-01x12:00"),
        *("2026-0301", "202603-01", "2026-03-01T12:0000Z", "20260301T12Z", "20260301T1260"),
    ],
)
def test_invalid_date_is_refused(text: str) -> None:
    with pytest.raises(InvalidDate, match="must be a date"):
        parse_day(text)


@given(st.text(max_size=40) | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]{0,12}[Z+ -]?[0-9:]{0,6}"))
def test_any_text_is_parsed_as_a_day_or_refused(text: str) -> None:
    with suppress(InvalidDate):
        assert isinstance(parse_day(text), int)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2026-03-01", 0),
        ("20260301", 0),
        ("2026-03-01T00:00:01", 1_000),
        ("2026-03-01T00:00:00.001Z", 1),
        ("2026-03-01T00:00:00.0019Z", 1),
        ("2026-03-01T00:00:00,5Z", 500),
        ("20260301T013000.25+0130", 250),
        ("2026-03-01T00:00:60Z", 59_999),
    ],
)
def test_time_is_parsed_to_the_millisecond(text: str, milliseconds: int) -> None:
    assert parse_time(text) == FIRST_OF_MARCH * DAY + milliseconds


def test_time_range_is_clamped_to_the_supported_days() -> None:
    assert clamp_time_range(None, None) == ALL_TIME == TimeRange.from_days(ALL_DAYS)
    assert clamp_time_range(parse_time("0001-01-01"), parse_time("9999-12-31")) == ALL_TIME
    assert clamp_time_range(5 * DAY + 1, 9 * DAY - 1) == TimeRange(5 * DAY + 1, 9 * DAY - 1)


def test_first_and_last_years_of_the_calendar_are_accepted() -> None:
    assert parse_day("0001-01-01T00:00:00+14:00") == parse_day("0001-01-01") - 1
    assert parse_day("9999-12-31T23:59:59-12:00") == parse_day("9999-12-31") + 1
    assert clamp_day_range(parse_day("0001-01-01"), parse_day("9999-12-31")) == ALL_DAYS


def test_range_is_clamped_to_the_supported_days() -> None:
    assert clamp_day_range(None, None) == ALL_DAYS
    assert clamp_day_range(FIRST_OF_MARCH, FIRST_OF_MARCH + 1) == DayRange(FIRST_OF_MARCH, FIRST_OF_MARCH + 1)
    for empty in (
        clamp_day_range(parse_day("9999-12-31"), None),
        clamp_day_range(None, parse_day("0001-01-01")),
        clamp_day_range(5, 5),
        clamp_day_range(9, 5),
    ):
        assert empty.first >= empty.end
        assert FIRST_DAY <= empty.end <= empty.first <= LAST_DAY + 1
