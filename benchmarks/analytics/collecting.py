"""python -m benchmarks.analytics.collecting: measures collecting a view, durable before the response."""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread

import psutil

from benchmarks.analytics.generator import Order, Taken
from benchmarks.jobs.measure import cpu_of, percentile
from benchmarks.jobs.service import healthy
from copydesk.core.settings import Settings
from copydesk.desk import open_desk

ROOT = Path(__file__).parents[2]
NO_LIMIT = "1000000000"
SERVER, GENERATOR = 0, 1
"""The CPU cores that the two processes are bound to."""


@dataclass(frozen=True)
class Run:
    name: str
    kind: str
    connections: int
    requests: int
    together: int = 1


@dataclass(frozen=True)
class Measured:
    per_second: float
    """Events per second of wall time; other processes on the machine slow this down."""
    per_cpu_second: float
    """Events per CPU second of the server, including folds and checkpoints."""
    p50: float
    p99: float
    longest: float
    generator: float
    """CPU milliseconds of the load generator per request."""
    checkpoints: int


def runs(scale: int) -> list[Run]:
    return [
        Run("one event a request, 16 clients", "event", 16, 2_500 * scale),
        Run("one event a request, 128 clients", "event", 128, 10_000 * scale),
        Run("the beacon's views, 128 clients", "beacon", 128, 10_000 * scale),
        Run("1,000 events a request, 2 clients", "batch", 2, 100 * scale, 1_000),
        Run("1,000 events a request, 4 clients", "batch", 4, 100 * scale, 1_000),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analytics.collecting", description="Measures what collecting a view costs."
    )
    parser.add_argument("--long", action="store_true", help="six times as many: long enough for checkpoints")
    scale = 6 if parser.parse_args().long else 1
    print(f"Load before the run: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")
    print(f"Ten million additions in a Python loop took {loop():.2f} s of CPU.\n")
    print(
        "| run | events/s | events per CPU s of the server | p50 ms | p99 ms | longest ms | generator | checkpoints |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for seed, run in enumerate(runs(scale)):
        with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
            found = measure(Path(folder), run, seed)
        print(
            f"| {run.name} | {found.per_second:,.0f} | {found.per_cpu_second:,.0f} | {found.p50:.1f} | {found.p99:.1f} "
            f"| {found.longest:.0f} | {found.generator:.2f} ms a request | {found.checkpoints} |",
            flush=True,
        )


def loop() -> float:
    """Measures how fast the machine is at the moment."""
    began, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - began


def measure(folder: Path, run: Run, seed: int) -> Measured:
    desk = open_desk(Settings(data=folder, database_url=""))
    project = desk.projects.create("Docs", repository=str(folder), ref="main", actor="benchmark")
    key = desk.keys.create(project.id, actor="benchmark")[1]
    desk.close()
    is_beacon = run.kind == "beacon"
    path = f"/v1/collect/{project.site_id}" if is_beacon else f"/v1/analytics/{project.id}/events"
    with served(folder) as (port, process), checkpoints(folder) as seen:
        warm = Order(port, run.kind, path, key, run.connections, 20 * run.connections, run.together, seed + 1000)
        generate(warm)
        before = cpu_of(process)
        taken = generate(Order(port, run.kind, path, key, run.connections, run.requests, run.together, seed))
        cpu = cpu_of(process) - before
    events = run.requests * run.together
    return Measured(
        per_second=events / taken.seconds,
        per_cpu_second=events / cpu,
        p50=percentile(taken.milliseconds, 50),
        p99=percentile(taken.milliseconds, 99),
        longest=max(taken.milliseconds),
        generator=taken.cpu_seconds / run.requests * 1000,
        checkpoints=len(seen),
    )


def generate(order: Order) -> Taken:
    with bound_to(GENERATOR):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.analytics.generator"],
            cwd=ROOT,
            input=json.dumps(asdict(order)),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return Taken(**json.loads(done.stdout))


@contextmanager
def served(data: Path) -> Iterator[tuple[int, psutil.Process]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    given = {name: value for name, value in os.environ.items() if not name.startswith("COPYDESK_")}
    chosen = {
        "COPYDESK_DATA": str(data),
        "COPYDESK_COLLECT_PER_MINUTE": NO_LIMIT,
        "COPYDESK_COLLECT_PER_ADDRESS": NO_LIMIT,
        "COPYDESK_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "copydesk", "serve", "--no-worker", "--port", str(port)]
    with bound_to(SERVER):
        process = subprocess.Popen(command, cwd=ROOT, env={**given, **chosen})
    try:
        while not healthy(port):
            if process.poll() is not None:
                raise RuntimeError(f"copydesk serve ended with {process.returncode} before it answered")
            time.sleep(0.01)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(timeout=60)


@contextmanager
def bound_to(core: int) -> Iterator[None]:
    """Binds processes that start in the block to this core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core} & before or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def checkpoints(data: Path) -> Iterator[list[int]]:
    """Records the size of the write-ahead log before each checkpoint, observed from outside."""
    seen, over = list[int](), Event()

    def watch() -> None:
        size = 0
        while not over.wait(0.02):
            now = max((log.stat().st_size for log in data.glob("*.wal")), default=0)
            if now < size:
                seen.append(size)
            size = now

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


if __name__ == "__main__":
    main()
