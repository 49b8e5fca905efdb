"""python -m benchmarks.load.simulation: simulates queues too large for one machine, from measured costs.

Jobs arrive at random at workers that may die; views arrive at a shard that is folded at the pace of the real scheduler.
"""

import heapq
import math
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from benchmarks.jobs.measure import percentile
from copydesk.analytics.stores.fold_scheduler import FoldTiming

DAY_SECONDS = 86_400.0
LEASE_SECONDS = 10.0
"""Seconds until another worker takes over a dead worker's jobs (the default)."""


@dataclass(frozen=True)
class ArrivalRate:
    """A daily sine curve of arrivals; `peak` is the ratio of the busiest moment to the mean."""

    per_second: float
    peak: float

    def at(self, moment: float) -> float:
        return self.per_second * (1 + (self.peak - 1) * math.sin(2 * math.pi * moment / DAY_SECONDS))

    def until(self, end: float, chance: random.Random) -> Iterator[float]:
        """Yields random arrivals: those of the peak rate, thinned out."""
        most, moment = self.per_second * self.peak, 0.0
        while (moment := moment + chance.expovariate(most)) < end:
            if chance.random() * most < self.at(moment):
                yield moment


@dataclass(frozen=True)
class Durations:
    """Lognormal durations: most jobs are short and a few are long, up to the time limit."""

    median: float
    spread: float
    longest: float = 1800.0

    def draw(self, chance: random.Random) -> float:
        return min(self.longest, chance.lognormvariate(math.log(self.median), self.spread))


@dataclass(frozen=True)
class Workers:
    count: int
    slots: int
    lost_at: float | None = None
    """When one worker dies permanently, with all its running jobs."""
    redone: float = 15.0
    """Seconds of work that the next attempt repeats: the step that was not yet in the journal."""


@dataclass
class WaitSummary:
    seconds: list[float] = field(default_factory=list)
    """From creation to the first start of each job."""
    resumed: list[float] = field(default_factory=list)
    """From the loss of a worker until another one resumed the job."""
    busy: int = 0
    """The peak number of busy slots."""

    @property
    def p50(self) -> float:
        return percentile(self.seconds, 50)

    @property
    def p99(self) -> float:
        return percentile(self.seconds, 99)


@dataclass(frozen=True)
class SimulatedJob:
    number: int
    created: float
    seconds: float
    """Seconds of work that remain."""
    lost: float | None = None
    """When its worker died."""


def simulate_jobs(
    arrivals: ArrivalRate, durations: Durations, workers: Workers, seconds: float, seed: int = 1
) -> WaitSummary:
    """Simulates jobs: first come, first served; jobs of a dead worker go first, as in the real claim."""
    chance, waited, numbers = random.Random(seed), WaitSummary(), count()
    free = dict.fromkeys(range(workers.count), workers.slots)
    running: dict[int, tuple[int, float, SimulatedJob]] = {}
    queue: deque[SimulatedJob] = deque()
    due: list[tuple[float, int, SimulatedJob | None, bool]] = []

    def plan(moment: float, job: SimulatedJob | None, *, ends: bool = False) -> None:
        heapq.heappush(due, (moment, next(numbers), job, ends))

    for number, moment in enumerate(arrivals.until(seconds, chance)):
        plan(moment, SimulatedJob(number, moment, durations.draw(chance)))
    if workers.lost_at is not None:
        plan(workers.lost_at, None)
    while due:
        now, _, job, ends = heapq.heappop(due)
        if job is None:
            del free[0]
            for worker, end, under_way in list(running.values()):
                if worker == 0:
                    del running[under_way.number]
                    plan(now + LEASE_SECONDS, replace(under_way, seconds=end - now + workers.redone, lost=now))
        elif not ends:
            queue.append(job) if job.lost is None else queue.appendleft(job)
        elif job.number in running and running[job.number][2] == job:
            free[running.pop(job.number)[0]] += 1
        while queue and free and free[worker := max(free, key=free.__getitem__)] > 0:
            started_job = queue.popleft()
            free[worker] -= 1
            running[started_job.number] = (worker, now + started_job.seconds, started_job)
            plan(now + started_job.seconds, started_job, ends=True)
            if started_job.lost is None:
                waited.seconds.append(now - started_job.created)
            else:
                waited.resumed.append(now - started_job.lost)
            waited.busy = max(waited.busy, len(running))
    return waited


@dataclass(frozen=True)
class FoldCost:
    """The seconds of a fold: a fixed part, and a part for each view."""

    fixed: float
    each: float
    away: tuple[float, float] | None = None
    """From when to when folds fail while views still arrive."""


@dataclass(frozen=True)
class FoldSummary:
    backlog: float
    """The peak number of waiting views."""
    lag: float
    """The longest seconds that a view waited to be counted."""
    share: float
    """Share of one core, over the busiest hour."""
    behind: float
    """Seconds after an outage until the lag was normal again; 0 without an outage."""


