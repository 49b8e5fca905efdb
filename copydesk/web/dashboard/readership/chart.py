"""Computes the positions in the chart of human and AI visitors; a template writes them as SVG.

Horizontal positions are percentages, so that the chart fits any screen while its text keeps its size.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from copydesk.analytics.stores.base import DayRange, Interval
from copydesk.analytics.stores.report_rows import Counts, HourPoint, TimeseriesPoint
from copydesk.core import clock
from copydesk.web.dashboard.readership.date_ranges import (
    date_from_day,
    interval_start,
    list_interval_starts,
    next_interval_start,
)

PLOT_TOP, PLOT_BOTTOM = 12, 232
"""The vertical positions of the highest value and of zero, in pixels from the top."""
CHART_HEIGHT = 264
MAX_POINTS = 130
MAX_LABELS = 8
WEEKS_PER_YEAR, HOURS_PER_DAY = 53, 24
MAX_MARKED_POINTS = 32
"""With at most this many points, every point has a marker; otherwise only the selected one has."""
UNIT_SUFFIXES = ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))


ChartInterval = Literal["hour", "day", "week", "month"]


@dataclass(frozen=True)
class ChartValue:
    """An interval that has begun, with its counts."""

    name: str
    """The interval, with its full date."""
    visitors: Counts
    views: Counts
    is_unfinished: bool
    """Whether the counts cover only a part of the interval: it is not over yet, or the range ends within it."""


@dataclass(frozen=True)
class ChartPoint(ChartValue):
    x: float
    human_y: float
    ai_y: float
    change_count: int = 0
    """How many changes to the documentation there were in the interval."""


@dataclass(frozen=True)
class AxisTick:
    text: str
    place: float


@dataclass(frozen=True)
class AxisLabel(AxisTick):
    anchor: str
    is_minor: bool
    """Whether narrow screens hide the label."""


@dataclass(frozen=True)
class Chart:
    interval: ChartInterval
    points: Sequence[ChartPoint]
    slots: int
    """The number of intervals in the range. Those that have not begun have no point."""
    ticks: Sequence[AxisTick]
    labels: Sequence[AxisLabel]
    left_out: int
    """The number of intervals before the first one that is shown."""

    height, top, bottom = CHART_HEIGHT, PLOT_TOP, PLOT_BOTTOM

    @property
    def is_marked(self) -> bool:
        return self.slots <= MAX_MARKED_POINTS

    @property
    def band(self) -> float:
        """The percentage of the width that belongs to each point."""
        return 100 / self.slots

    @property
    def has_unfinished(self) -> bool:
        return any(point.is_unfinished for point in self.points)

    def line(self, kind: Literal["human", "ai"], part: Literal["all", "finished", "unfinished"] = "all") -> str:
        """Returns the coordinates of a line. Its unfinished part begins at the last finished point."""
        finished = sum(not point.is_unfinished for point in self.points)
        first, end = {
            "all": (0, len(self.points)),
            "finished": (0, finished),
            "unfinished": (max(0, finished - 1), len(self.points)),
        }[part]
        ys = [point.human_y if kind == "human" else point.ai_y for point in self.points]
        return " ".join(f"{place + 0.5},{ys[place]:g}" for place in range(first, end))


def build_chart(
    interval: Interval,
    span: DayRange,
    series: Sequence[TimeseriesPoint],
    today: int | None = None,
    change_days: Iterable[int] = (),
) -> Chart:
    """Builds a chart with a point for every interval of the range that has begun. Those without views have zeros.

    `change_days` are the days of changes to the documentation."""
    today = clock.today() if today is None else today
    points_by_day = {moment.day: moment for moment in series}
    interval_starts = list_interval_starts(interval, span)
    visible_starts = interval_starts[-MAX_POINTS:]
    last_day = max(today, max(points_by_day, default=today))  # clocks that are ahead send views of tomorrow
    values = []
    for day in visible_starts:
        if day > last_day:
            break
        counts = points_by_day.get(day, TimeseriesPoint(day, Counts(), Counts()))
        end = next_interval_start(interval, day)
        name = _format_interval(interval, day)
        if end > today:
            name = f"{name} (so far)"
        elif end > span.end:
            last_counted = date_from_day(span.end - 1)
            name = f"{name} (until {last_counted.day} {last_counted:%B})"
        values.append(ChartValue(name, counts.visitors, counts.views, end > min(today, span.end)))
    changes = Counter(interval_start(interval, day) for day in change_days)
    return _lay_out(
        interval,
        values,
        [changes[day] for day in visible_starts],
        _build_labels(interval, visible_starts),
        len(interval_starts) - len(visible_starts),
    )


def build_hour_chart(day: int, hours: Sequence[HourPoint], now: int, change_times: Iterable[int] = ()) -> Chart:
    """Builds a chart of a day with a point for every hour that has begun. `change_times` are in milliseconds."""
    points_by_hour = {point.hour: point for point in hours}
    first_hour = day * HOURS_PER_DAY
    all_hours = range(first_hour, first_hour + HOURS_PER_DAY)
    values = []
    for hour in all_hours:
        if hour * clock.HOUR > now:
            break
        counts = points_by_hour.get(hour, HourPoint(hour, Counts(), Counts()))
        is_unfinished = (hour + 1) * clock.HOUR > now
        hour_of_day = hour - first_hour
        name = f"{_format_interval('day', day)}, {hour_of_day:02}:00 to {hour_of_day + 1:02}:00 UTC"
        name = f"{name} (so far)" if is_unfinished else name
        values.append(ChartValue(name, counts.visitors, counts.views, is_unfinished))
    changes = Counter(at // clock.HOUR for at in change_times)
    labels = [
        _build_label(f"{hour:02}:00", hour, HOURS_PER_DAY, number)
        for number, hour in enumerate(range(0, HOURS_PER_DAY, HOURS_PER_DAY // MAX_LABELS))
    ]
    return _lay_out("hour", values, [changes[hour] for hour in all_hours], labels, 0)


def _lay_out(
    interval: ChartInterval,
    values: Sequence[ChartValue],
    change_counts: Sequence[int],
    labels: Sequence[AxisLabel],
    left_out: int,
) -> Chart:
    """Computes the positions. There is a number of changes for every interval, also for those without a value."""
    slots = len(change_counts)
    axis_max, ticks = _build_scale(max((max(v.visitors.human, v.visitors.ai) for v in values), default=0))
    points = [
        ChartPoint(
            **vars(value),
            x=_x_position(index, slots),
            human_y=_y_position(value.visitors.human, axis_max),
            ai_y=_y_position(value.visitors.ai, axis_max),
            change_count=change_counts[index],
        )
        for index, value in enumerate(values)
    ]
    return Chart(interval, points, slots, ticks, labels, left_out)


def _x_position(index: int, count: int) -> float:
    return round((index + 0.5) * 100 / count, 3)


def _y_position(value: int, axis_max: int) -> float:
    return round(PLOT_BOTTOM - (PLOT_BOTTOM - PLOT_TOP) * value / axis_max, 2)


def _build_scale(highest: int) -> tuple[int, list[AxisTick]]:
    """Returns the highest value of the axis and its ticks.

    There are at most five steps, each 1, 2 or 5 times a power of ten. The last tick is at least the highest value."""
    step = 1
    while step * 5 < highest:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    steps = max(1, -(-highest // step))
    axis_max = step * steps
    return axis_max, [
        AxisTick(format_axis_value(step * number), _y_position(step * number, axis_max)) for number in range(steps + 1)
    ]


def format_axis_value(value: int) -> str:
    """Formats a value for the axis, such as 1,500, 20k or 2.5M."""
    for size, unit in UNIT_SUFFIXES:
        if value >= max(size, 10_000):
            return f"{value / size:g}{unit}"
    return f"{value:,}"


def _build_labels(interval: Interval, days: Sequence[int]) -> list[AxisLabel]:
    spacing = -(-len(days) // MAX_LABELS)
    in_months = interval == "month" or (interval == "week" and len(days) > WEEKS_PER_YEAR)
    labels = []
    for number, index in enumerate(range(0, len(days), spacing)):
        day = date_from_day(days[index])
        text = f"{day:%b %Y}" if in_months else f"{day.day} {day:%b}"
        labels.append(_build_label(text, index, len(days), number))
    return labels


def _build_label(text: str, index: int, slots: int, number: int) -> AxisLabel:
    x = _x_position(index, slots)
    anchor = "start" if x < 5 else "end" if x > 95 else "middle"
    return AxisLabel(text, x, anchor, is_minor=number % 2 == 1)


def _format_interval(interval: Interval, day: int) -> str:
    first_day = date_from_day(day)
    if interval == "month":
        return f"{first_day:%B %Y}"
    formatted_day = f"{first_day.day} {first_day:%B %Y}"
    return f"Week of {formatted_day}" if interval == "week" else f"{first_day:%A}, {formatted_day}"
