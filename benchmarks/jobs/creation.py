"""Measures how long a client waits until its job is created durably."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.jobs.load import WARM_UP_REQUESTS, LoadOrder, LoadResult
from benchmarks.jobs.measure import measure_process_cpu, percentile
from benchmarks.jobs.service import ROOT, BenchmarkAccount, RunningService, open_account, serve


@dataclass(frozen=True)
class CreationMeasurement:
    clients: int
    requests: int
    p50: float
    p99: float
    per_second: float
    server_cpu: float
    generator_cpu: float
    """CPU milliseconds per request, of the server and of the generator."""


def measure_creation(folder: Path, repository: Path, requests: dict[int, int]) -> list[CreationMeasurement]:
    """Measures job creation. `requests`: total requests, by the number of clients."""
    data = folder / "creation"
    with open_account(data, repository) as owner, serve(data, with_worker=False) as served:
        return [_measure_clients(owner, served, clients, total // clients) for clients, total in requests.items()]


def _measure_clients(owner: BenchmarkAccount, served: RunningService, clients: int, each: int) -> CreationMeasurement:
    order = LoadOrder(served.port, owner.path, owner.headers, clients, each)
    before = measure_process_cpu(served.process)
    result = _run_generator(order)
    total = clients * each
    cpu = measure_process_cpu(served.process) - before
    return CreationMeasurement(
        clients=clients,
        requests=total,
        p50=percentile(result.milliseconds, 50),
        p99=percentile(result.milliseconds, 99),
        per_second=total / result.seconds,
        server_cpu=cpu / (total + clients * WARM_UP_REQUESTS) * 1000,
        generator_cpu=result.cpu_seconds / total * 1000,
    )


def _run_generator(order: LoadOrder) -> LoadResult:
    command = [sys.executable, "-m", "benchmarks.jobs.load"]
    process = subprocess.run(
        command, cwd=ROOT, input=json.dumps(asdict(order)), stdout=subprocess.PIPE, text=True, check=True
    )
    return LoadResult(**json.loads(process.stdout))