def simulate_folds(
    arrivals: ArrivalRate,
    shard: FoldCost,
    pace: FoldTiming | None = None,
    usual: float = 0,
    seconds: float = DAY_SECONDS,
) -> FoldSummary:
    """Simulates folds: a fold takes all waiting views, then the scheduler pauses.

    The normal lag is the lag without outage.
    """
    pace = pace or FoldTiming()
    now, oldest, backlog, lag, behind = 0.0, 0.0, 0.0, 0.0, 0.0
    hours = [0.0] * (int(seconds // 3600) + 1)
    while now < seconds:
        away = shard.away
        if away and away[0] <= now < away[1]:
            now = away[1]
        waiting = count_arrivals(arrivals, oldest, now)
        took = shard.fixed + shard.each * waiting
        backlog, lag = max(backlog, waiting), max(lag, now + took - oldest)
        if away and now >= away[1] and now + took - oldest > max(usual, pace.max_pause_seconds):
            behind = now + took - away[1]
        hours[min(int(now // 3600), len(hours) - 1)] += took
        oldest, now = (
            now,
            now + took + min(max(pace.pause_factor * took, pace.min_pause_seconds), pace.max_pause_seconds),
        )
    return FoldSummary(backlog, lag, max(hours) / 3600, behind)


def count_arrivals(arrivals: ArrivalRate, first: float, end: float) -> float:
    """Returns the views between two moments: the integral of the daily sine curve."""
    swing = arrivals.per_second * (arrivals.peak - 1) * DAY_SECONDS / (2 * math.pi)
    turns = math.cos(2 * math.pi * first / DAY_SECONDS) - math.cos(2 * math.pi * end / DAY_SECONDS)
    return arrivals.per_second * (end - first) + swing * turns


def main() -> None:
    print(JOBS_TABLE_HEAD)
    for workers, slots, peak, is_lost in JOB_CASES:
        fleet = Workers(workers, slots, lost_at=DAY_SECONDS / 4 if is_lost else None)
        waits = simulate_jobs(ArrivalRate(10_000 / 3600, peak), Durations(60, 1.0), fleet, DAY_SECONDS / 2)
        resumed = f"{len(waits.resumed)} after {percentile(waits.resumed, 99):.0f} s" if waits.resumed else ""
        print(
            f"| {workers} × {slots} | {peak:g} × | {'yes' if is_lost else 'no'} | {waits.p50:.1f} | {waits.p99:.1f} "
            f"| {max(waits.seconds):.0f} | {waits.busy} | {resumed} |"
        )
    print(f"\n{FOLDS_TABLE_HEAD}")
    for name, per_month, shards, shard in FOLD_CASES:
        arrivals = ArrivalRate(per_month / MONTH_SECONDS / shards, 3)
        found_fold = simulate_folds(arrivals, shard)
        away = simulate_folds(
            arrivals, replace(shard, away=(DAY_SECONDS / 4, DAY_SECONDS / 4 + 600)), usual=found_fold.lag
        )
        print(
            f"| {name} | {arrivals.per_second:,.0f} | {found_fold.backlog:,.0f} | {found_fold.lag:.0f} "
            f"| {found_fold.share:.1%} | {away.backlog:,.0f} | {away.behind:.0f} |"
        )


MONTH_SECONDS = 30 * DAY_SECONDS
JOBS_TABLE_HEAD = (
    "| workers × slots | busiest moment | one lost then | p50 s | p99 s | longest s | most slots used | taken over |\n"
    "|---|---:|---|---:|---:|---:|---:|---|"
)
JOB_CASES = (
    (10, 32, 1.0, False),
    (10, 32, 1.0, True),
    (16, 32, 2.0, False),
    (18, 32, 2.0, False),
    (20, 32, 2.0, False),
    (20, 32, 2.0, True),
    (10, 64, 2.0, True),
    (11, 64, 2.0, True),
)
FOLDS_TABLE_HEAD = (
    "| what is folded | views/s | most that waited | longest lag s | of a core | after 10 min away | s to catch up |\n"
    "|---|---:|---:|---:|---:|---:|---:|"
)
FOLD_SECONDS_PER_VIEW, FOLD_SECONDS_PER_STORED_VISIT, FOLD_FIXED_SECONDS = 1 / 121_662, 6.5e-9, 0.04
"""Seconds on DuckDB for a view that is folded in order, for the pass over each stored visit, and for planning a
fold. benchmarks/analytics measures them. A view leaves 1.2 visits."""
CLICKHOUSE = FoldCost(0.5, 0.037e-3)
"""The most expensive figures of growth on a busy machine, in wall time: a fold of few views, and each of many views."""
FOLD_CASES = (
    (
        "DuckDB, 100 million a month, after a month",
        1e8,
        1,
        FoldCost(FOLD_FIXED_SECONDS + 0.12e9 * FOLD_SECONDS_PER_STORED_VISIT, FOLD_SECONDS_PER_VIEW),
    ),
    (
        "DuckDB, 100 million a month, after a year",
        1e8,
        1,
        FoldCost(FOLD_FIXED_SECONDS + 1.44e9 * FOLD_SECONDS_PER_STORED_VISIT, FOLD_SECONDS_PER_VIEW),
    ),
    ("ClickHouse, 100 million a month, 1 shard", 1e8, 1, CLICKHOUSE),
    ("ClickHouse, 10 billion a month, 2 shards", 1e10, 2, CLICKHOUSE),
    ("the same, a fold ten times as dear", 1e10, 2, FoldCost(5, 0.037e-3)),
    ("ClickHouse, 10 billion a month, 1 shard", 1e10, 1, CLICKHOUSE),
)

if __name__ == "__main__":
    main()
