"""python -m benchmarks.analytics.scale FOLDER: measures how every cost grows from 1 to 100 million views."""

import argparse
import http.client
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

from benchmarks.analytics.collecting import measure_loop_seconds, serve_collector
from benchmarks.analytics.exporting import ExportMeasurement, measure_repeated
from benchmarks.analytics.generator import GeneratorOrder, build_requests
from benchmarks.analytics.measure import (
    NO_LARGE_PROJECTS,
    index_sections,
    log_late_views,
    measure_cpu,
    measure_disk,
    measure_late_fold,
    measure_peak_memory,
    measure_small_folds,
    open_plain_duckdb,
    run_in_process,
)
from benchmarks.analytics.pages import request_page
from benchmarks.analytics.scale_data import MILLION, ScaleData, load_scale_data, make_unfolded, set_visits_cached
from benchmarks.analytics.traffic import DAYS, FIRST_DAY
from benchmarks.jobs.measure import measure_process_cpu
from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.stores.base import DayRange, SectionQuery
from copydesk.analytics.stores.duckdb import DuckStore

EVENTS_PER_SECOND, REQUESTS_PER_SECOND = 200, 20
FIRST_FOLDS = 7
IDLE_CPU_SECONDS = 0.05
"""A service that used at most this much CPU in a second is idle."""
YEAR = f"dateFrom={format_day(FIRST_DAY)}&dateTo={format_day(FIRST_DAY + DAYS)}"
MONTH = f"dateFrom={format_day(FIRST_DAY + 200)}&dateTo={format_day(FIRST_DAY + 230)}"
FIRST_REQUESTED_DAYS = range(20, 180, 10)
DAY_300 = f"dateFrom={format_day(FIRST_DAY + 300)}&dateTo={format_day(FIRST_DAY + 301)}"
REPORTS = {
    "visitors of a year": f"visitors?{YEAR}",
    "visitors of a month": f"visitors?{MONTH}",
    "visitors of a day": f"visitors?{DAY_300}",
    "visitors of all time": "visitors",
    "views of a year": f"views?{YEAR}",
    "agents of a year": f"agents?{YEAR}",
    "a year by day": f"timeseries?{YEAR}&interval=day",
    "a day by hour": f"timeseries?{DAY_300}&interval=hour",
    "missing pages of a year": f"missing?{YEAR}",
    "referrers of a year": f"referrers?{YEAR}",
    "sections of a year": f"sections?{YEAR}",
    "sections of a month": f"sections?{MONTH}",
    "the most popular page in a year": f"pages/docs/section-0/page-0?{YEAR}",
    "a page with few views in a year": f"pages/docs/section-0/page-1000?{YEAR}",
}
SECTION_REPORTS = {
    "sections below a section, of a year": f"sections?prefix=/docs&{YEAR}",
    "pages of a small section, of a year": f"sections?prefix=/docs/section-1&{YEAR}",
}
SECTION_PAGES = {"sections below a section, of a year": "readership/sections?prefix=/docs&range=year"}
"""Reports about sections below the first level, which are in the index: of a large project before any report, of others
after the first one."""
PAGES = {
    "overview of 30 days": "readership",
    "overview of a year": "readership?range=year",
    "overview of all time": "readership?range=all",
    "sources of a year": "readership/sources?range=year",
    "sections of a year": "readership/sections?range=year",
    "agents of a year": "readership/agents?range=year",
    "missing pages of a year": "readership/missing?range=year",
    "the most popular page, 30 days": "readership/page?path=/docs/section-0/page-0",
    "the most popular page, a year": "readership/page?path=/docs/section-0/page-0&range=year",
    "page 1,000, a year": "readership/page?path=/docs/section-0/page-1000&range=year",
}
"""Pages of the dashboard, below the project."""


@dataclass(frozen=True)
class SectionMeasurement:
    """Costs of sections below the first level; of a project that is not large, on a copy of the data."""

    first_cpu: float
    """CPU milliseconds of the first report, which counts from visits if the project is not large."""
    indexing_cpu: float
    """CPU seconds of adding the sections to the index: before the first report of a large project, or after that."""
    memory: float
    """Peak memory of adding them, in MB."""
    disk_bytes_per_view: float
    """Counts the views that were added while the reports were measured, too."""
    reports: dict[str, ExportMeasurement]
    """Reports and pages when the sections are in the index."""
    pages: dict[str, ExportMeasurement]


