"""A chart of two series as a drawing that the server makes: where everything lies, for a template to write as SVG.

Across, places are shares of the width, so that the drawing fits any screen and its letters keep their size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from copydesk.analytics.stores.base import Interval, Moment, Range, Split
from copydesk.web.dashboard.readership.date_ranges import as_date, begins

TOP, BOTTOM = 12, 232
"""Pixels from the top at which the highest value and zero lie."""
HEIGHT = 264
MOST_POINTS = 130
LABELS = 8
WEEKS_OF_A_YEAR = 53
MARKED = 32
"""Up to so many points each has its mark; of more, only the one looked at."""
UNITS = ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))


@dataclass(frozen=True)
class Point:
    name: str
    """When, in full."""
    visitors: Split
    views: Split
    x: float
    human_y: float
    ai_y: float


@dataclass(frozen=True)
class Tick:
    text: str
    place: float


@dataclass(frozen=True)
class Label(Tick):
    anchor: str
    is_minor: bool
    """One that a narrow screen has no room for."""


@dataclass(frozen=True)
class Chart:
    interval: Interval
    points: Sequence[Point]
    ticks: Sequence[Tick]
    labels: Sequence[Label]
    left_out: int
    """Intervals that lie before the first one shown."""

    height, top, bottom = HEIGHT, TOP, BOTTOM

    @property
    def is_marked(self) -> bool:
        return len(self.points) <= MARKED

    @property
    def band(self) -> float:
        """The share of the width that a point has for itself."""
        return 100 / len(self.points)

    @property
    def human_line(self) -> str:
        return " ".join(f"{place + 0.5},{point.human_y:g}" for place, point in enumerate(self.points))

    @property
    def ai_line(self) -> str:
        return " ".join(f"{place + 0.5},{point.ai_y:g}" for place, point in enumerate(self.points))


def draw(interval: Interval, span: Range, moments: Sequence[Moment]) -> Chart:
    """Of every interval of the range; where there was nothing, with zeros."""
    known = {moment.day: moment for moment in moments}
    begun = begins(interval, span)
    shown = begun[-MOST_POINTS:]
    top, ticks = _scale(max((max(m.visitors.human, m.visitors.ai) for m in moments if m.day >= shown[0]), default=0))
    points = [_point(interval, place, len(shown), day, known, top) for place, day in enumerate(shown)]
    return Chart(interval, points, ticks, _labels(interval, shown), len(begun) - len(shown))


def _point(interval: Interval, place: int, count: int, day: int, known: Mapping[int, Moment], top: int) -> Point:
    moment = known.get(day, Moment(day, Split(), Split()))
    return Point(
        name=_name(interval, day),
        visitors=moment.visitors,
        views=moment.views,
        x=_share(place, count),
        human_y=_height(moment.visitors.human, top),
        ai_y=_height(moment.visitors.ai, top),
    )


def _share(place: int, count: int) -> float:
    return round((place + 0.5) * 100 / count, 3)


def _height(value: int, top: int) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * value / top, 2)


def _scale(highest: int) -> tuple[int, list[Tick]]:
    """Up to five steps of 1, 2 or 5 and zeros, the last of them at or above the highest value."""
    step = 1
    while step * 5 < highest:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    steps = max(1, -(-highest // step))
    top = step * steps
    return top, [Tick(short(step * number), _height(step * number, top)) for number in range(steps + 1)]


def short(value: int) -> str:
    """For an axis: 1,500, but 20k and 2.5M."""
    for size, unit in UNITS:
        if value >= max(size, 10_000):
            return f"{value / size:g}{unit}"
    return f"{value:,}"


def _labels(interval: Interval, days: Sequence[int]) -> list[Label]:
    apart = -(-len(days) // LABELS)
    in_months = interval == "month" or (interval == "week" and len(days) > WEEKS_OF_A_YEAR)
    found = []
    for number, place in enumerate(range(0, len(days), apart)):
        day, x = as_date(days[place]), _share(place, len(days))
        text = f"{day:%b %Y}" if in_months else f"{day.day} {day:%b}"
        anchor = "start" if x < 5 else "end" if x > 95 else "middle"
        found.append(Label(text, x, anchor, is_minor=number % 2 == 1))
    return found


def _name(interval: Interval, day: int) -> str:
    begun = as_date(day)
    if interval == "month":
        return f"{begun:%B %Y}"
    spoken = f"{begun.day} {begun:%B %Y}"
    return f"Week of {spoken}" if interval == "week" else f"{begun:%A}, {spoken}"
