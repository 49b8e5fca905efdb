"""python -m benchmarks.load.planning: computes machines, storage and money from measured unit costs."""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, fields

MONTH_SECONDS = 30 * 86_400
HOURS_PER_MONTH = 730


@dataclass(frozen=True)
class MeasuredCosts:
    """Measured costs. Milliseconds are CPU time, of the most expensive run where several differ.

    Each description ends with the benchmark that measured the value.
    """

    event: float = 0.24
    """Milliseconds of the server for an event that is sent alone, by 128 clients: benchmarks/analytics, collecting."""
    batched: float = 0.05
    """Milliseconds of the server for an event of a batch of 500, on the scale-out pair: growth."""
    group: tuple[float, float, float] = (26, 3, 51)
    """Milliseconds of server, PostgreSQL and ClickHouse for 1,000 events that are committed together: commits."""
    folded: float = 0.013
    """Milliseconds of ClickHouse for a view that is folded with many: growth."""
    export: float = 38.5
    """Milliseconds of all processes for the most expensive export: growth."""
    poll: float = 3.7
    creation: float = 7.0
    """Milliseconds of all processes for polling and for creating a job, on the scale-out pair: growth."""
    job: float = 400
    """Milliseconds of a worker and its git for a change that searches a repository of 20,000 files: benchmarks/jobs."""
    raw: float = 20.5
    kept: float = 24
    """Bytes of a view on ClickHouse: while its raw form is stored, and permanently: growth."""
    journal: float = 19_700
    """Bytes of a job in the database, permanently: its row, 13 events, 10 steps and the patches of a small change."""


@dataclass(frozen=True)
class PlannedLoad:
    views: float
    """Per month."""
    jobs: float = 10_000
    """Per hour."""
    peak: float = 3.0
    job_peak: float = 2.0
    """The ratio of the busiest moment to the mean, for views and for jobs."""
    batched: float = 0.0
    """The share of views that arrive in batches."""
    exports: float = 10
    """Per second, at the busiest moment."""
    polls: float = 10
    """Per job."""
    raw_days: float = 30
    months: float = 12
    """Months for which the index is stored."""
    replicas: int = 3
    seconds: float = 99.0
    """Mean seconds of a job: the mean of the simulation's durations."""


@dataclass(frozen=True)
class Prices:
    """Assumed prices in US dollars: enter your own."""

    core_hour: float = 0.05
    """A core with 4 GB of memory."""
    gigabyte_month: float = 0.10
    """Replicated network storage or local SSD."""


MAX_UTILIZATION = 0.5
"""Share of a core at the busiest moment: the other half is a reserve, also for a lost machine."""
GROUPS_PER_SECOND = 7.0
"""Per second and server: a commit of 0.1 s and a gathering of 0.04 s."""
MAX_GROUPS_PER_SECOND = 12.0
"""Per second, all servers together, because PostgreSQL numbers groups one after another.

Two shared cores had 8 to 30; this is the value of the busiest run, so that the plan assumes rather too large groups.
"""
SHARD_GB = 2_000
SLOTS_PER_WORKER = 32


@dataclass(frozen=True)
class CapacityNeeds:
    events: float
    """Per second, at the busiest moment."""
    group: float
    """Events per commit at that moment."""
    servers: int
    """Processes of one core each, including one spare."""
    postgres: int
    clickhouse: int
    """Cores of all shards and replicas."""
    shards: int
    workers: int
    worker_cores: int
    stored: float
    """Gigabytes with all replicas, once the index has reached its maximum age."""
    a_month: float
    """Gigabytes of views per month, without replicas."""
    jobs_stored: float
    """Gigabytes in PostgreSQL and its standby at that time."""

    @property
    def cores(self) -> int:
        return self.servers + self.postgres + self.clickhouse + self.worker_cores

    def dollars(self, prices: Prices) -> float:
        """Returns dollars per month, without the cost of the model."""
        return (
            self.cores * HOURS_PER_MONTH * prices.core_hour + (self.stored + self.jobs_stored) * prices.gigabyte_month
        )


