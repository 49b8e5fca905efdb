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
from benchmarks.analytics.collecting import generate, loop
from benchmarks.analytics.traffic import DAYS, FIRST, traffic
from benchmarks.jobs.measure import own_cpu, percentile
from benchmarks.load.filling import add_jobs, add_views
from benchmarks.load.sampling import by_process
from benchmarks.load.stores import EMBEDDED, PAIRS, Fleet, Stores, account, running, stores
from copydesk.analytics.date_ranges import format_day
from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.open_store import open_store
from copydesk.core.projects.projects import Project

SIZES = (1, 10, 100)
JOBS, VIEWS = 1_000, {PAIRS[0]: 100_000, PAIRS[1]: 20_000}
MOST = 1.5
"""The factor by which a cost may grow for ten times as much stored data."""
TICK = 10.0
"""The system's CPU clock tick in milliseconds: a difference of one tick over a round is noise."""
TIMES, ROUNDS = 60, 3
"""The best round counts: other processes on the machine only make a request slower."""
FOLDED, FOLDS = 100, 7
CONNECTIONS = 16


@dataclass(frozen=True)
class Cost:
    p50: float
    cpu: float
    """Milliseconds of one request; CPU of all processes of the service and its databases."""
    noise: float = 0.0
    """CPU milliseconds by which the figure may be wrong."""


@dataclass(frozen=True)
class Grown:
    what: str
    costs: Sequence[Cost]

    @property
    def factors(self) -> list[float]:
        """Returns the CPU growth for each tenfold of stored data."""
        return [after.cpu / max(before.cpu, 1e-6) for before, after in zip(self.costs, self.costs[1:], strict=False)]

    @property
    def is_level(self) -> bool:
        steps = zip(self.costs, self.costs[1:], strict=False)
        return all(after.cpu <= MOST * before.cpu + before.noise + after.noise for before, after in steps)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load.growth", description="Measures what grows with what is stored."
    )
    parser.add_argument("--stores", choices=PAIRS, default=EMBEDDED)
    parser.add_argument("--jobs", type=int, default=JOBS, help="stored jobs at 1 ×")
    parser.add_argument("--views", type=int, help="stored views at 1 ×")
    chosen = parser.parse_args()
    at_first = chosen.views or VIEWS[chosen.stores]
    print(f"Load before the run: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")
    print(f"Ten million additions in a Python loop took {loop():.2f} s of CPU.\n", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder,
        stores(chosen.stores, Path(folder)) as on,
    ):
        print(rendered(measure(on, chosen.jobs, at_first), chosen.jobs, at_first))


def measure(on: Stores, jobs: int, views_at_first: int, sizes: Sequence[int] = SIZES) -> list[Grown]:
    found: dict[str, list[Cost]] = {}
    with account(on) as (owner, project):
        filled = 0
        for size in sizes:
            began, added = time.perf_counter(), views_at_first * (size - filled)
            job = add_jobs(owner.desk, project.id, jobs * (size - filled))
            # embedded: the server opens it next
            with closing(open_store(owner.desk.settings, owner.desk.database)) as store:
                add_views(store, project.id, added, seed=size)
                many = folded(on, store)
                costs = {"a view, folded with many": Cost(many.p50 / added, many.cpu / added)}
                costs[f"a fold of {FOLDED} views"] = few_folded(on, store, project, size)
            took, filled = time.perf_counter() - began, size
            print(f"… {size} ×, filled in {took:.0f} s; the loop takes {loop():.2f} s", flush=True)
            with running(on, owner, project, workers=False) as fleet:
                costs |= asked(fleet, job) | collected(fleet, size)
            for what, cost in costs.items():
                print(f"  {what}: {cost.cpu:.3f} ms of CPU, p50 {cost.p50:.3f} ms", flush=True)
                found.setdefault(what, []).append(cost)
            stored = zip(on.sizes(), (jobs * size, views_at_first * size), strict=True)
            print("  bytes on disk by job and by view: " + " and ".join(f"{held / n:,.0f}" for held, n in stored))
    return [Grown(what, costs) for what, costs in found.items()]


