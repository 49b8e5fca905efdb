"""python -m benchmarks.analytics.engines FOLDER: compares the index with count(distinct) and uniqExact.

It uses the data that benchmarks.analytics.scale has made in the folder. ClickHouse's engine runs in a process here
(chdb, which the development dependencies bring), with one thread, as DuckDB does.
"""

import argparse
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from chdb.session import Session as Untyped

from benchmarks.analytics.collecting import measure_loop_seconds
from benchmarks.analytics.measure import (
    DAY_RANGES,
    Counts,
    count_distinct,
    measure_median,
    open_plain_duckdb,
    report_as_tuples,
    run_in_process,
)
from benchmarks.analytics.scale import print_progress
from benchmarks.analytics.scale_data import ScaleData, load_scale_data
from copydesk.analytics.stores.base import DayRange
from copydesk.analytics.stores.duckdb import DuckStore
from copydesk.core.clock import DAY

Session: Any = Untyped
Answer = tuple[Counts, list[tuple[str, int, int, int]]]
REPEATS, SLOW_REPEATS = 5, 3
SELECT_VIEWS = "select page, visitor, kind, time from views where project = 1 and visitor is not null"
CREATE_TABLES = (
    "create table views (page UInt32, visitor Int64, kind UInt8, time Int64) engine = MergeTree order by time",
    "create table pages (id UInt32, path String) engine = MergeTree order by id",
)
COUNT_UNIQUE = """
    select {page} uniqExactIf(visitor, kind = 1) as human, uniqExactIf(visitor, kind = 2) as ai,
        uniqExactIf(visitor, kind in (1, 2)) as total
    from views where time >= {first} and time < {end} {rest}
"""
ONE_THREAD = "settings max_threads = 1"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analytics.engines", description="Compares three ways to count unique visitors."
    )
    parser.add_argument("folder", type=Path, help="where benchmarks.analytics.scale has made its data")
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 10], help="sizes, by default 1 10")
    options = parser.parse_args()
    print(
        "| views | visitors of a | index, CPU ms | count(distinct), CPU ms | uniqExact, CPU ms |\n"
        "|---:|---|---:|---:|---:|"
    )
    for millions in options.millions:
        data = load_scale_data(options.folder, millions)
        if data is None:
            parser.error(f"There are no {millions} million views in {options.folder}: run benchmarks.analytics.scale.")
        for line in compare_engines(data):
            print(line, flush=True)
    print(f"\nTen million additions in a Python loop took {measure_loop_seconds():.2f} s of CPU.")


def compare_engines(data: ScaleData) -> list[str]:
    print_progress(f"the index, {data.views:,} views")
    indexed = run_in_process(_measure_index, data.store, data.project)
    print_progress("count(distinct)")
    distinct = run_in_process(_measure_distinct, data.store)
    print_progress("uniqExact")
    unique = run_in_process(_measure_unique, data.store)
    lines = []
    for name in DAY_RANGES:
        (index_ms, answer), (distinct_ms, other), (unique_ms, third) = indexed[name], distinct[name], unique[name]
        if not answer == other == third:
            raise RuntimeError(f"The three answers for a {name} differ.")
        cells = (f"{index_ms:.1f}", f"{distinct_ms:,.0f} ({distinct_ms / index_ms:.1f} ×)")
        lines.append(
            f"| {data.views:,} | {name} | {' | '.join(cells)} | {unique_ms:,.0f} ({unique_ms / index_ms:.1f} ×) |"
        )
    return lines


def _measure_index(path: Path, project: str) -> dict[str, tuple[float, Answer]]:
    store = DuckStore(path)
    store.fold()  # events that another benchmark has sent
    store.wait_for_hours()
    measured = {}
    for name, days in DAY_RANGES.items():
        seconds, page = measure_median(REPEATS, partial(store.count_visitors_by_page, project, days))
        measured[name] = seconds * 1e3, report_as_tuples(page)
    store.close()
    return measured


def _measure_distinct(path: Path) -> dict[str, tuple[float, Answer]]:
    measured = {}
    with open_plain_duckdb(path) as connection:
        for name, days in DAY_RANGES.items():
            seconds, (totals, rows) = measure_median(SLOW_REPEATS, partial(count_distinct, connection, days))
            measured[name] = seconds * 1e3, (totals, rows[:50])
    return measured


def _measure_unique(path: Path) -> dict[str, tuple[float, Answer]]:
    folder = Path(tempfile.mkdtemp(prefix="copydesk-benchmark-", dir=path.parent))
    try:
        session = _load_clickhouse(path, folder)
        measured = {}
        for name, days in DAY_RANGES.items():
            seconds, answer = measure_median(SLOW_REPEATS, partial(_count_unique, session, days))
            measured[name] = seconds * 1e3, answer
        session.close()
        return measured
    finally:
        shutil.rmtree(folder)


def _load_clickhouse(path: Path, folder: Path) -> Any:
    """Returns a session with the same views, with pages as numbers, as in the log."""
    with open_plain_duckdb(path) as connection:
        connection.execute(f"copy ({SELECT_VIEWS}) to '{folder}/views.parquet'")
        connection.execute(f"copy (select id, path from scopes where sort = 0) to '{folder}/pages.parquet'")
    session = Session(f"{folder}/clickhouse")
    for statement in CREATE_TABLES:
        session.query(statement)
    for table in ("views", "pages"):
        session.query(f"insert into {table} select * from file('{folder}/{table}.parquet')")
    session.query("optimize table views final")
    return session


def _count_unique(session: Any, days: DayRange) -> Answer:
    bounds = {"first": days.first * DAY, "end": days.end * DAY}
    total = COUNT_UNIQUE.format(page="", rest="", **bounds)
    by_page = COUNT_UNIQUE.format(page="page,", rest="group by page having total > 0", **bounds)
    [totals] = _fetch(session, f"{total} {ONE_THREAD}")
    rows = _fetch(
        session,
        f"select path, human, ai, total from ({by_page}) as found join pages on pages.id = found.page"
        f" order by total desc, path limit 50 {ONE_THREAD}",
    )
    return (int(totals[0]), int(totals[1]), int(totals[2])), [(path, int(h), int(a), int(t)) for path, h, a, t in rows]


def _fetch(session: Any, query: str) -> list[list[str]]:
    text = str(session.query(query, "TSV"))
    return [line.split("\t") for line in text.splitlines()]


if __name__ == "__main__":
    main()
