"""python -m benchmarks.load.planning: computes machines, storage and money from measured unit costs."""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, fields

MONTH = 30 * 86_400
HOURS = 730


@dataclass(frozen=True)
class Costs:
    """Measured costs. Milliseconds are CPU time, of the most expensive run where several differ."""

    event: float = 0.24
    """Of a server, for an event that is sent alone, by 128 clients: benchmarks/analytics, collecting."""
    batched: float = 0.05
    """Of a server, for an event of a batch of 500, on the scale-out pair: growth."""
    group: tuple[float, float, float] = (26, 3, 51)
    """Of server, PostgreSQL and ClickHouse, for a group of 1,000 events that are committed together: commits."""
    folded: float = 0.013
    """Of ClickHouse, for a view that is folded with many: growth."""
    export: float = 38.5
    """Of all processes, for the most expensive export: growth."""
    poll: float = 3.7
    creation: float = 7.0
    """Of all processes, on the scale-out pair: growth."""
    job: float = 400
    """Of a worker and its git, for a change that searches a repository of 20,000 files: benchmarks/jobs."""
    raw: float = 20.5
    kept: float = 24
    """Bytes of a view on ClickHouse: while its raw form is stored, and permanently: growth."""
    journal: float = 19_700
    """Bytes of a job in the database, permanently: its row, 13 events, 10 steps and the patches of a small change."""


@dataclass(frozen=True)
class Asked:
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


FULL = 0.5
"""Share of a core at the busiest moment: the other half is a reserve, also for a lost machine."""
GROUPS = 7.0
"""Per second and server: a commit of 0.1 s and a gathering of 0.04 s."""
ALL_GROUPS = 12.0
"""Per second, all servers together, because PostgreSQL numbers groups one after another.

Two shared cores had 8 to 30; this is the value of the busiest run, so that the plan assumes rather too large groups.
"""
SHARD_GB = 2_000
SLOTS = 32


@dataclass(frozen=True)
class Needs:
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
        return self.cores * HOURS * prices.core_hour + (self.stored + self.jobs_stored) * prices.gigabyte_month


def needs(asked: Asked, costs: Costs | None = None) -> Needs:
    costs = costs or Costs()
    events = asked.views / MONTH * asked.peak
    jobs = asked.jobs / 3600 * asked.job_peak
    collecting = events * (asked.batched * costs.batched + (1 - asked.batched) * costs.event)
    api = jobs * (costs.creation + asked.polls * costs.poll) + asked.exports * costs.export
    servers = math.ceil((collecting + api) / 1000 / FULL)
    groups = min(ALL_GROUPS, servers * GROUPS)
    server, postgres, clickhouse = (groups * cost / 1000 / FULL for cost in costs.group)
    servers = math.ceil((collecting + api) / 1000 / FULL + server) + 1
    stored = asked.views * (asked.raw_days / 30 * costs.raw + asked.months * costs.kept) / 1e9
    shards = math.ceil(stored / SHARD_GB)
    folding = events * costs.folded / 1000 / FULL
    each = max(2, math.ceil((clickhouse + folding / max(1, shards)) + asked.exports * costs.export / 1000 / FULL))
    slots = jobs * asked.seconds * 1.15
    return Needs(
        events=events,
        group=events / groups if groups else 0,
        servers=max(2, servers),
        postgres=max(2, math.ceil(postgres + jobs * (costs.creation + asked.polls * costs.poll) / 1000 / FULL)),
        clickhouse=each * shards * asked.replicas,
        shards=shards,
        workers=math.ceil(slots / SLOTS) + 1 if jobs else 0,
        worker_cores=max(2, math.ceil(jobs * costs.job / 1000 / FULL)) if jobs else 0,
        stored=stored * asked.replicas,
        a_month=asked.views * (costs.raw + costs.kept) / 1e9,
        jobs_stored=2 * asked.jobs * 720 * asked.months * costs.journal / 1e9,
    )


CASES = {
    "100 million views a month": Asked(1e8, jobs=0),
    "10 billion views, each sent alone": Asked(1e10, jobs=0),
    "10 billion views, in batches": Asked(1e10, jobs=0, batched=1),
    "10,000 jobs an hour": Asked(0, exports=0),
    "10 billion views and 10,000 jobs an hour": Asked(1e10),
}

COLUMNS: dict[str, Callable[[Asked, Needs], str]] = {
    "events/s at the peak": lambda _, found: f"{found.events:,.0f}",
    "in a commit": lambda _, found: f"{found.group:,.0f}",
    "servers": lambda _, found: f"{found.servers}",
    "cores of PostgreSQL": lambda _, found: f"{found.postgres}",
    "shards × replicas": lambda asked, found: f"{found.shards} × {asked.replicas}" if found.shards else "–",
    "cores of ClickHouse": lambda _, found: f"{found.clickhouse}",
    f"workers × {SLOTS} slots": lambda _, found: f"{found.workers}",
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
    print("| | " + " | ".join([*COLUMNS, "USD a month"]) + " |\n|---|" + "---:|" * (len(COLUMNS) + 1))
    for name, asked in CASES.items():
        found = needs(asked)
        told = [show(asked, found) for show in COLUMNS.values()]
        print("| " + " | ".join([name, *told, f"{found.dollars(prices):,.0f}"]) + " |")


if __name__ == "__main__":
    main()