def few_folded(on: Stores, store: Store, project: Project, size: int) -> Cost:
    today = FIRST + DAYS - 1
    [several] = traffic(FOLDED * FOLDS, range(today, today + 1), seed=-size)
    found = []
    for turn in range(FOLDS):
        some = several[turn * FOLDED : (turn + 1) * FOLDED]
        store.log_views([view._replace(project=project.id) for view in some])
        found.append(folded(on, store))
    return Cost(median(cost.p50 for cost in found), median(cost.cpu for cost in found))


def folded(on: Stores, store: Store) -> Cost:
    """Measures a fold, in this process and in the databases."""
    before, began = own_cpu() + engines_cpu(on), time.perf_counter()
    store.fold()
    took = time.perf_counter() - began
    return Cost(took * 1000, (own_cpu() + engines_cpu(on) - before) * 1000)


def asked(fleet: Fleet, job: str) -> dict[str, Cost]:
    """Measures queries, one after another, on one connection."""
    jobs, analytics = fleet.account.path, f"/v1/analytics/{fleet.project.id}"
    month = f"dateFrom={format_day(FIRST + 200)}&dateTo={format_day(FIRST + 230)}"
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
        return {what: _repeated(fleet, act) for what, act in acts.items()}


def collected(fleet: Fleet, size: int) -> dict[str, Cost]:
    """Measures collecting per event, with several clients at once.

    The first events cause a fold, which later ones wait for.
    """
    path = f"/v1/analytics/{fleet.project.id}/events"
    found = {}
    for what, kind, requests, together in (
        ("a single event", "event", 600, 1),
        ("an event of a batch", "batch", 12, 500),
    ):
        clients = CONNECTIONS if together == 1 else 2
        orders = [
            views.Order(fleet.ports[0], kind, path, fleet.account.key, clients, count, together, seed)
            for seed, count in enumerate([clients * 4, *[requests] * ROUNDS], start=1000 * size + 10 * together)
        ]
        generate(orders[0])
        found[what] = _best([_collected(fleet, order) for order in orders[1:]])
    return found


def _collected(fleet: Fleet, order: views.Order) -> Cost:
    before = by_process(fleet.processes)
    taken = generate(order)
    events = order.requests * order.together
    used = {name: (cpu - before[name]) * 1000 / events for name, cpu in by_process(fleet.processes).items()}
    if len(used) > 1:
        print(f"  {order.kind}, by process: " + ", ".join(f"{name} {cpu:.3f} ms" for name, cpu in used.items()))
    return Cost(percentile(taken.milliseconds, 50), sum(used.values()), TICK / events)


def service_cpu(fleet: Fleet) -> float:
    return sum(by_process(fleet.processes).values())


def engines_cpu(on: Stores) -> float:
    return sum(by_process(on.engines).values())


def _repeated(fleet: Fleet, act: Callable[[], httpx.Response]) -> Cost:
    for _ in range(5):
        act().raise_for_status()
    return _best([_round(fleet, act) for _ in range(ROUNDS)])


def _round(fleet: Fleet, act: Callable[[], httpx.Response]) -> Cost:
    took, before = [], service_cpu(fleet)
    for _ in range(TIMES):
        began = time.perf_counter()
        act()
        took.append((time.perf_counter() - began) * 1000)
    return Cost(percentile(took, 50), (service_cpu(fleet) - before) / TIMES * 1000, TICK / TIMES)


def _best(costs: Sequence[Cost]) -> Cost:
    return Cost(min(cost.p50 for cost in costs), min(cost.cpu for cost in costs), costs[0].noise)


def rendered(found: Sequence[Grown], jobs: int, views_at_first: int) -> str:
    columns = " | ".join(f"{jobs * size:,} jobs, {views_at_first * size:,} views" for size in SIZES)
    lines = [f"| CPU ms (p50 ms) | {columns} | per tenfold | level |", "|---|" + "---:|" * (len(SIZES) + 1) + "---|"]
    for one in found:
        costs = " | ".join(f"{cost.cpu:.3g} ({cost.p50:.3g})" for cost in one.costs)
        factors = ", ".join(f"{factor:.1f} ×" for factor in one.factors)
        lines.append(f"| {one.what} | {costs} | {factors} | {'yes' if one.is_level else '**no**'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
