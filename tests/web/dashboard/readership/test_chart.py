"""The geometry of the chart, and the named ranges."""

from collections.abc import Iterator

import pytest

from copydesk.analytics.date_ranges import parse_day
from copydesk.analytics.stores.base import ALL_DAYS, DayRange, Interval, Store
from copydesk.analytics.stores.report_rows import Counts, HourPoint, TimeseriesPoint
from copydesk.core.clock import DAY, HOUR
from copydesk.core.errors import InvalidRequest
from copydesk.core.settings import Settings
from copydesk.desk import open_desk_lazily
from copydesk.web.dashboard.readership.chart import (
    MAX_POINTS,
    PLOT_BOTTOM,
    PLOT_TOP,
    build_chart,
    build_hour_chart,
    format_axis_value,
)
from copydesk.web.dashboard.readership.date_ranges import (
    choose_interval,
    format_range,
    list_interval_starts,
    parse_range,
)
from copydesk.web.dashboard.readership.figures import PeriodTotals, build_tiles, format_change
from tests.analytics.stores.conformance.test_store import make_view

FIRST = parse_day("2026-03-01")


def make_point(on: int, human: int, ai: int = 0) -> TimeseriesPoint:
    return TimeseriesPoint(on, Counts(human, ai, human + ai), Counts(human, ai, human + ai))


def make_range(first: str, last: str) -> DayRange:
    return DayRange(parse_day(first), parse_day(last) + 1)


