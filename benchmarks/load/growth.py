"""python -m benchmarks.load.growth [--stores …] [--jobs N] [--views N]: measures costs for 10 and 100 × data."""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import httpx2 as httpx

from benchmarks.analytics import generator as views
from benchmarks.analytics.collecting import measure_loop_seconds, run_generator
from benchmarks.analytics.traffic import DAYS, FIRST_DAY, generate_days
from benchmarks.jobs.measure import measure_own_cpu, percentile
from benchmarks.load.samples import cpu_by_process
from benchmarks.load.store_filler import add_jobs, add_views
from benchmarks.load.stores import (
    EMBEDDED,
    STORE_PAIRS,
    BenchmarkFleet,
    BenchmarkStores,
    open_account,
    open_stores,
    start_fleet,
)
from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.open_store import open_store
from copydesk.core.projects.projects import Project

SIZE_FACTORS = (1, 10, 100)
FIRST_JOB_COUNT, FIRST_VIEW_COUNTS = 1_000, {STORE_PAIRS[0]: 100_000, STORE_PAIRS[1]: 20_000}
MAX_GROWTH_FACTOR = 1.5
"""The factor by which a cost may grow for ten times as much stored data."""
CPU_TICK_MILLISECONDS = 10.0
"""The system's CPU clock tick in milliseconds: a difference of one tick over a round is noise."""
REPEATS, ROUNDS = 60, 3
"""The best round counts: other processes on the machine only make a request slower."""
FOLDED_VIEWS, FOLD_REPEATS = 100, 7
CONNECTIONS = 16


@dataclass(frozen=True)
class Cost:
    p50: float
    cpu: float
    """Milliseconds of one request; CPU of all processes of the service and its databases."""
    noise: float = 0.0
    """CPU milliseconds by which the figure may be wrong."""


@dataclass(frozen=True)
class CostGrowth:
    what: str
    costs: Sequence[Cost]

    @property
    def factors(self) -> list[float]:
        """Returns the CPU growth for each tenfold of stored data."""
        return [after.cpu / max(before.cpu, 1e-6) for before, after in zip(self.costs, self.costs[1:], strict=False)]

    @property
    def is_level(self) -> bool:
        steps = zip(self.costs, self.costs[1:], strict=False)
        return all(after.cpu <= MAX_GROWTH_FACTOR * before.cpu + before.noise + after.noise for before, after in steps)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load.growth", description="Measures what grows with what is stored."
    )
    parser.add_argument("--stores", choices=STORE_PAIRS, default=EMBEDDED)
    parser.add_argument("--jobs", type=int, default=FIRST_JOB_COUNT, help="stored jobs at 1 ×")
    parser.add_argument("--views", type=int, help="stored views at 1 ×")
    options = parser.parse_args()
    at_first = options.views or FIRST_VIEW_COUNTS[options.stores]
    print(f"Load before the run: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")
    print(f"Ten million additions in a Python loop took {measure_loop_seconds():.2f} s of CPU.\n", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder,
        open_stores(options.stores, Path(folder)) as on,
    ):
        print(render_growth(measure_growth(on, options.jobs, at_first), options.jobs, at_first))


def measure_growth(
    on: BenchmarkStores, jobs: int, views_at_first: int, sizes: Sequence[int] = SIZE_FACTORS
) -> list[CostGrowth]:
    costs_by_name: dict[str, list[Cost]] = {}
    with open_account(on) as (owner, project):
        filled = 0
        for size in sizes:
            began, added = time.perf_counter(), views_at_first * (size - filled)
            job = add_jobs(owner.desk, project.id, jobs * (size - filled))
            # embedded: the server opens it next
            with closing(open_store(owner.desk.settings, owner.desk.database)) as store:
                add_views(store, project.id, added, seed=size)
                many = measure_fold(on, store)
                costs = {"a view, folded with many": Cost(many.p50 / added, many.cpu / added)}
                costs[f"a fold of {FOLDED_VIEWS} views"] = measure_small_fold(on, store, project, size)
            took, filled = time.perf_counter() - began, size
            print(f"… {size} ×, filled in {took:.0f} s; the loop takes {measure_loop_seconds():.2f} s", flush=True)
            with start_fleet(on, owner, project, workers=False) as fleet:
                costs |= measure_queries(fleet, job) | measure_collecting(fleet, size)
            for name, cost in costs.items():
                print(f"  {name}: {cost.cpu:.3f} ms of CPU, p50 {cost.p50:.3f} ms", flush=True)
                costs_by_name.setdefault(name, []).append(cost)
            stored = zip(on.sizes(), (jobs * size, views_at_first * size), strict=True)
            print("  bytes on disk by job and by view: " + " and ".join(f"{held / n:,.0f}" for held, n in stored))
    return [CostGrowth(what, costs) for what, costs in costs_by_name.items()]


def measure_small_fold(on: BenchmarkStores, store: Store, project: Project, size: int) -> Cost:
    today = FIRST_DAY + DAYS - 1
    [several] = generate_days(FOLDED_VIEWS * FOLD_REPEATS, range(today, today + 1), seed=-size)
    rounds = []
    for turn in range(FOLD_REPEATS):
        some = several[turn * FOLDED_VIEWS : (turn + 1) * FOLDED_VIEWS]
        store.log_views([view._replace(project=project.id) for view in some])
        rounds.append(measure_fold(on, store))
    return Cost(median(cost.p50 for cost in rounds), median(cost.cpu for cost in rounds))


