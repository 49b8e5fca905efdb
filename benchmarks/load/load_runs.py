"""Runs a load, and checks at its end that every accepted event is counted and every job is done."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import text

from benchmarks.jobs.measure import percentile
from benchmarks.jobs.prompts import EDIT_TASKS
from benchmarks.jobs.service import ROOT
from benchmarks.load.generator import BATCH_EVENTS, EXPECTED_STATUS_BY_KIND, LoadOrder, LoadResult
from benchmarks.load.samples import Sample, sample_periodically
from benchmarks.load.stores import BenchmarkFleet

BASE_RATES = {"poll": 20.0, "create": 0.5, "event": 40.0, "beacon": 40.0, "batch": 1.0, "export": 1.0}
"""Requests per second; a batch has a hundred events."""
MAX_P99_MILLISECONDS = {
    "poll": 250.0,
    "create": 250.0,
    "event": 250.0,
    "beacon": 250.0,
    "batch": 500.0,
    "export": 1000.0,
}
"""Milliseconds that the 99th percentile may take for the load to count as held."""
MAX_QUEUE_AGE_SECONDS = 10.0
"""Seconds that a job may wait for a slot at the end."""
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class KindSummary:
    sent: int
    p50: float
    p99: float
    longest: float
    errors: list[str]


@dataclass(frozen=True)
class LoadSummary:
    kinds: dict[str, KindSummary]
    seconds: float
    events_per_second: float
    generator: float
    """The generator's share of one core."""
    others: float
    """Cores that other processes used, or that the machine did not get."""
    late: float
    """Milliseconds by which the generator sent requests too late, the 99th percentile."""
    cores: dict[str, float]
    """Share of one core by process, including its ended children."""
    oldest: float
    """Longest seconds that a job waited for a slot, and the wait at the end."""
    oldest_at_end: float
    samples: list[Sample]
    accepted: int

    @property
    def errors(self) -> int:
        return sum(len(kind.errors) for kind in self.kinds.values())

    @property
    def is_held(self) -> bool:
        in_time = all(kind.p99 <= MAX_P99_MILLISECONDS[name] for name, kind in self.kinds.items() if kind.sent)
        return in_time and not self.errors and self.oldest_at_end <= MAX_QUEUE_AGE_SECONDS


@dataclass(frozen=True)
class FinalCounts:
    accepted: int
    counted: int
    jobs: int
    finished: int
    """With a pull request."""
    told: int
    steps: int
    """Events and journal steps of all jobs."""

    @property
    def is_right(self) -> bool:
        return self.accepted == self.counted and self.jobs == self.finished


def scale_rates(factor: float) -> dict[str, float]:
    return {kind: rate * factor for kind, rate in BASE_RATES.items()}


def create_first_job(fleet: BenchmarkFleet) -> str:
    return fleet.account.create(fleet.ports[0], EDIT_TASKS[0].prompt)


def run_load(
    fleet: BenchmarkFleet, rates: Mapping[str, float], seconds: float, seed: int, every: float = 1.0
) -> LoadSummary:
    job = create_first_job(fleet)
    order = LoadOrder(
        fleet.ports, fleet.project.id, fleet.project.site_id, fleet.account.key, job, dict(rates), seconds, seed
    )
    with sample_periodically(fleet, every) as samples:
        result = _run_generator(order)
    return summarize(result, samples)


def summarize(result: LoadResult, samples: list[Sample]) -> LoadSummary:
    first, last = samples[0], samples[-1]
    passed = last.at - first.at
    cores = {name: (usage.cpu - first.processes[name].cpu) / passed for name, usage in last.processes.items()}
    generator = result.cpu_seconds / result.seconds
    kinds = {
        kind: KindSummary(
            len(times), *((percentile(times, 50), percentile(times, 99), max(times)) if times else (0.0, 0.0, 0.0)),
            result.errors[kind],
        )
        for kind, times in result.milliseconds.items()
    }  # fmt: skip
    return LoadSummary(
        kinds=kinds,
        seconds=result.seconds,
        events_per_second=result.accepted / result.seconds,
        generator=generator,
        others=max(0.0, (last.machine - first.machine) / passed - sum(cores.values()) - generator),
        late=percentile(result.late, 99),
        cores=cores,
        oldest=max(sample.oldest for sample in samples),
        oldest_at_end=last.oldest,
        samples=samples,
        accepted=result.accepted,
    )


def check_final_counts(fleet: BenchmarkFleet, accepted: int, patience: float = TIMEOUT_SECONDS) -> FinalCounts:
    """Waits until the jobs have ended and the views are counted, as a client sees them."""
    until = time.monotonic() + patience
    while (counted_views := count_views(fleet)) != accepted and time.monotonic() < until:
        time.sleep(0.3)
    while _count_rows(fleet, "jobs where status = 'active'") and time.monotonic() < until:
        time.sleep(0.1)
    return FinalCounts(
        accepted=accepted,
        counted=counted_views,
        jobs=_count_rows(fleet, "jobs"),
        finished=_count_rows(fleet, "jobs where pr_link is not null"),
        told=_count_rows(fleet, "events"),
        steps=_count_rows(fleet, "steps"),
    )


def count_expected_events(rates: Mapping[str, float]) -> float:
    """Returns the expected events per second."""
    return rates["event"] + rates["beacon"] + BATCH_EVENTS * rates["batch"]


def _run_generator(order: LoadOrder) -> LoadResult:
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.load.generator"],
        cwd=ROOT, input=json.dumps(asdict(order)), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    result = LoadResult(**json.loads(process.stdout))
    assert result.milliseconds.keys() == EXPECTED_STATUS_BY_KIND.keys()
    return result


def count_views(fleet: BenchmarkFleet) -> int:
    """Counts views of every class through the export of agents."""
    connection = http.client.HTTPConnection("127.0.0.1", fleet.ports[0], timeout=60)
    path = f"/v1/analytics/{fleet.project.id}/agents?limit=250"
    connection.request("GET", path, headers=fleet.account.headers)
    answer = connection.getresponse()
    body = json.load(answer)
    connection.close()
    if answer.status != 200 or body["hasMore"]:
        raise RuntimeError(f"the export of agents answered {answer.status}: {body}")
    return sum(agent["views"] for agent in body["agents"])


def _count_rows(fleet: BenchmarkFleet, condition: str) -> int:
    with fleet.account.desk.database.read() as tx:
        return int(tx.execute(text(f"select count(*) from {condition}")).scalar_one())