VIEWED_DAYS = make_range("2026-02-27", "2026-03-02")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with a view on each of these days."""
    desk = open_desk_lazily(Settings(data=tmp_path_factory.mktemp("desk")), create=True)
    desk.store.log_views([make_view(day=day) for day in range(VIEWED_DAYS.first, VIEWED_DAYS.end)])
    desk.store.fold()
    yield desk.store
    desk.close()


def test_days_without_views_are_drawn_as_zeros() -> None:
    chart = build_chart("day", DayRange(FIRST, FIRST + 3), [make_point(FIRST + 1, 4, 2)])
    assert [(point.visitors.human, point.visitors.ai) for point in chart.points] == [(0, 0), (4, 2), (0, 0)]
    assert [point.name for point in chart.points][:2] == ["Sunday, 1 March 2026", "Monday, 2 March 2026"]
    assert [point.human_y for point in chart.points] == [PLOT_BOTTOM, PLOT_TOP, PLOT_BOTTOM]


@pytest.mark.parametrize(("highest", "ticks"), [
    (0, ["0", "1"]),
    (1, ["0", "1"]),
    (5, ["0", "1", "2", "3", "4", "5"]),
    (6, ["0", "2", "4", "6"]),
    (74, ["0", "20", "40", "60", "80"]),
    (5_600, ["0", "2,000", "4,000", "6,000"]),
    (43_000, ["0", "10k", "20k", "30k", "40k", "50k"]),
    (1_265_224, ["0", "500k", "1M", "1.5M"]),
])  # fmt: skip
def test_scale_has_round_numbers_and_covers_the_maximum(highest: int, ticks: list[str]) -> None:
    chart = build_chart("day", DayRange(FIRST, FIRST + 1), [make_point(FIRST, highest)])
    assert [tick.text for tick in chart.ticks] == ticks
    assert (chart.ticks[0].place, chart.ticks[-1].place) == (PLOT_BOTTOM, PLOT_TOP)
    assert PLOT_TOP <= chart.points[0].human_y <= PLOT_BOTTOM


def test_points_are_spaced_evenly_and_a_single_one_is_centered() -> None:
    assert [point.x for point in build_chart("day", DayRange(FIRST, FIRST + 1), []).points] == [50]
    assert [point.x for point in build_chart("day", DayRange(FIRST, FIRST + 4), []).points] == [12.5, 37.5, 62.5, 87.5]


def test_a_chart_has_no_more_labels_than_fit() -> None:
    for length in range(1, 93):
        labels = build_chart("day", DayRange(FIRST, FIRST + length), []).labels
        assert 1 <= len(labels) <= 8
        assert len({label.text for label in labels}) == len(labels)


def test_intervals_beyond_the_limit_are_left_out_and_counted() -> None:
    chart = build_chart(
        "month", ALL_DAYS, [make_point(parse_day("2149-06-01"), 3), make_point(parse_day("1970-02-01"), 1_000_000)]
    )
    assert len(chart.points) == MAX_POINTS
    assert chart.left_out == (2149 - 1970) * 12 + 6 - MAX_POINTS
    assert chart.points[-1].visitors.human == 3
    assert chart.ticks[-1].text == "3"


@pytest.mark.parametrize(("interval", "begun"), [
    ("day", ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]),
    ("week", ["2026-02-23", "2026-03-02"]),
    ("month", ["2026-02-01", "2026-03-01"]),
])  # fmt: skip
def test_intervals_begin_on_the_same_days_as_in_the_store(store: Store, interval: Interval, begun: list[str]) -> None:
    starts = [parse_day(each) for each in begun]
    assert [point.day for point in store.load_timeseries("docs", interval, VIEWED_DAYS)] == starts
    assert list_interval_starts(interval, VIEWED_DAYS) == starts


def test_long_ranges_are_drawn_by_week_or_month() -> None:
    assert [choose_interval(DayRange(1, 1 + length)) for length in (1, 92, 93, 732, 733)] == [
        *("day", "day", "week", "week", "month"),
    ]


@pytest.mark.parametrize(("value", "text"), [(9_999, "9,999"), (10_000, "10k"), (2_500_000, "2.5M"), (0, "0")])
def test_large_numbers_on_the_scale_are_short(value: int, text: str) -> None:
    assert format_axis_value(value) == text


@pytest.mark.parametrize(("name", "first", "last"), [
    ("today", "2026-11-15", "2026-11-15"),
    ("yesterday", "2026-11-14", "2026-11-14"),
    ("7d", "2026-11-09", "2026-11-15"),
    ("14d", "2026-11-02", "2026-11-15"),
    ("30d", "2026-10-17", "2026-11-15"),
    ("90d", "2026-08-18", "2026-11-15"),
    ("month", "2026-11-01", "2026-11-15"),
    ("year", "2026-01-01", "2026-11-15"),
])  # fmt: skip
def test_named_range_ends_today_and_compares_with_an_equal_period(name: str, first: str, last: str) -> None:
    found = parse_range(name, today=parse_day("2026-11-15"))
    assert (found.days, found.from_day, found.to_day) == (make_range(first, last), first, last)
    assert found.previous is not None
    assert found.previous.end == found.days.first
    assert found.previous.end - found.previous.first == found.days.end - found.days.first


def test_default_range_is_the_last_30_days_or_the_chosen_days() -> None:
    assert parse_range("").name == "30d"
    picked = parse_range("", "2026-01-01", "2026-01-31")
    assert (picked.name, picked.days) == ("days", make_range("2026-01-01", "2026-01-31"))
    assert picked.previous == make_range("2025-12-01", "2025-12-31")


def test_run_up_of_a_range_are_the_preceding_days() -> None:
    assert parse_range("", "2026-03-14", "2026-03-14").run_up_days == make_range("2026-03-01", "2026-03-14")
    assert parse_range("", "1970-01-02", "1970-01-02").run_up_days == make_range("1970-01-02", "1970-01-02")


@pytest.mark.parametrize(("interval", "first", "last", "unfinished"), [
    ("day", "2026-03-01", "2026-03-18", ["Wednesday, 18 March 2026 (so far)"]),
    ("day", "2026-03-01", "2026-03-17", []),
    ("day", "2026-03-17", "2026-03-25", ["Wednesday, 18 March 2026 (so far)"]),
    ("week", "2026-01-01", "2026-03-18", ["Week of 16 March 2026 (so far)"]),
    ("week", "2026-01-01", "2026-03-15", []),
    ("week", "2026-01-01", "2026-03-10", ["Week of 9 March 2026 (until 10 March)"]),
    ("month", "2024-01-01", "2026-03-18", ["March 2026 (so far)"]),
    ("month", "2024-01-01", "2026-02-28", []),
    ("month", "2024-01-01", "2026-02-27", ["February 2026 (until 27 February)"]),
])  # fmt: skip
def test_interval_that_is_not_over_is_unfinished(
    interval: Interval, first: str, last: str, unfinished: list[str]
) -> None:
    chart = build_chart(interval, make_range(first, last), [], today=parse_day("2026-03-18"))
    assert [point.name for point in chart.points if point.is_unfinished] == unfinished
    assert chart.has_unfinished == bool(unfinished)
    assert all(not point.is_unfinished for point in chart.points[:-1])


def test_unfinished_part_of_a_line_begins_at_the_last_finished_point() -> None:
    span = DayRange(FIRST, FIRST + 4)
    chart = build_chart("day", span, [make_point(FIRST + day, 2) for day in range(3)], today=FIRST + 2)
    assert [place.split(",")[0] for place in chart.line("human", "finished").split()] == ["0.5", "1.5"]
    assert [place.split(",")[0] for place in chart.line("ai", "unfinished").split()] == ["1.5", "2.5"]
    assert [point.x for point in chart.points] == [12.5, 37.5, 62.5], "the axis has room for the days to come"
    only_today = build_chart("day", DayRange(FIRST, FIRST + 1), [make_point(FIRST, 2)], today=FIRST)
    assert (only_today.line("human", "finished"), only_today.line("human", "unfinished")) == ("", f"0.5,{PLOT_TOP}")


def test_hours_are_drawn_until_now() -> None:
    now = FIRST * DAY + 14 * HOUR + 37 * 60_000
    hours = [HourPoint(FIRST * 24 + 14, Counts(3, 1, 4), Counts(3, 1, 4))]
    chart = build_hour_chart(FIRST, hours, now, [now, now - DAY])
    assert (len(chart.points), chart.slots, len(chart.labels)) == (15, 24, 8)
    assert chart.points[-1].name == "Sunday, 1 March 2026, 14:00 to 15:00 UTC (so far)"
    assert [point.is_unfinished for point in chart.points] == [False] * 14 + [True]
    assert [point.change_count for point in chart.points] == [0] * 14 + [1]
    assert len(build_hour_chart(FIRST, hours, now + DAY).points) == 24
    assert not build_hour_chart(FIRST, hours, now + DAY).has_unfinished
    assert build_hour_chart(FIRST + 2, [], now).points == [], "a day in the future has no points"


def test_changes_are_marked_at_their_interval() -> None:
    chart = build_chart(
        "week", make_range("2026-03-02", "2026-03-15"), [], change_days=[FIRST + 1, FIRST + 7, FIRST + 8]
    )
    assert [point.change_count for point in chart.points] == [2, 1]


def test_all_time_has_no_previous_period() -> None:
    assert (parse_range("all").days, parse_range("all").previous) == (ALL_DAYS, None)
    assert parse_range("days", "1970-01-02", "1970-01-03").previous is None


@pytest.mark.parametrize(("name", "first", "last", "said"), [
    ("days", "", "", "first day must be a date"),
    ("days", "2026-02-30", "2026-03-01", "first day must be a date"),
    ("days", "2026-03-01", "tomorrow", "last day must be a date"),
    ("days", "2026-03-01", "2026-03-01T00:00", "last day must be a date"),
    ("days", "2026-03-02", "2026-03-01", "Swap them"),
    ("days", "1960-01-01", "1961-01-01", "from 1970-01-02 to 2149-06-05"),
    ("days", "2149-01-01", "9999-12-31", "from 1970-01-02 to 2149-06-05"),
    ("days", "1980-01-01", "2026-01-01", "at most ten years"),
    ("fortnight", "", "", "Unknown range"),
])  # fmt: skip
def test_invalid_range_is_refused_with_a_message(name: str, first: str, last: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        parse_range(name, first, last)


def test_range_is_formatted_briefly() -> None:
    assert format_range(make_range("2026-03-01", "2026-03-01")) == "1 Mar 2026"
    assert format_range(make_range("2026-01-01", "2026-01-31")) == "1 Jan – 31 Jan 2026"
    assert format_range(make_range("2025-12-31", "2026-03-01")) == "31 Dec 2025 – 1 Mar 2026"


@pytest.mark.parametrize(("now", "before", "said"), [
    (5, None, "no figure"),
    (5, 0, "new"),
    (0, 0, "no change"),
    (5, 5, "no change"),
    (6, 5, "+20.0%"),
    (0, 5, "−100.0%"),
    (100, 1, "+9,900.0%"),
    (100_001, 100_000, "up by less than 0.1%"),
])  # fmt: skip
def test_change_is_a_percentage_of_the_previous_period(now: int, before: int | None, said: str) -> None:
    assert format_change(now, before) == said


def test_change_of_the_ai_share_is_in_percentage_points() -> None:
    found = {
        tile.name: tile for tile in build_tiles(Counts(6, 4, 8), 1_234, None, PeriodTotals(Counts(3, 1, 4), 1_000))
    }
    assert (found["share"].value, found["share"].change, found["share"].before) == ("50.0%", "+25.0 points", "25.0%")
    assert (found["views"].value, found["views"].change) == ("1,234", "+23.4%")
    nothing = {tile.name: tile for tile in build_tiles(Counts(), 0, None, None)}
    assert (nothing["share"].value, nothing["share"].change) == ("–", "no figure")
    fresh = {tile.name: tile for tile in build_tiles(Counts(1, 1, 2), 2, None, PeriodTotals(Counts(), 0))}
    assert (fresh["share"].change, fresh["human"].change) == ("new", "new")
    part = PeriodTotals(Counts(4, 2, 5), 900)
    partly = {
        tile.name: tile for tile in build_tiles(Counts(6, 4, 8), 1_234, part, PeriodTotals(Counts(3, 1, 4), 1_000))
    }
    assert (partly["views"].value, partly["views"].change, partly["views"].before) == (
        "1,234",
        "−10.0%",
        "1,000 to 900",
    )
    assert (partly["share"].value, partly["share"].before) == ("50.0%", "25.0% to 40.0%")
