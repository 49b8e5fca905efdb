"""python -m benchmarks.analytics.importing [--megabytes N]: measures the import of access logs."""

import argparse
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from msgspec import convert

from benchmarks.analytics.logs import ASSETS_PER_PAGE, write_log
from copydesk.analytics.classification.agent_table import load_agent_table
from copydesk.analytics.classification.classifier import Classifier
from copydesk.analytics.classification.crawler_list import load_crawler_list
from copydesk.analytics.classification.ip_ranges import IpRanges, load_shipped_lists
from copydesk.analytics.ingest.event_schema import Event
from copydesk.analytics.ingest.pipeline import run_pipeline
from copydesk.analytics.ingest.raw_view import RawView, SiteConfig, raw_view_from_event
from copydesk.analytics.ingest.visitor_ids import VisitorHasher
from copydesk.analytics.log_import.batches import read_batches
from copydesk.analytics.log_import.line_converter import ImportRequest
from copydesk.analytics.log_import.loader import ImportTotals, store_trusted_batches
from copydesk.analytics.log_import.reader_process import read_in_subprocess
from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.core.clock import now
from copydesk.core.runtime import memory

T = TypeVar("T")
MIN_LINES_PER_SECOND = 60_000
SMALL_LOG_BYTES = 50_000_000
COMBINED_LINE_PATTERN = re.compile(
    r'(?P<ip>\S+) \S+ \S+ \[(?P<timestamp>[^\]]+)\] "(?P<method>\S+) (?P<path>\S+) [^"]*" (?P<status>\d+) \S+ '
    r'"(?P<referrer>[^"]*)" "(?P<userAgent>[^"]*)"'
)


@dataclass(frozen=True)
class ImportMeasurement:
    lines: int
    views: int
    wall: float
    storing: float
    reading: float
    """CPU seconds of the process that stores, and of the one that reads."""
    memory: float
    """Peak resident megabytes of both processes together."""


def measure_import(log: Path, store: Path) -> ImportMeasurement:
    memory.tune_garbage_collector()
    opened, tally, began, cpu = DuckStore(store), ImportTotals(), time.perf_counter(), time.process_time()
    batches = read_in_subprocess(ImportRequest([str(log)], _make_site(), now()))
    store_trusted_batches(batches, opened, tally, lambda: None)
    wall, storing = time.perf_counter() - began, time.process_time() - cpu
    opened.close()
    child, own = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
    resident = (child.ru_maxrss + own.ru_maxrss) / 1e3
    return ImportMeasurement(tally.lines, tally.views, wall, storing, child.ru_utime + child.ru_stime, resident)


def measure_plain_parser(log: Path) -> tuple[int, float]:
    """Returns the views and CPU seconds of a simple parser: one pattern, one dict and one event per line."""
    site, at, began = _make_site(), now(), time.process_time()
    views = sum(isinstance(outcome, PageView) for outcome in _parse_plainly(log, site, at))
    return views, time.process_time() - began


def measure_our_parser(log: Path) -> tuple[int, float]:
    began = time.process_time()
    views = sum(len(batch.views) for batch in read_batches(ImportRequest([str(log)], _make_site(), now())))
    return views, time.process_time() - began


def _parse_plainly(log: Path, site: SiteConfig, at: int) -> Iterator[object]:
    with log.open(encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            if match := COMBINED_LINE_PATTERN.match(line):
                event: dict[str, Any] = match.groupdict()
                event["timestamp"] = datetime.strptime(match["timestamp"], "%d/%b/%Y:%H:%M:%S %z").timestamp()
                event["status"] = int(match["status"])
                event["eventId"] = str(hash(line))
                raw = raw_view_from_event(convert(event, Event), site, at)
                yield run_pipeline(raw) if isinstance(raw, RawView) else raw


def _make_site() -> SiteConfig:
    return SiteConfig(
        "prj_1",
        Classifier(load_agent_table(), IpRanges(load_shipped_lists()), load_crawler_list()),
        VisitorHasher("prj_1", b"benchmark"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what importing access logs costs.")
    parser.add_argument("--megabytes", type=int, default=250, help="the size of the large log")
    size = parser.parse_args().megabytes * 1_000_000
    print(f"Ten million additions in a Python loop took {_measure_loop_seconds():.2f} s before, ", end="")
    with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as name:
        rows = list(_build_rows(Path(name), size))
    print(f"{_measure_loop_seconds():.2f} s after.\n\n| figure | aim | measured | met |\n|---|---:|---:|---|")
    for label, aim, measured, is_met in rows:
        print(f"| {label} | {aim} | {measured} | {'yes' if is_met else '**no**'} |")


def _build_rows(folder: Path, size: int) -> Iterator[tuple[str, str, str, bool]]:
    log, store, before = folder / "access.log", folder / "views.duckdb", 0.0
    for label, bytes_, assets in (
        ("pages and assets", SMALL_LOG_BYTES, ASSETS_PER_PAGE),
        ("pages alone", 4 * SMALL_LOG_BYTES, 0),
        (f"pages and assets, {size / 5e9:.2g} GB", size // 5, ASSETS_PER_PAGE),
        (f"pages and assets, {size / 1e9:.2g} GB", size, ASSETS_PER_PAGE),
    ):
        _print_progress(label)
        write_log(log, bytes_, assets=assets)
        measurement = _run_in_process(measure_import, log, store)
        share = f"{measurement.lines / 1e6:.1f} million lines, {measurement.views / measurement.lines:.0%} views"
        rate, bound = (
            measurement.lines / measurement.wall,
            measurement.lines / max(measurement.storing, measurement.reading),
        )
        cpu = f"CPU {measurement.storing:.1f} s to store and {measurement.reading:.1f} s to read, at best {bound:,.0f}"
        yield (
            f"{label}: lines per second, {share}",
            f"≥ {MIN_LINES_PER_SECOND:,}",
            f"{rate:,.0f}; {cpu}",
            rate >= MIN_LINES_PER_SECOND,
        )
        if bytes_ == SMALL_LOG_BYTES and assets:
            (views, quick), (same, slow) = (
                _run_in_process(measure_our_parser, log),
                _run_in_process(measure_plain_parser, log),
            )
            assert views == same
            yield "reading and judging beside the plain way, CPU", "", f"{slow / quick:.1f} × less", True
        if bytes_ == size:
            flat = measurement.memory < 1.2 * before
            memory_text = f"{measurement.memory:.0f} MB; with a fifth of it {before:.0f} MB"
            yield "memory of both processes", "flat", memory_text, flat
        before = measurement.memory
        store.unlink()


def _measure_loop_seconds() -> float:
    began, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - began


def _run_in_process(act: Callable[..., T], *arguments: object) -> T:
    """Runs a function in a separate, non-daemon process, which may start processes too."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(act, *arguments).result()


def _print_progress(message: str) -> None:
    print(f"… {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