def measure_fold(on: BenchmarkStores, store: Store) -> Cost:
    """Measures a fold, in this process and in the databases."""
    before, began = measure_own_cpu() + measure_engines_cpu(on), time.perf_counter()
    store.fold()
    took = time.perf_counter() - began
    return Cost(took * 1000, (measure_own_cpu() + measure_engines_cpu(on) - before) * 1000)


def measure_queries(fleet: BenchmarkFleet, job: str) -> dict[str, Cost]:
    """Measures queries, one after another, on one connection."""
    jobs, analytics = fleet.account.path, f"/v1/analytics/{fleet.project.id}"
    month = f"dateFrom={format_day(FIRST_DAY + 200)}&dateTo={format_day(FIRST_DAY + 230)}"
    prompt = {"prompt": "Replace colour with color on every page."}
    with httpx.Client(
        base_url=f"http://127.0.0.1:{fleet.ports[0]}",
        headers={"Authorization": f"Bearer {fleet.account.key}"},
        timeout=60,
    ) as client:
        acts: dict[str, Callable[[], httpx.Response]] = {
            "a poll": partial(client.get, f"{jobs}/{job}"),
            "a creation": partial(client.post, jobs, json=prompt),
            "a list of 50 jobs": partial(client.get, f"{jobs}s?limit=50"),
            "visitors of a month, first page": partial(client.get, f"{analytics}/visitors?{month}"),
            "views of a month, first page": partial(client.get, f"{analytics}/views?{month}"),
            "the site's total, by month": partial(client.get, f"{analytics}/timeseries?interval=month"),
        }
        return {name: _measure_repeated(fleet, act) for name, act in acts.items()}


def measure_collecting(fleet: BenchmarkFleet, size: int) -> dict[str, Cost]:
    """Measures collecting per event, with several clients at once.

    The first events cause a fold, which later ones wait for.
    """
    path = f"/v1/analytics/{fleet.project.id}/events"
    costs = {}
    for name, kind, requests, together in (
        ("a single event", "event", 600, 1),
        ("an event of a batch", "batch", 12, 500),
    ):
        clients = CONNECTIONS if together == 1 else 2
        orders = [
            views.GeneratorOrder(fleet.ports[0], kind, path, fleet.account.key, clients, count, together, seed)
            for seed, count in enumerate([clients * 4, *[requests] * ROUNDS], start=1000 * size + 10 * together)
        ]
        run_generator(orders[0])
        costs[name] = _lowest_cost([_measure_collecting_round(fleet, order) for order in orders[1:]])
    return costs


def _measure_collecting_round(fleet: BenchmarkFleet, order: views.GeneratorOrder) -> Cost:
    before = cpu_by_process(fleet.processes)
    result = run_generator(order)
    events = order.requests * order.together
    used = {name: (cpu - before[name]) * 1000 / events for name, cpu in cpu_by_process(fleet.processes).items()}
    if len(used) > 1:
        print(f"  {order.kind}, by process: " + ", ".join(f"{name} {cpu:.3f} ms" for name, cpu in used.items()))
    return Cost(percentile(result.milliseconds, 50), sum(used.values()), CPU_TICK_MILLISECONDS / events)


def measure_service_cpu(fleet: BenchmarkFleet) -> float:
    return sum(cpu_by_process(fleet.processes).values())


def measure_engines_cpu(on: BenchmarkStores) -> float:
    return sum(cpu_by_process(on.engines).values())


def _measure_repeated(fleet: BenchmarkFleet, act: Callable[[], httpx.Response]) -> Cost:
    for _ in range(5):
        act().raise_for_status()
    return _lowest_cost([_measure_round(fleet, act) for _ in range(ROUNDS)])


def _measure_round(fleet: BenchmarkFleet, act: Callable[[], httpx.Response]) -> Cost:
    took, before = [], measure_service_cpu(fleet)
    for _ in range(REPEATS):
        began = time.perf_counter()
        act()
        took.append((time.perf_counter() - began) * 1000)
    return Cost(
        percentile(took, 50), (measure_service_cpu(fleet) - before) / REPEATS * 1000, CPU_TICK_MILLISECONDS / REPEATS
    )


def _lowest_cost(costs: Sequence[Cost]) -> Cost:
    return Cost(min(cost.p50 for cost in costs), min(cost.cpu for cost in costs), costs[0].noise)


def render_growth(growths: Sequence[CostGrowth], jobs: int, views_at_first: int) -> str:
    columns = " | ".join(f"{jobs * size:,} jobs, {views_at_first * size:,} views" for size in SIZE_FACTORS)
    lines = [
        f"| CPU ms (p50 ms) | {columns} | per tenfold | level |",
        "|---|" + "---:|" * (len(SIZE_FACTORS) + 1) + "---|",
    ]
    for one in growths:
        costs = " | ".join(f"{cost.cpu:.3g} ({cost.p50:.3g})" for cost in one.costs)
        factors = ", ".join(f"{factor:.1f} ×" for factor in one.factors)
        lines.append(f"| {one.what} | {costs} | {factors} | {'yes' if one.is_level else '**no**'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
