"""Metrics of this process for Prometheus: counters, histograms, gauges, and their text format."""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MINUTES_BUCKETS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0)

Labels = tuple[str, ...]
Sample = tuple[Mapping[str, str], float]


class Counter:
    """A number that only increases. It has a lock, because threads add to it at the same time."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:  # noqa: A002
        self.name = name
        self.help = help
        self.labels = labels
        self._values: dict[Labels, float] = {} if labels else {(): 0}
        self._lock = threading.Lock()

    def add(self, *labels: str, by: float = 1) -> None:
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + by

    def value(self, *labels: str) -> float:
        return self._values.get(labels, 0)

    def render_lines(self) -> Iterator[str]:
        with self._lock:
            values = sorted(self._values.items())
        return (_format_sample(self.name, zip(self.labels, labels, strict=True), value) for labels, value in values)


class Histogram:
    """A distribution of values. Counts each bucket separately, and adds the buckets up when it is rendered."""

    kind = "histogram"

    def __init__(self, name: str, help: str, bounds: Sequence[float], labels: Labels = ()) -> None:  # noqa: A002
        self.name = name
        self.help = help
        self.labels = labels
        self.bounds = bounds
        self._values: dict[Labels, list[float]] = {}
        self._lock = threading.Lock()

    def observe(self, value: float, *labels: str) -> None:
        bucket = bisect_left(self.bounds, value)
        with self._lock:
            counts = self._values.get(labels)
            if counts is None:
                counts = self._values[labels] = [0] * (len(self.bounds) + 2)
            counts[bucket] += 1
            counts[-1] += value

    def count(self, *labels: str) -> float:
        return sum(self._values.get(labels, [0])[:-1])

    def render_lines(self) -> Iterator[str]:
        with self._lock:
            values = sorted((labels, list(counts)) for labels, counts in self._values.items())
        for labels, counts in values:
            label_pairs = list(zip(self.labels, labels, strict=True))
            cumulative = 0.0
            for bound, count in zip((*map(str, self.bounds), "+Inf"), counts, strict=False):
                cumulative += count
                yield _format_sample(f"{self.name}_bucket", [*label_pairs, ("le", bound)], cumulative)
            yield _format_sample(f"{self.name}_sum", label_pairs, counts[-1])
            yield _format_sample(f"{self.name}_count", label_pairs, cumulative)


class Gauge:
    """A current value. A new one is created each time the metrics are read."""

    kind = "gauge"

    def __init__(self, name: str, help: str, samples: Iterable[Sample] | float) -> None:  # noqa: A002
        self.name = name
        self.help = help
        self.samples = [({}, samples)] if isinstance(samples, (int, float)) else list(samples)

    def render_lines(self) -> Iterator[str]:
        return (_format_sample(self.name, labels.items(), value) for labels, value in self.samples)


def render_metrics(metrics: Iterable[Counter | Histogram | Gauge]) -> str:
    """Renders the metrics in the text format of Prometheus, in the given order."""
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}", *metric.render_lines()]
    return "\n".join(lines) + "\n"


def _format_sample(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    label_text = ",".join(f'{label}="{_escape_label(content)}"' for label, content in labels)
    return f"{name}{{{label_text}}} {value:.15g}" if label_text else f"{name} {value:.15g}"


def _escape_label(content: str) -> str:
    return content.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