def compute_needs(load: PlannedLoad, costs: MeasuredCosts | None = None) -> CapacityNeeds:
    costs = costs or MeasuredCosts()
    events = load.views / MONTH_SECONDS * load.peak
    jobs = load.jobs / 3600 * load.job_peak
    collecting = events * (load.batched * costs.batched + (1 - load.batched) * costs.event)
    api = jobs * (costs.creation + load.polls * costs.poll) + load.exports * costs.export
    servers = math.ceil((collecting + api) / 1000 / MAX_UTILIZATION)
    groups = min(MAX_GROUPS_PER_SECOND, servers * GROUPS_PER_SECOND)
    server, postgres, clickhouse = (groups * cost / 1000 / MAX_UTILIZATION for cost in costs.group)
    servers = math.ceil((collecting + api) / 1000 / MAX_UTILIZATION + server) + 1
    stored = load.views * (load.raw_days / 30 * costs.raw + load.months * costs.kept) / 1e9
    shards = math.ceil(stored / SHARD_GB)
    folding = events * costs.folded / 1000 / MAX_UTILIZATION
    each = max(
        2, math.ceil((clickhouse + folding / max(1, shards)) + load.exports * costs.export / 1000 / MAX_UTILIZATION)
    )
    slots = jobs * load.seconds * 1.15
    return CapacityNeeds(
        events=events,
        group=events / groups if groups else 0,
        servers=max(2, servers),
        postgres=max(
            2, math.ceil(postgres + jobs * (costs.creation + load.polls * costs.poll) / 1000 / MAX_UTILIZATION)
        ),
        clickhouse=each * shards * load.replicas,
        shards=shards,
        workers=math.ceil(slots / SLOTS_PER_WORKER) + 1 if jobs else 0,
        worker_cores=max(2, math.ceil(jobs * costs.job / 1000 / MAX_UTILIZATION)) if jobs else 0,
        stored=stored * load.replicas,
        a_month=load.views * (costs.raw + costs.kept) / 1e9,
        jobs_stored=2 * load.jobs * 720 * load.months * costs.journal / 1e9,
    )


PLANNED_CASES = {
    "100 million views a month": PlannedLoad(1e8, jobs=0),
    "10 billion views, each sent alone": PlannedLoad(1e10, jobs=0),
    "10 billion views, in batches": PlannedLoad(1e10, jobs=0, batched=1),
    "10,000 jobs an hour": PlannedLoad(0, exports=0),
    "10 billion views and 10,000 jobs an hour": PlannedLoad(1e10),
}

TABLE_COLUMNS: dict[str, Callable[[PlannedLoad, CapacityNeeds], str]] = {
    "events/s at the peak": lambda _, found: f"{found.events:,.0f}",
    "in a commit": lambda _, found: f"{found.group:,.0f}",
    "servers": lambda _, found: f"{found.servers}",
    "cores of PostgreSQL": lambda _, found: f"{found.postgres}",
    "shards × replicas": lambda asked, found: f"{found.shards} × {asked.replicas}" if found.shards else "–",
    "cores of ClickHouse": lambda _, found: f"{found.clickhouse}",
    f"workers × {SLOTS_PER_WORKER} slots": lambda _, found: f"{found.workers}",
    "their cores": lambda _, found: f"{found.worker_cores}",
    "GB of views a month, once": lambda _, found: f"{found.a_month:,.0f}",
    "GB of views": lambda _, found: f"{found.stored:,.0f}",
    "GB of jobs": lambda _, found: f"{found.jobs_stored:,.0f}",
    "cores": lambda _, found: f"{found.cores}",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load.planning", description="Works out what is needed.")
    for price in fields(Prices):
        parser.add_argument(f"--{price.name.replace('_', '-')}", type=float, default=price.default, metavar="USD")
    prices = Prices(**vars(parser.parse_args()))
    print("| | " + " | ".join([*TABLE_COLUMNS, "USD a month"]) + " |\n|---|" + "---:|" * (len(TABLE_COLUMNS) + 1))
    for name, load in PLANNED_CASES.items():
        needed = compute_needs(load)
        cells = [show(load, needed) for show in TABLE_COLUMNS.values()]
        print("| " + " | ".join([name, *cells, f"{needed.dollars(prices):,.0f}"]) + " |")


if __name__ == "__main__":
    main()