@dataclass(frozen=True)
class ScaleMeasurement:
    data: ScaleData
    few_cpu: float
    """CPU milliseconds of a fold of 100 views: the median of all."""
    first_few_cpu: float
    """CPU milliseconds of the slowest of the first folds of 100 views after a start."""
    uncached_few_cpu: float
    """The median if the system has no file of visits in its cache before."""
    late_cpu: float
    """CPU seconds of a fold of 250,000 late views of known visitors, after the small folds."""
    late_memory: float
    """Peak memory of this fold, in MB."""
    start_cpu: float
    """CPU milliseconds of the service until it answers."""
    start_memory: float
    background_cpu: float
    """CPU seconds of what the first report after a start begins: the filter of known events and the first fold."""
    quiet: dict[str, ExportMeasurement]
    live: dict[str, ExportMeasurement]
    """Reports while events arrive."""
    live_memory: float
    live_own_memory: float
    """Without the memory of mapped files, which the system can take back at any time."""
    first_hours_cpu: float
    """CPU milliseconds of the first request for a finished day by hour, which is stored: the mean of several days."""
    pages: dict[str, ExportMeasurement]
    sections: SectionMeasurement


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analytics.scale", description="Measures how costs grow with the views."
    )
    parser.add_argument("folder", type=Path, help="where the data are made; later runs use them again")
    parser.add_argument(
        "--millions", type=int, nargs="+", default=[1, 10], help="sizes, by default 1 10; 100 needs 15 GB of disk"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    loops, measurements = [measure_loop_seconds()], []
    for millions in options.millions:
        data = load_scale_data(options.folder, millions) or make_folded(options.folder, millions)
        measurements.append(measure_scale(data))
        loops.append(measure_loop_seconds())
    print(f"Ten million additions in a Python loop took {min(loops):.2f} to {max(loops):.2f} s of CPU.\n")
    for line in format_growth(measurements):
        print(line)


def make_folded(folder: Path, millions: int) -> ScaleData:
    data = make_unfolded(folder, millions, print_progress)
    print_progress(f"folding {data.views:,} views")
    cpu, memory = run_in_process(_fold_all, data.store)
    run_in_process(_save_filter, data.store)
    data = replace(data, fold_cpu_seconds=cpu, fold_memory_megabytes=memory, disk_bytes=measure_disk(data.store))
    if data.is_large:
        return index_large(data)
    data.save()
    return data


def _fold_all(path: Path) -> tuple[float, float]:
    store = DuckStore(path, min_large_views=NO_LARGE_PROJECTS)
    took = measure_cpu(partial(_fold_and_count_days, store))
    store.close()
    return took, measure_peak_memory()


def _fold_and_count_days(store: DuckStore) -> None:
    """Folds, and waits until finished days are counted by hour, which the fold starts."""
    store.fold()
    store.wait_for_hours()


def _count_views(path: Path) -> int:
    with open_plain_duckdb(path) as connection:
        [(views,)] = connection.execute("select count(*) from views").fetchall()
    return int(views)


def _save_filter(path: Path) -> None:
    """Saves the filter of known events, as a service does that has logged them."""
    store = DuckStore(path, min_large_views=NO_LARGE_PROJECTS)
    store.prepare_logging()
    store.wait_for_filter()
    store.close()


def index_large(data: ScaleData) -> ScaleData:
    """Indexes the sections of a large project, which the service does in the background."""
    print_progress(f"indexing sections of {data.views:,} views")
    cpu, memory = run_in_process(index_sections, data.store)
    disk = measure_disk(data.store)
    data = replace(data, indexing_cpu_seconds=cpu, indexing_memory_megabytes=memory, disk_bytes=disk)
    data.save()
    return data


def measure_scale(data: ScaleData) -> ScaleMeasurement:
    print_progress(f"small folds onto {data.views:,} views")
    set_visits_cached(data.store, is_cached=False)
    uncached_few, _ = run_in_process(_measure_few, data.store, data.project)
    set_visits_cached(data.store, is_cached=True)
    few, first_few = run_in_process(_measure_few, data.store, data.project)
    late_cpu, late_memory = _measure_late(data)
    set_visits_cached(data.store, is_cached=True)  # the copy may have taken its place
    folder = Path(data.folder)
    with serve_collector(folder) as (port, process):
        start_cpu, start_memory = measure_process_cpu(process) * 1e3, process.memory_info().rss / 1e6
        cpu = partial(measure_process_cpu, process)
        background_cpu = wait_for_background_work(data, port, cpu)
        first_hours_cpu = _measure_first_hours(data, port, cpu)
        quiet = _measure_reports(data, port, cpu)
        pages = _measure_pages(data, port, cpu)
        with send_events(data, port):
            time.sleep(3)
            live = _measure_reports(data, port, cpu)
        memory = process.memory_info()
    sections = measure_sections(data)
    return ScaleMeasurement(
        data, few, first_few, uncached_few, late_cpu, late_memory, start_cpu, start_memory, background_cpu, quiet, live,
        memory.rss / 1e6, (memory.rss - memory.shared) / 1e6, first_hours_cpu, pages, sections,
    )  # fmt: skip


def _measure_late(data: ScaleData) -> tuple[float, float]:
    """Returns the CPU seconds of a fold of late views, and the peak memory, on a copy of the data."""
    print_progress(f"late views onto {data.views:,} views")
    with copy_data(data, "late") as copy:
        run_in_process(log_late_views, copy.store, copy.project)
        set_visits_cached(copy.store, is_cached=True)
        return run_in_process(measure_late_fold, copy.store)


def measure_sections(data: ScaleData) -> SectionMeasurement:
    print_progress(f"the first report of sections of {data.views:,} views")
    with copy_if_small(data) as copy:
        first_cpu, indexing_cpu, memory = run_in_process(_measure_first_report, copy.store, copy.project)
        if data.is_large:
            indexing_cpu, memory = data.indexing_cpu_seconds, data.indexing_memory_megabytes
        disk = measure_disk(copy.store) / run_in_process(_count_views, copy.store)
        with serve_collector(Path(copy.folder)) as (port, process):
            cpu = partial(measure_process_cpu, process)
            wait_for_background_work(copy, port, cpu)
            reports = _measure_reports(copy, port, cpu, SECTION_REPORTS)
            pages = _measure_pages(copy, port, cpu, SECTION_PAGES)
    return SectionMeasurement(first_cpu * 1e3, indexing_cpu, memory, disk, reports, pages)


@contextmanager
def copy_if_small(data: ScaleData) -> Iterator[ScaleData]:
    """Yields a copy of the data, which a first report may change, or the data of a large project themselves."""
    if data.is_large:
        yield data
        return
    with copy_data(data, "sections") as copy:
        yield copy


@contextmanager
def copy_data(data: ScaleData, purpose: str) -> Iterator[ScaleData]:
    """Yields a copy of the data, which is deleted at the end."""
    folder = Path(f"{data.folder}-{purpose}")
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    shutil.copytree(data.folder, folder)
    try:
        yield replace(data, folder=str(folder))
    finally:
        shutil.rmtree(folder)


def _measure_first_report(path: Path, project: str) -> tuple[float, float, float]:
    """Returns the CPU seconds of the first report below a section, those of indexing after it, and the peak memory."""
    store = DuckStore(path)
    _fold_and_count_days(store)
    store.wait_for_sections()
    year = DayRange(FIRST_DAY, FIRST_DAY + DAYS)
    first = measure_cpu(lambda: store.list_sections(project, year, query=SectionQuery("/docs", 2)))
    indexing = measure_cpu(store.wait_for_sections)
    store.close()
    return first, indexing, measure_peak_memory()


def _measure_few(path: Path, project: str) -> tuple[float, float]:
    took = measure_small_folds(path, project)
    return statistics.median(took) * 1e3, max(took[:FIRST_FOLDS]) * 1e3


def wait_for_background_work(data: ScaleData, port: int, cpu: Callable[[], float]) -> float:
    """Requests a report and waits until the service is idle. Returns the CPU seconds that this took."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    before = last = cpu()
    _ask(connection, data, REPORTS["visitors of a year"])
    connection.close()
    while True:
        time.sleep(1)
        now = cpu()
        if now - last <= IDLE_CPU_SECONDS:
            return now - before
        last = now


def _measure_reports(
    data: ScaleData, port: int, cpu: Callable[[], float], reports: Mapping[str, str] = REPORTS
) -> dict[str, ExportMeasurement]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    measured = {}
    for name, query in reports.items():
        print_progress(name)
        measured[name] = measure_repeated(cpu, partial(_ask, connection, data, query))
    connection.close()
    return measured


def _measure_first_hours(data: ScaleData, port: int, cpu: Callable[[], float]) -> float:
    """Returns the CPU milliseconds of a day by hour that was not requested before: the mean of several days.

    Small folds were measured before, and so the finished days are stored by hour, as in a service that runs for days.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    print_progress("days by hour")
    before = cpu()
    for number in FIRST_REQUESTED_DAYS:
        first, end = format_day(FIRST_DAY + number), format_day(FIRST_DAY + number + 1)
        _ask(connection, data, f"timeseries?dateFrom={first}&dateTo={end}&interval=hour")
    connection.close()
    return (cpu() - before) / len(FIRST_REQUESTED_DAYS) * 1e3


def _measure_pages(
    data: ScaleData, port: int, cpu: Callable[[], float], pages: Mapping[str, str] = PAGES
) -> dict[str, ExportMeasurement]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    measured = {}
    for name, path in pages.items():
        print_progress(f"dashboard: {name}")
        page_path = f"/projects/{data.project}/{path}"
        measured[name] = measure_repeated(cpu, partial(request_page, connection, page_path, data.cookie))
    connection.close()
    return measured


def _ask(connection: http.client.HTTPConnection, data: ScaleData, query: str) -> int:
    path = f"/v1/analytics/{data.project}/{quote(query, safe='/?&=')}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {data.key}"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status == 429:  # the limit of exports per minute
        connection.close()  # the service closes idle connections; the next request opens a new one
        time.sleep(float(answer.headers["Retry-After"]))
        return _ask(connection, data, query)
    if answer.status != 200:
        raise RuntimeError(f"{query} answered {answer.status}: {body!r}")
    return len(body)


@contextmanager
def send_events(data: ScaleData, port: int) -> Iterator[None]:
    """Sends 200 events a second while the block runs, from a process of its own."""
    over = threading.Event()
    together = EVENTS_PER_SECOND // REQUESTS_PER_SECOND
    path = f"/v1/analytics/{data.project}/events"
    order = GeneratorOrder(port, "batch", path, data.key, 1, 600 * REQUESTS_PER_SECOND, together, time.time_ns())
    bodies = [request.partition(b"\r\n\r\n")[2] for request in build_requests(order)]
    sender = threading.Thread(target=_send, args=[order, bodies, over])
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()


def _send(order: GeneratorOrder, bodies: list[bytes], over: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", order.port, timeout=60)
    headers = {"Authorization": f"Bearer {order.key}", "Content-Type": "application/json"}
    due = time.monotonic()
    for body in bodies:
        if over.wait(max(0.0, due - time.monotonic())):
            return
        connection.request("POST", order.path, body, headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 202:
            raise RuntimeError(f"events answered {answer.status}")
        due += 1 / REQUESTS_PER_SECOND


def format_growth(measurements: list[ScaleMeasurement]) -> Iterator[str]:
    """Yields the lines of a table with a column for each size, and the growth per tenfold in the last one."""
    sizes = [measurement.data.views // MILLION for measurement in measurements]
    yield f"| figure | {' | '.join(f'{size} million' for size in sizes)} | growth per tenfold |"
    yield f"|---|{'---:|' * len(sizes)}---:|"
    rows: dict[str, list[float]] = {
        "folding from nothing, views per CPU second": [m.data.views / m.data.fold_cpu_seconds for m in measurements],
        "memory while folding, MB": [m.data.fold_memory_megabytes for m in measurements],
        "disk, bytes per view": [m.data.disk_bytes / m.data.views for m in measurements],
        "fold of 100 views, median of 40, CPU ms": [m.few_cpu for m in measurements],
        f"the slowest of the first {FIRST_FOLDS} of them, CPU ms": [m.first_few_cpu for m in measurements],
        "fold of 100 views, visits not in the system's cache, CPU ms": [m.uncached_few_cpu for m in measurements],
        "fold of 250,000 late views of known visitors, CPU ms": [m.late_cpu * 1e3 for m in measurements],
        "memory while folding them, MB": [m.late_memory for m in measurements],
        "start of the service, CPU ms": [m.start_cpu for m in measurements],
        "background work after the first report, CPU ms": [m.background_cpu * 1e3 for m in measurements],
        "memory after the start, MB": [m.start_memory for m in measurements],
        "memory after the reports, MB": [m.live_memory for m in measurements],
        "without that of mapped files, MB": [m.live_own_memory for m in measurements],
        "a day by hour, the first request for the day, CPU ms": [m.first_hours_cpu for m in measurements],
    }
    for name in REPORTS:
        rows[f"{name}, CPU ms"] = [m.quiet[name].cpu for m in measurements]
        rows[f"{name}, p50 ms"] = [m.quiet[name].p50 for m in measurements]
        rows[f"{name}, p50 ms with {EVENTS_PER_SECOND} events a second"] = [m.live[name].p50 for m in measurements]
    rows["the first report below a section, CPU ms"] = [m.sections.first_cpu for m in measurements]
    rows["adding these sections to the index, CPU s"] = [m.sections.indexing_cpu for m in measurements]
    rows["memory while adding them, MB"] = [m.sections.memory for m in measurements]
    rows["disk with these sections, bytes per view"] = [m.sections.disk_bytes_per_view for m in measurements]
    for name in SECTION_REPORTS:
        rows[f"{name}, CPU ms"] = [m.sections.reports[name].cpu for m in measurements]
    for name in SECTION_PAGES:
        rows[f"dashboard: {name}, CPU ms"] = [m.sections.pages[name].cpu for m in measurements]
    for name in PAGES:
        rows[f"dashboard: {name}, CPU ms"] = [m.pages[name].cpu for m in measurements]
        rows[f"dashboard: {name}, p50 ms"] = [m.pages[name].p50 for m in measurements]
    for name, values in rows.items():
        growth = [values[n + 1] / values[n] for n in range(len(values) - 1)]
        cells = " | ".join(f"{value:,.1f}" if value < 1000 else f"{value:,.0f}" for value in values)
        yield f"| {name} | {cells} | {', '.join(f'{factor:.2f} ×' for factor in growth) or '–'} |"


def print_progress(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
