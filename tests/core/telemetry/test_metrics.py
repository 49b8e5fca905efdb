"""Metrics are correct, and Prometheus can parse them."""

import threading
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from copydesk.core.telemetry import instruments
from copydesk.core.telemetry.metrics import SECONDS_BUCKETS, Counter, Gauge, Histogram, render_metrics
from copydesk.core.telemetry.process_metrics import collect_process_metrics

DOCS = Path(__file__).parents[3] / "docs" / "observability.md"


def parse_samples(told: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families(told)
        for sample in family.samples
    }


def test_counts_of_several_threads_add_up() -> None:
    counter, histogram = Counter("a_total", "A.", ("kind",)), Histogram("b", "B.", SECONDS_BUCKETS)

    def count() -> None:
        for _ in range(2_000):
            counter.add("x")
            histogram.observe(0.01)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counter.value("x"), histogram.count()) == (8_000, 8_000)


def test_histogram_buckets_are_cumulative_and_inclusive() -> None:
    histogram = Histogram("b_seconds", "B.", (0.1, 1.0), ("kind",))
    for value in (0.05, 0.1, 0.5, 7):
        histogram.observe(value, "x")
    found = parse_samples(render_metrics([histogram]))
    below = {labels[1][1]: value for (name, labels), value in found.items() if name == "b_seconds_bucket"}
    assert below == {"0.1": 2, "1.0": 3, "+Inf": 4}
    assert found["b_seconds_count", (("kind", "x"),)] == 4
    assert found["b_seconds_sum", (("kind", "x"),)] == pytest.approx(7.65)


@pytest.mark.parametrize("content", ['a"b', "a\\b", "a\nb 1\nforged 2", 'a"} 1\nforged{x="'])
def test_label_values_are_escaped(content: str) -> None:
    assert parse_samples(render_metrics([Gauge("a", "A.", [({"x": content}, 1)])])) == {("a", (("x", content),)): 1}


def test_large_and_small_numbers_are_rendered_exactly() -> None:
    counter = Counter("a_total", "A.")
    counter.add(by=123_456_789_012)
    assert parse_samples(render_metrics([counter, Gauge("b", "B.", 0.000123)])) == {
        ("a_total", ()): 123_456_789_012,
        ("b", ()): 0.000123,
    }


def test_process_metrics_are_exposed() -> None:
    found = parse_samples(render_metrics(collect_process_metrics()))
    assert found["process_resident_memory_bytes", ()] > 10_000_000
    assert found["process_cpu_seconds_total", ()] > 0
    assert 0 < found["process_open_fds", ()] < found["process_max_fds", ()]


def test_every_metric_is_documented() -> None:
    documented = DOCS.read_text("utf-8")
    assert [
        figure.name
        for figure in (*instruments.ALL_INSTRUMENTS, *collect_process_metrics())
        if f"`{figure.name}" not in documented
    ] == []
