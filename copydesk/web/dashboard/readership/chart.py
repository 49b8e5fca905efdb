"""Computes the positions in the chart of human and AI visitors; a template writes them as SVG.

Horizontal positions are percentages, so that the chart fits any screen while its text keeps its size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from copydesk.analytics.stores.base import Counts, DayRange, Interval, TimeseriesPoint
from copydesk.web.dashboard.readership.date_ranges import date_from_day, list_interval_starts

PLOT_TOP, PLOT_BOTTOM = 12, 232
"""The vertical positions of the highest value and of zero, in pixels from the top."""
CHART_HEIGHT = 264
MAX_POINTS = 130
MAX_LABELS = 8
WEEKS_PER_YEAR = 53
MAX_MARKED_POINTS = 32
"""With at most this many points, every point has a marker; otherwise only the selected one has."""
UNIT_SUFFIXES = ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))


@dataclass(frozen=True)
class ChartPoint:
    name: str
    """The interval, with its full date."""
    visitors: Counts
    views: Counts
    x: float
    human_y: float
    ai_y: float


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
    interval: Interval
    points: Sequence[ChartPoint]
    ticks: Sequence[AxisTick]
    labels: Sequence[AxisLabel]
    left_out: int
    """The number of intervals before the first one that is shown."""

    height, top, bottom = CHART_HEIGHT, PLOT_TOP, PLOT_BOTTOM

    @property
    def is_marked(self) -> bool:
        return len(self.points) <= MAX_MARKED_POINTS

    @property
    def band(self) -> float:
        """The percentage of the width that belongs to each point."""
        return 100 / len(self.points)

    @property
    def human_line(self) -> str:
        return " ".join(f"{place + 0.5},{point.human_y:g}" for place, point in enumerate(self.points))

    @property
    def ai_line(self) -> str:
        return " ".join(f"{place + 0.5},{point.ai_y:g}" for place, point in enumerate(self.points))


def build_chart(interval: Interval, span: DayRange, series: Sequence[TimeseriesPoint]) -> Chart:
    """Builds a chart with a point for every interval of the range. Intervals without views have zeros."""
    points_by_day = {moment.day: moment for moment in series}
    interval_starts = list_interval_starts(interval, span)
    visible_starts = interval_starts[-MAX_POINTS:]
    axis_max, ticks = _build_scale(
        max((max(m.visitors.human, m.visitors.ai) for m in series if m.day >= visible_starts[0]), default=0)
    )
    points = [
        _build_point(interval, index, len(visible_starts), day, points_by_day, axis_max)
        for index, day in enumerate(visible_starts)
    ]
    return Chart(
        interval, points, ticks, _build_labels(interval, visible_starts), len(interval_starts) - len(visible_starts)
    )


def _build_point(
    interval: Interval, index: int, count: int, day: int, points_by_day: Mapping[int, TimeseriesPoint], axis_max: int
) -> ChartPoint:
    counts = points_by_day.get(day, TimeseriesPoint(day, Counts(), Counts()))
    return ChartPoint(
        name=_format_interval(interval, day),
        visitors=counts.visitors,
        views=counts.views,
        x=_x_position(index, count),
        human_y=_y_position(counts.visitors.human, axis_max),
        ai_y=_y_position(counts.visitors.ai, axis_max),
    )


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
        x = _x_position(index, len(days))
        text = f"{day:%b %Y}" if in_months else f"{day.day} {day:%b}"
        anchor = "start" if x < 5 else "end" if x > 95 else "middle"
        labels.append(AxisLabel(text, x, anchor, is_minor=number % 2 == 1))
    return labels


def _format_interval(interval: Interval, day: int) -> str:
    first_day = date_from_day(day)
    if interval == "month":
        return f"{first_day:%B %Y}"
    formatted_day = f"{first_day.day} {first_day:%B %Y}"
    return f"Week of {formatted_day}" if interval == "week" else f"{first_day:%A}, {formatted_day}"
