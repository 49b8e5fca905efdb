"""Measures how long a client waits until its job is created durably."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.jobs.load import WARM_UP, Order, Taken
from benchmarks.jobs.measure import cpu_of, percentile
from benchmarks.jobs.service import ROOT, Account, Served, account, serve


@dataclass(frozen=True)
class Creation:
    clients: int
    requests: int
    p50: float
    p99: float
    per_second: float
    server_cpu: float
    generator_cpu: float
    """CPU milliseconds per request, of the server and of the generator."""


def measure(folder: Path, repository: Path, requests: dict[int, int]) -> list[Creation]:
    """Measures job creation. `requests`: total requests, by the number of clients."""
    data = folder / "creation"
    with account(data, repository) as owner, serve(data, with_worker=False) as served:
        return [_measure(owner, served, clients, total // clients) for clients, total in requests.items()]


def _measure(owner: Account, served: Served, clients: int, each: int) -> Creation:
    order = Order(served.port, owner.path, owner.headers, clients, each)
    before = cpu_of(served.process)
    taken = _generate(order)
    total = clients * each
    cpu = cpu_of(served.process) - before
    return Creation(
        clients=clients,
        requests=total,
        p50=percentile(taken.milliseconds, 50),
        p99=percentile(taken.milliseconds, 99),
        per_second=total / taken.seconds,
        server_cpu=cpu / (total + clients * WARM_UP) * 1000,
        generator_cpu=taken.cpu_seconds / total * 1000,
    )


def _generate(order: Order) -> Taken:
    command = [sys.executable, "-m", "benchmarks.jobs.load"]
    done = subprocess.run(
        command, cwd=ROOT, input=json.dumps(asdict(order)), stdout=subprocess.PIPE, text=True, check=True
    )
    return Taken(**json.loads(done.stdout))
