"""python -m benchmarks.load.commits: measures how many groups of events per second the scale-out pair commits.

PostgreSQL numbers every group, one after another across all servers: more servers do not speed this up.
"""

import argparse
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.analytics.collecting import measure_loop_seconds
from benchmarks.analytics.traffic import FIRST_DAY, generate_days
from benchmarks.jobs.measure import measure_own_cpu, percentile
from benchmarks.load.samples import cpu_by_process
from benchmarks.load.stores import SCALE_OUT, BenchmarkStores, open_account, open_stores
from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.clickhouse import ClickHouseStore
from copydesk.analytics.stores.clickhouse.folding.batches import ViewBatches
from copydesk.core.db.database import Database

WRITERS_AND_SIZES = ((1, 10), (1, 100), (1, 1000), (2, 100), (4, 100), (8, 100), (4, 1000))
PENDING_GROUPS, REPEATS = (100, 1_000, 3_000, 10_000), 5


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load.commits", description="Measures how events are committed by several at once."
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each case lasts")
    options = parser.parse_args()
    print(
        f"Load before the run: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
        f"the loop took {measure_loop_seconds():.2f} s.\n"
    )
    print("| writers | events in a group | groups/s | events/s | p50 ms | p99 ms | CPU ms of a group | parts left |")
    print("|---:|---:|---:|---:|---:|---:|---|---:|")
    with (
        tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder,
        open_stores(SCALE_OUT, Path(folder)) as on,
    ):
        for number, (writers, size) in enumerate(WRITERS_AND_SIZES):
            took, cpu_seconds = measure_commits(on, writers, size, options.seconds, seed=number)
            cpu = ", ".join(f"{name} {seconds * 1000 / len(took):.0f}" for name, seconds in cpu_seconds.items())
            per_second = len(took) / options.seconds
            print(
                f"| {writers} | {size:,} | {per_second:.1f} | {per_second * size:,.0f} | {percentile(took, 50):.0f} "
                f"| {percentile(took, 99):.0f} | {cpu} | {describe_parts(on)} |",
                flush=True,
            )
        print("\n| groups that wait to be folded | p50 ms of a commit of 10 events |\n|---:|---:|")
        for waiting, took_ms in measure_with_pending(on):
            print(f"| {waiting:,} | {took_ms:.0f} |", flush=True)


def measure_with_pending(on: BenchmarkStores) -> Iterator[tuple[int, float]]:
    """Measures how long one writer takes for ten events while many groups wait to be folded."""
    [day] = generate_days(10 * (REPEATS + 1) * len(PENDING_GROUPS), range(FIRST_DAY, FIRST_DAY + 1), seed=7)
    with open_account(on) as (owner, project):
        database = owner.desk.database
        with closing(ClickHouseStore(str(on.settings["analytics_url"]), database)) as store:
            groups = [
                [
                    view._replace(project=project.id, event=first + number)
                    for number, view in enumerate(day[first:][:10], 1)
                ]
                for first in range(0, len(day), 10)
            ]
            store.log_views(groups.pop())
            for count in PENDING_GROUPS:
                _add_pending_groups(database, count)
                took = []
                for _ in range(REPEATS):
                    began = time.perf_counter()
                    store.log_views(groups.pop())
                    took.append((time.perf_counter() - began) * 1000)
                yield count, percentile(took, 50)


def _add_pending_groups(database: Database, count: int) -> None:
    """Adds groups until `count` of them are pending in the main database."""
    batches = ViewBatches(database)
    with database.write() as tx:
        for _ in range(count - len(batches.read_snapshot(tx).pending_ids)):
            batches.add_batch(tx, batches.allocate_number(tx), secrets.randbits(128), {0: 1})


def measure_cpu(on: BenchmarkStores) -> dict[str, float]:
    """Returns the CPU seconds of the writers and of the databases."""
    return {"writers": measure_own_cpu(), **cpu_by_process(on.engines)}


def describe_parts(on: BenchmarkStores) -> str:
    """Describes the parts of the inbox that ClickHouse has not merged yet: every group starts as one part."""
    assert on.clickhouse is not None
    return on.clickhouse.run_query("select count() from system.parts where active and table = 'inbox'").strip()


def measure_commits(
    on: BenchmarkStores, writers: int, size: int, seconds: float, seed: int
) -> tuple[list[float], dict[str, float]]:
    """Measures the milliseconds of each group, and the CPU seconds of all threads.

    All events have ids; each thread has its own store.
    """
    durations, ready, over = list[float](), threading.Barrier(writers + 1, timeout=60), threading.Event()
    [day] = generate_days(100 * size, range(FIRST_DAY, FIRST_DAY + 1), seed=seed)
    with open_account(on) as (owner, project):
        views = [view._replace(project=project.id, event=number) for number, view in enumerate(day, 1)]
        url, database = str(on.settings["analytics_url"]), owner.desk.database

        def write(turn: int) -> None:
            with closing(ClickHouseStore(url, database)) as store:
                store.log_views(views[:1])
                ready.wait()
                while not over.is_set():
                    began = time.perf_counter()
                    store.log_views(
                        [_copy_with_new_event(view, turn + 1) for view in views[turn % 100 * size :][:size]]
                    )
                    durations.append((time.perf_counter() - began) * 1000)
                    turn += writers

        threads = [threading.Thread(target=write, args=[turn]) for turn in range(writers)]
        for thread in threads:
            thread.start()
        ready.wait()
        before = measure_cpu(on)
        over.wait(seconds)
        over.set()
        for thread in threads:
            thread.join()
        return durations, {name: cpu - before[name] for name, cpu in measure_cpu(on).items()}


def _copy_with_new_event(view: PageView, turn: int) -> PageView:
    """Copies a view as another event."""
    return view._replace(event=(view.event or 0) + (turn << 40))


if __name__ == "__main__":
    main()
