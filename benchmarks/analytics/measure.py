"""Measures filling, folding, adding and querying one store, each in a separate process to measure its memory."""

import multiprocessing
import random
import resource
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb

from benchmarks.analytics.traffic import DAYS, FIRST_DAY, HOST, PROJECT, TABLE, generate_days
from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import DayRange
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.reports.site_reports import KIND_BY_BIT
from copydesk.analytics.stores.report_rows import ReportPage
from copydesk.core.clock import DAY
from copydesk.core.runtime.memory import limit_malloc_arenas

T = TypeVar("T")
Counts = tuple[int, int, int]
NO_LARGE_PROJECTS = 1 << 62
"""A minimum of views that no project reaches, so that no sections are indexed at the same time as other work."""
BATCH_VIEWS = 5_000
ADDED_VIEWS, WEEKS = 250_000, 4
"""Views per added fold, and the number of folds in order: one of them may have to merge all earlier parts."""
SMALL_FOLDS, SMALL_FOLD_VIEWS = 40, 100
DAY_RANGES = {
    "year": DayRange(FIRST_DAY, FIRST_DAY + DAYS),
    "month": DayRange(FIRST_DAY + 200, FIRST_DAY + 230),
    "day": DayRange(FIRST_DAY + 300, FIRST_DAY + 301),
}
COUNT_DISTINCT_VISITORS = """
    select {page} count(distinct visitor) filter (kind = 1) as human, count(distinct visitor) filter (kind = 2) as ai,
        count(distinct visitor) filter (kind in (1, 2)) as total
    from views where project = 1 and time >= $first and time < $end {rest}
"""
COUNT_DISTINCT_TOTAL = COUNT_DISTINCT_VISITORS.format(page="", rest="")
COUNT_DISTINCT_BY_PAGE = f"""
    with found as ({COUNT_DISTINCT_VISITORS.format(page="page,", rest="group by page having total > 0")})
    select path, human, ai, total from found join scopes on scopes.id = page order by total desc, path limit 51
"""


SELECT_KNOWN_VISITORS = """
    select pages.path, agents.agent, agents.operator, agents.kind, visitor
    from (from views using sample {views} rows) as views
    join scopes as pages on pages.id = views.page join scopes as agents on agents.id = views.agent
"""


@dataclass(frozen=True)
class FillMeasurement:
    logging: float
    """Views logged per CPU second, 5,000 at a time."""
    folding: float
    """Views folded per CPU second, starting with an empty store, without the indexing of sections that follows."""
    memory: float
    """Peak resident megabytes of the process that folded."""
    disk: float
    """Bytes per view of everything that is stored."""


@dataclass(frozen=True)
class AddMeasurement:
    few: float
    """CPU milliseconds of a fold of 100 views, the median of seven."""
    in_order: float
    late: float
    """Late views folded per CPU second, into a filled store."""


@dataclass(frozen=True)
class QueryMeasurement:
    index: float
    distinct: float
    """CPU milliseconds by page and in total, the medians of five and of three runs."""


def measure_fill(path: Path, views: int) -> FillMeasurement:
    logging = run_in_process(_log_all_views, path, views)
    folding, memory = run_in_process(_fold_all_views, path)
    run_in_process(index_sections, path)
    return FillMeasurement(views / logging, views / folding, memory, measure_disk(path) / views)


def measure_disk(path: Path) -> int:
    """Returns the bytes of the store's file, and of the files of visits and of known events next to it."""
    folders = [path.with_name(f"{path.name}.{name}") for name in ("visits", "events")]
    files = [path, *(file for folder in folders if folder.exists() for file in folder.iterdir())]
    return sum(file.stat().st_size for file in files)


def measure_add(path: Path) -> AddMeasurement:
    return run_in_process(_measure_add, path)


def measure_queries(path: Path) -> dict[str, QueryMeasurement]:
    return run_in_process(_measure_queries, path)


def _log_all_views(path: Path, views: int) -> float:
    store, took = DuckStore(path), 0.0
    for day in generate_days(views):
        took += measure_cpu(partial(_log_views, store, day))
    store.close()
    return took


def _fold_all_views(path: Path) -> tuple[float, float]:
    store = DuckStore(path, min_large_views=NO_LARGE_PROJECTS)
    took = measure_cpu(partial(_fold_and_merge, store))
    store.close()
    return took, measure_peak_memory()


def index_sections(path: Path) -> tuple[float, float]:
    """Indexes the sections of a large project, as the first fold after a start does. Returns the CPU seconds, and the
    peak memory."""
    store = DuckStore(path)
    took = measure_cpu(partial(_fold_and_index, store))
    store.close()
    return took, measure_peak_memory()


def _measure_add(path: Path) -> AddMeasurement:
    next_day, year = FIRST_DAY + DAYS, range(FIRST_DAY, FIRST_DAY + DAYS)
    small = measure_small_folds(path)
    late = _views_of_known_visitors(path, ADDED_VIEWS, year)
    weeks = [_make_week(path, range(next_day + 1 + 7 * number, next_day + 8 + 7 * number)) for number in range(WEEKS)]
    store = DuckStore(path)
    _log_views(store, weeks[0])
    _wait_for_thread("filter")
    in_order = measure_cpu(partial(_fold_and_merge, store)) + sum(_measure_fold(store, week) for week in weeks[1:])
    late_days = _measure_fold(store, late)
    store.close()
    return AddMeasurement(statistics.median(small) * 1e3, WEEKS * ADDED_VIEWS / in_order, ADDED_VIEWS / late_days)


