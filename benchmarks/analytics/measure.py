"""Measures filling, folding, adding and querying one store, each in a separate process to measure its memory."""

import multiprocessing
import random
import resource
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb

from benchmarks.analytics.traffic import DAYS, FIRST, HOST, PROJECT, TABLE, traffic
from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import DayRange, ReportPage
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.analytics.stores.duckdb.reports import KIND_BY_BIT
from copydesk.core.clock import DAY

T = TypeVar("T")
Counts = tuple[int, int, int]
TOGETHER = 5_000
ADDED, WEEKS = 250_000, 4
"""Views per added fold, and the number of folds in order: one of them may have to merge all earlier parts."""
RANGES = {
    "year": DayRange(FIRST, FIRST + DAYS),
    "month": DayRange(FIRST + 200, FIRST + 230),
    "day": DayRange(FIRST + 300, FIRST + 301),
}
DISTINCT = """
    select {page} count(distinct visitor) filter (kind = 1) as human, count(distinct visitor) filter (kind = 2) as ai,
        count(distinct visitor) filter (kind in (1, 2)) as total
    from views where project = 1 and time >= $first and time < $end {rest}
"""
IN_TOTAL = DISTINCT.format(page="", rest="")
BY_PAGE = f"""
    with found as ({DISTINCT.format(page="page,", rest="group by page having total > 0")})
    select path, human, ai, total from found join scopes on scopes.id = page order by total desc, path limit 51
"""


KNOWN = """
    select pages.path, agents.agent, agents.operator, agents.kind, visitor
    from (from views using sample {views} rows) as views
    join scopes as pages on pages.id = views.page join scopes as agents on agents.id = views.agent
"""


@dataclass(frozen=True)
class Folded:
    logging: float
    """Views logged per CPU second, 5,000 at a time."""
    folding: float
    """Views folded per CPU second, starting with an empty store."""
    memory: float
    """Peak resident megabytes of the process that folded."""
    disk: float
    """Bytes per view of everything that is stored."""


@dataclass(frozen=True)
class Added:
    few: float
    """CPU milliseconds of a fold of 100 views, the median of seven."""
    in_order: float
    late: float
    """Late views folded per CPU second, into a filled store."""
    filter: float
    """CPU seconds to build the filter of known events, once after a start, while writers run."""


@dataclass(frozen=True)
class Asked:
    index: float
    distinct: float
    """CPU milliseconds by page and in total, the medians of five and of three runs."""


def fill(path: Path, views: int) -> Folded:
    logging = _apart(_log_all, path, views)
    folding, memory = _apart(_fold_all, path)
    return Folded(views / logging, views / folding, memory, path.stat().st_size / views)


def add(path: Path) -> Added:
    return _apart(_add, path)


def ask(path: Path) -> dict[str, Asked]:
    return _apart(_ask, path)


def _log_all(path: Path, views: int) -> float:
    store, took = DuckStore(path), 0.0
    for day in traffic(views):
        took += _cpu(partial(_log, store, day))
    store.close()
    return took


def _fold_all(path: Path) -> tuple[float, float]:
    store = DuckStore(path)
    took = _cpu(store.fold)
    store.close()
    return took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _add(path: Path) -> Added:
    next_day, year = FIRST + DAYS, range(FIRST, FIRST + DAYS)
    few, late = _known(path, 700, range(next_day, next_day + 1)), _known(path, ADDED, year)
    weeks = [_week(path, range(next_day + 1 + 7 * number, next_day + 8 + 7 * number)) for number in range(WEEKS)]
    store = DuckStore(path)
    small = [_folded(store, few[turn * 100 : turn * 100 + 100]) for turn in range(7)]
    _log(store, weeks[0])
    filter_seconds = _cpu(_filter_made)
    in_order = _cpu(store.fold) + sum(_folded(store, week) for week in weeks[1:])
    late_days = _folded(store, late)
    store.close()
    return Added(statistics.median(small) * 1e3, WEEKS * ADDED / in_order, ADDED / late_days, filter_seconds)


def _week(path: Path, days: range) -> list[PageView]:
    """Makes a week of views, half of them from known visitors."""
    return _known(path, ADDED // 2, days) + [view for day in traffic(ADDED // 2, days, seed=days.start) for view in day]


def _filter_made() -> None:
    """Waits for the filter of known events, which a background thread builds once after a start."""
    for thread in threading.enumerate():
        if thread.name == "filter":
            thread.join()


def _known(path: Path, views: int, days: range) -> list[PageView]:
    """Returns views of known visitors, each moved to one of these days."""
    chance = random.Random(4)
    with _plain_duckdb(path) as connection:
        found = connection.execute(KNOWN.format(views=views)).fetchall()
    return [
        PageView(
            PROJECT, page, chance.choice(days) * DAY, VisitorClass(KIND_BY_BIT[kind]), agent, operator, "browser",
            TABLE, visitor,
            HOST, "", 200, None,
        )
        for page, agent, operator, kind, visitor in found
    ]  # fmt: skip


def _ask(path: Path) -> dict[str, Asked]:
    store = DuckStore(path)
    answers = {name: _median(5, partial(store.count_visitors_by_page, PROJECT, days)) for name, days in RANGES.items()}
    store.close()
    found = {}
    with _plain_duckdb(path) as connection:
        for name, days in RANGES.items():
            index, page = answers[name]
            distinct, (totals, rows) = _median(3, partial(_distinct, connection, days))
            assert _plain(page) == (totals, rows[:50])
            found[name] = Asked(index * 1e3, distinct * 1e3)
    return found


def _plain_duckdb(path: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(str(path), config={"threads": 1})
    connection.execute("set enable_progress_bar = false")
    return connection


def _distinct(connection: duckdb.DuckDBPyConnection, days: DayRange) -> tuple[Counts, list[tuple[str, int, int, int]]]:
    asked = {"first": days.first * DAY, "end": days.end * DAY}
    [(human, ai, total)] = connection.execute(IN_TOTAL, asked).fetchall()
    return (human, ai, total), connection.execute(BY_PAGE, asked).fetchall()


def _plain(page: ReportPage) -> tuple[Counts, list[tuple[str, int, int, int]]]:
    totals = page.totals
    rows = [(row.path, row.count.human, row.count.ai, row.count.total) for row in page.rows]
    return (totals.human, totals.ai, totals.total), rows


def _folded(store: DuckStore, views: list[PageView]) -> float:
    _log(store, views)
    return _cpu(store.fold)


def _log(store: DuckStore, views: list[PageView]) -> None:
    for start in range(0, len(views), TOGETHER):
        store.log_views(views[start : start + TOGETHER])


def _median(times: int, act: Callable[[], T]) -> tuple[float, T]:
    took = []
    for _ in range(times):
        began = time.process_time()
        answer = act()
        took.append(time.process_time() - began)
    return statistics.median(took), answer


def _cpu(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def _apart(act: Callable[..., T], *given: object) -> T:
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(act, given)
