"""How the chart is drawn, and the ranges that people speak of."""

import pytest

from copydesk.analytics.date_ranges import day
from copydesk.analytics.stores.base import ALWAYS, Interval, Moment, Range, Split
from copydesk.core.errors import InvalidRequest
from copydesk.web.dashboard.readership.chart import BOTTOM, MOST_POINTS, TOP, draw, short
from copydesk.web.dashboard.readership.date_ranges import begins, chosen, interval_for, spoken
from copydesk.web.dashboard.readership.figures import change, tiles

FIRST = day("2026-03-01")


def moment(on: int, human: int, ai: int = 0) -> Moment:
    return Moment(on, Split(human, ai, human + ai), Split(human, ai, human + ai))


def span(first: str, last: str) -> Range:
    return Range(day(first), day(last) + 1)


def test_days_in_which_there_was_nothing_are_drawn_as_zeros() -> None:
    chart = draw("day", Range(FIRST, FIRST + 3), [moment(FIRST + 1, 4, 2)])
    assert [(point.visitors.human, point.visitors.ai) for point in chart.points] == [(0, 0), (4, 2), (0, 0)]
    assert [point.name for point in chart.points][:2] == ["Sunday, 1 March 2026", "Monday, 2 March 2026"]
    assert [point.human_y for point in chart.points] == [BOTTOM, TOP, BOTTOM]


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
def test_the_scale_has_round_numbers_and_reaches_the_highest_value(highest: int, ticks: list[str]) -> None:
    chart = draw("day", Range(FIRST, FIRST + 1), [moment(FIRST, highest)])
    assert [tick.text for tick in chart.ticks] == ticks
    assert (chart.ticks[0].place, chart.ticks[-1].place) == (BOTTOM, TOP)
    assert TOP <= chart.points[0].human_y <= BOTTOM


def test_the_points_share_the_width_evenly_and_one_alone_lies_in_the_middle() -> None:
    assert [point.x for point in draw("day", Range(FIRST, FIRST + 1), []).points] == [50]
    assert [point.x for point in draw("day", Range(FIRST, FIRST + 4), []).points] == [12.5, 37.5, 62.5, 87.5]


def test_a_chart_has_no_more_labels_than_fit() -> None:
    for length in range(1, 93):
        labels = draw("day", Range(FIRST, FIRST + length), []).labels
        assert 1 <= len(labels) <= 8
        assert len({label.text for label in labels}) == len(labels)


def test_more_intervals_than_can_be_told_apart_are_cut_and_that_is_said() -> None:
    chart = draw("month", ALWAYS, [moment(day("2149-06-01"), 3), moment(day("1970-02-01"), 1_000_000)])
    assert len(chart.points) == MOST_POINTS
    assert chart.left_out == (2149 - 1970) * 12 + 6 - MOST_POINTS
    assert chart.points[-1].visitors.human == 3
    assert chart.ticks[-1].text == "3"


@pytest.mark.parametrize(("interval", "begun"), [
    ("day", ["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]),
    ("week", ["2026-02-23", "2026-03-02"]),
    ("month", ["2026-02-01", "2026-03-01"]),
])  # fmt: skip
def test_intervals_begin_as_the_stores_do(interval: Interval, begun: list[str]) -> None:
    assert begins(interval, span("2026-02-27", "2026-03-02")) == [day(each) for each in begun]


def test_long_ranges_are_drawn_by_week_or_month() -> None:
    assert [interval_for(Range(1, 1 + length)) for length in (1, 92, 93, 732, 733)] == [
        *("day", "day", "week", "week", "month"),
    ]


@pytest.mark.parametrize(("value", "text"), [(9_999, "9,999"), (10_000, "10k"), (2_500_000, "2.5M"), (0, "0")])
def test_large_numbers_on_the_scale_are_short(value: int, text: str) -> None:
    assert short(value) == text


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
def test_a_named_range_ends_today_and_the_period_before_is_as_long(name: str, first: str, last: str) -> None:
    found = chosen(name, today=day("2026-11-15"))
    assert (found.days, found.from_day, found.to_day) == (span(first, last), first, last)
    assert found.before is not None
    assert found.before.end == found.days.first
    assert found.before.end - found.before.first == found.days.end - found.days.first


def test_without_a_name_the_range_is_the_last_30_days_or_the_days_picked() -> None:
    assert chosen("").name == "30d"
    picked = chosen("", "2026-01-01", "2026-01-31")
    assert (picked.name, picked.days) == ("days", span("2026-01-01", "2026-01-31"))
    assert picked.before == span("2025-12-01", "2025-12-31")


def test_a_single_day_is_drawn_with_the_days_that_led_up_to_it() -> None:
    assert chosen("", "2026-03-14", "2026-03-14").drawn == span("2026-03-01", "2026-03-14")
    assert chosen("", "1970-01-02", "1970-01-02").drawn == span("1970-01-02", "1970-01-02")
    assert chosen("", "2026-03-13", "2026-03-14").drawn == span("2026-03-13", "2026-03-14")


def test_all_time_and_the_first_days_there_are_have_no_period_before() -> None:
    assert (chosen("all").days, chosen("all").before) == (ALWAYS, None)
    assert chosen("days", "1970-01-02", "1970-01-03").before is None


@pytest.mark.parametrize(("name", "first", "last", "said"), [
    ("days", "", "", "first day must be a date"),
    ("days", "2026-02-30", "2026-03-01", "first day must be a date"),
    ("days", "2026-03-01", "tomorrow", "last day must be a date"),
    ("days", "2026-03-01", "2026-03-01T00:00", "last day must be a date"),
    ("days", "2026-03-02", "2026-03-01", "swap them"),
    ("days", "1960-01-01", "1961-01-01", "from 1970-01-02 to 2149-06-05"),
    ("days", "2149-01-01", "9999-12-31", "from 1970-01-02 to 2149-06-05"),
    ("days", "1980-01-01", "2026-01-01", "at most ten years"),
    ("fortnight", "", "", "no range of this name"),
])  # fmt: skip
def test_what_is_no_range_is_refused_in_a_sentence(name: str, first: str, last: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        chosen(name, first, last)


def test_a_range_is_spoken_of_as_short_as_is_clear() -> None:
    assert spoken(span("2026-03-01", "2026-03-01")) == "1 Mar 2026"
    assert spoken(span("2026-01-01", "2026-01-31")) == "1 Jan – 31 Jan 2026"
    assert spoken(span("2025-12-31", "2026-03-01")) == "31 Dec 2025 – 1 Mar 2026"


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
def test_a_change_is_a_share_of_the_period_before_where_that_has_one(now: int, before: int | None, said: str) -> None:
    assert change(now, before) == said


def test_the_share_of_ai_changes_by_points() -> None:
    found = {tile.name: tile for tile in tiles(Split(6, 4, 8), 1_234, (Split(3, 1, 4), 1_000))}
    assert (found["share"].value, found["share"].change, found["share"].before) == ("50.0%", "+25.0 points", "25.0%")
    assert (found["views"].value, found["views"].change) == ("1,234", "+23.4%")
    nothing = {tile.name: tile for tile in tiles(Split(), 0, None)}
    assert (nothing["share"].value, nothing["share"].change) == ("–", "no figure")
    fresh = {tile.name: tile for tile in tiles(Split(1, 1, 2), 2, (Split(), 0))}
    assert (fresh["share"].change, fresh["human"].change) == ("new", "new")