def measure_small_folds(path: Path, project: str = PROJECT) -> list[float]:
    """Returns the CPU seconds of 40 folds of 100 views each, which known visitors make on the next day.

    Merges that the fold of all views has left are done before.
    """
    days = range(FIRST_DAY + DAYS, FIRST_DAY + DAYS + 1)
    known_views = _views_of_known_visitors(path, SMALL_FOLDS * SMALL_FOLD_VIEWS, days)
    views = [view._replace(project=project) for view in known_views]
    store = DuckStore(path)
    _fold_and_merge(store)
    store.close()
    store = _open_prepared(path)
    took = [
        _measure_fold(store, views[first : first + SMALL_FOLD_VIEWS])
        for first in range(0, len(views), SMALL_FOLD_VIEWS)
    ]
    store.close()
    return took


def _open_prepared(path: Path) -> DuckStore:
    """Opens a store as the service has it after a report: folds are prepared, and finished days counted by hour."""
    store = DuckStore(path)
    store.prepare_logging()
    for name in ("filter", "preparation", "sections"):
        _wait_for_thread(name)
    store.wait_for_hours()
    return store


def log_late_views(path: Path, project: str) -> None:
    """Logs 250,000 views of known visitors, each on some day of the year."""
    views = _views_of_known_visitors(path, ADDED_VIEWS, range(FIRST_DAY, FIRST_DAY + DAYS))
    store = DuckStore(path)
    _log_views(store, [view._replace(project=project) for view in views])
    store.close()


def measure_late_fold(path: Path) -> tuple[float, float]:
    """Returns the CPU seconds of folding what was logged, with all work that this starts, and the peak memory."""
    store = _open_prepared(path)
    took = measure_cpu(partial(_fold_and_merge, store))
    store.close()
    return took, measure_peak_memory()


def _make_week(path: Path, days: range) -> list[PageView]:
    """Makes a week of views, half of them from known visitors."""
    return _views_of_known_visitors(path, ADDED_VIEWS // 2, days) + [
        view for day in generate_days(ADDED_VIEWS // 2, days, seed=days.start) for view in day
    ]


def _fold_and_merge(store: DuckStore) -> None:
    """Folds, and waits for what the fold may have started: a merge of files of visits, and counting finished days."""
    store.fold()
    _wait_for_thread("merge")
    store.wait_for_hours()


def _fold_and_index(store: DuckStore) -> None:
    """Folds, and waits for the indexing of sections and the merge that the fold may have started."""
    store.fold()
    store.wait_for_sections()
    _wait_for_thread("merge")


def _wait_for_thread(name: str) -> None:
    """Waits for a background thread: the filter of known events is built once after a start, files are merged."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join()


def _views_of_known_visitors(path: Path, views: int, days: range) -> list[PageView]:
    """Returns views of known visitors, each moved to one of these days."""
    chance = random.Random(4)
    with open_plain_duckdb(path) as connection:
        rows = connection.execute(SELECT_KNOWN_VISITORS.format(views=views)).fetchall()
    return [
        PageView(
            PROJECT, page, chance.choice(days) * DAY, VisitorClass(KIND_BY_BIT[kind]), agent, operator, "browser",
            TABLE, visitor,
            HOST, "", 200, None,
        )
        for page, agent, operator, kind, visitor in rows
    ]  # fmt: skip


def _measure_queries(path: Path) -> dict[str, QueryMeasurement]:
    store = DuckStore(path)
    answers = {
        name: measure_median(5, partial(store.count_visitors_by_page, PROJECT, days))
        for name, days in DAY_RANGES.items()
    }
    store.close()
    measurements = {}
    with open_plain_duckdb(path) as connection:
        for name, days in DAY_RANGES.items():
            index, page = answers[name]
            distinct, (totals, rows) = measure_median(3, partial(count_distinct, connection, days))
            assert report_as_tuples(page) == (totals, rows[:50])
            measurements[name] = QueryMeasurement(index * 1e3, distinct * 1e3)
    return measurements


def open_plain_duckdb(path: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(str(path), config={"threads": 1})
    connection.execute("set enable_progress_bar = false")
    return connection


def count_distinct(
    connection: duckdb.DuckDBPyConnection, days: DayRange
) -> tuple[Counts, list[tuple[str, int, int, int]]]:
    params = {"first": days.first * DAY, "end": days.end * DAY}
    [(human, ai, total)] = connection.execute(COUNT_DISTINCT_TOTAL, params).fetchall()
    return (human, ai, total), connection.execute(COUNT_DISTINCT_BY_PAGE, params).fetchall()


def report_as_tuples(page: ReportPage) -> tuple[Counts, list[tuple[str, int, int, int]]]:
    totals = page.totals
    rows = [(row.path, row.count.human, row.count.ai, row.count.total) for row in page.rows]
    return (totals.human, totals.ai, totals.total), rows


def _measure_fold(store: DuckStore, views: list[PageView]) -> float:
    _log_views(store, views)
    return measure_cpu(partial(_fold_and_merge, store))


def _log_views(store: DuckStore, views: list[PageView]) -> None:
    for start in range(0, len(views), BATCH_VIEWS):
        store.log_views(views[start : start + BATCH_VIEWS])


def measure_median(times: int, act: Callable[[], T]) -> tuple[float, T]:
    took = []
    for _ in range(times):
        began = time.process_time()
        answer = act()
        took.append(time.process_time() - began)
    return statistics.median(took), answer


def measure_peak_memory() -> float:
    """Returns the peak resident megabytes of this process. `ru_maxrss` would include those of the process that started
    it, and is used only where there is nothing better."""
    status = Path("/proc/self/status")
    if status.exists():
        [peak] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(peak.split()[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measure_cpu(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def run_in_process(act: Callable[..., T], *arguments: object) -> T:
    """Runs a function in a process of its own, whose threads share heaps like those of the service."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=limit_malloc_arenas) as process:
        return process.submit(act, *arguments).result()
