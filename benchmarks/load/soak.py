"""Checks that resource use stays level: compares the second half with the first by median and by floor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks.load.samples import Sample
from benchmarks.load.stores import CLICKHOUSE, POSTGRESQL

BURST_RATES = {"poll": 20.0, "create": 0.5, "event": 40.0, "beacon": 40.0, "batch": 1.0, "export": 30.0}
"""The warm-up load of the embedded stores: DuckDB forgets unused buffers only after some hundred thousand of them,
which takes ten thousand exports, or hours of a calm load."""
BURST_MINUTES = 6.0
WARM_UP_SHARE = 0.25
"""The first quarter: caches fill, pools open their connections."""
MAX_GROWTH_SHARE = 0.05
LONG_RUN_MINUTES = 20.0
"""Minutes; growth per hour is meaningless for shorter runs."""


@dataclass(frozen=True)
class TrackedMeasure:
    name: str
    unit: str
    of: Callable[[Sample], float]
    spare: float
    """Growth below this never counts."""
    hourly: float
    """The rise of its floor that is allowed per hour."""
    is_ours: bool = True
    """False for databases, which are shown and not judged: they warm up for longer, and limit themselves."""


@dataclass(frozen=True)
class Trend:
    measure: TrackedMeasure
    first: float
    """Medians of both halves after the warm-up."""
    second: float
    most: float
    rise: float
    """Hourly rise of the floor (the level that nine of ten samples exceed) from one half to the other.

    A log that fills and is written back moves the median, but not the floor.
    """
    minutes: float

    @property
    def is_flat(self) -> bool:
        grown = self.second - self.first
        is_level = grown <= self.measure.spare or grown <= MAX_GROWTH_SHARE * self.first
        return not self.measure.is_ours or (
            is_level and (self.minutes < LONG_RUN_MINUTES or self.rise <= self.measure.hourly)
        )


def sampling_interval(minutes: float) -> float:
    """Returns the seconds between samples: at least a hundred samples, and at most one every ten seconds."""
    return min(10.0, minutes * 60 / 100)


def compute_trends(samples: Sequence[Sample]) -> list[Trend]:
    return [compute_trend(measure, samples) for measure in list_measures(samples[0])]


def compute_trend(measure: TrackedMeasure, samples: Sequence[Sample]) -> Trend:
    steady = samples[int(len(samples) * WARM_UP_SHARE) :]
    values = [measure.of(each) for each in steady]
    middle = len(values) // 2
    apart = (steady[-1].at - steady[0].at) / 3600 / 2
    return Trend(
        measure=measure,
        first=median(values[:middle]),
        second=median(values[middle:]),
        most=max(values),
        rise=(_lowest_level(values[middle:]) - _lowest_level(values[:middle])) / apart,
        minutes=(samples[-1].at - samples[0].at) / 60,
    )


def _lowest_level(values: Sequence[float]) -> float:
    return quantiles(values, n=10)[0]


def list_measures(sample: Sample) -> list[TrackedMeasure]:
    tracked = []
    for name in sample.processes:
        tracked += _process_measures(name, is_ours=name not in (POSTGRESQL, CLICKHOUSE))
    tracked.append(TrackedMeasure("write-ahead logs", "MB", lambda each: each.log, 64, 64))
    if POSTGRESQL in sample.processes:
        tracked.append(TrackedMeasure("connections to PostgreSQL", "", lambda each: each.connections, 4, 10))
    return tracked


def _process_measures(name: str, *, is_ours: bool) -> list[TrackedMeasure]:
    """Returns the measures of a process. Files are mostly connections of clients, which come and go."""
    return [
        TrackedMeasure(f"{name}: memory, resident", "MB", lambda each: each.processes[name].resident, 4, 30, is_ours),
        TrackedMeasure(f"{name}: memory of its own", "MB", lambda each: each.processes[name].own, 4, 30, is_ours),
        TrackedMeasure(f"{name}: open files", "", lambda each: each.processes[name].files, 10, 20, is_ours),
        TrackedMeasure(f"{name}: threads", "", lambda each: each.processes[name].threads, 4, 10, is_ours),
    ]


def render_trends(trends: Sequence[Trend], minutes: float) -> str:
    lines = [
        f"### What was held over {minutes:g} minutes\n",
        "| | median, first half | second half | most | floor's rise per hour | flat |\n|---|---:|---:|---:|---:|---|",
    ]
    for each in trends:
        unit = each.measure.unit and f" {each.measure.unit}"
        lines.append(
            f"| {each.measure.name} | {each.first:.1f}{unit} | {each.second:.1f}{unit} | {each.most:.1f}{unit} "
            f"| {each.rise:+.1f}{unit} | {_describe_trend(each)} |"
        )
    return "\n".join(lines) + "\n"


def _describe_trend(trend: Trend) -> str:
    if not trend.measure.is_ours:
        return "–"
    return "yes" if trend.is_flat else "**no**"
