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

from benchmarks.analytics.generator import GeneratorOrder, GeneratorResult
from benchmarks.jobs.measure import measure_process_cpu, percentile
from benchmarks.jobs.service import is_healthy
from copydesk.core.settings import Settings
from copydesk.desk import open_desk

ROOT = Path(__file__).parents[2]
UNLIMITED = "1000000000"
SERVER_CORE, GENERATOR_CORE = 0, 1
"""The CPU cores that the two processes are bound to."""


@dataclass(frozen=True)
class CollectRun:
    name: str
    kind: str
    connections: int
    requests: int
    together: int = 1


@dataclass(frozen=True)
class CollectMeasurement:
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


def list_runs(scale: int) -> list[CollectRun]:
    return [
        CollectRun("one event a request, 16 clients", "event", 16, 2_500 * scale),
        CollectRun("one event a request, 128 clients", "event", 128, 10_000 * scale),
        CollectRun("the beacon's views, 128 clients", "beacon", 128, 10_000 * scale),
        CollectRun("1,000 events a request, 2 clients", "batch", 2, 100 * scale, 1_000),
        CollectRun("1,000 events a request, 4 clients", "batch", 4, 100 * scale, 1_000),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analytics.collecting", description="Measures what collecting a view costs."
    )
    parser.add_argument("--long", action="store_true", help="six times as many: long enough for checkpoints")
    scale = 6 if parser.parse_args().long else 1
    print(f"Load before the run: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")
    print(f"Ten million additions in a Python loop took {measure_loop_seconds():.2f} s of CPU.\n")
    print(
        "| run | events/s | events per CPU s of the server | p50 ms | p99 ms | longest ms | generator | checkpoints |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for seed, run in enumerate(list_runs(scale)):
        with tempfile.TemporaryDirectory(prefix="copydesk-benchmark-") as folder:
            figures = measure_run(Path(folder), run, seed)
        print(
            f"| {run.name} | {figures.per_second:,.0f} | {figures.per_cpu_second:,.0f} | {figures.p50:.1f} "
            f"| {figures.p99:.1f} | {figures.longest:.0f} | {figures.generator:.2f} ms a request "
            f"| {figures.checkpoints} |",
            flush=True,
        )


def measure_loop_seconds() -> float:
    """Measures how fast the machine is at the moment."""
    began, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - began


def measure_run(folder: Path, run: CollectRun, seed: int) -> CollectMeasurement:
    desk = open_desk(Settings(data=folder, database_url=""))
    project = desk.projects.create("Docs", repository=str(folder), ref="main", actor="benchmark")
    key = desk.keys.create(project.id, actor="benchmark")[1]
    desk.close()
    is_beacon = run.kind == "beacon"
    path = f"/v1/collect/{project.site_id}" if is_beacon else f"/v1/analytics/{project.id}/events"
    with serve_collector(folder) as (port, process), watch_checkpoints(folder) as log_sizes:
        warm = GeneratorOrder(
            port, run.kind, path, key, run.connections, 20 * run.connections, run.together, seed + 1000
        )
        run_generator(warm)
        before = measure_process_cpu(process)
        result = run_generator(
            GeneratorOrder(port, run.kind, path, key, run.connections, run.requests, run.together, seed)
        )
        cpu = measure_process_cpu(process) - before
    events = run.requests * run.together
    return CollectMeasurement(
        per_second=events / result.seconds,
        per_cpu_second=events / cpu,
        p50=percentile(result.milliseconds, 50),
        p99=percentile(result.milliseconds, 99),
        longest=max(result.milliseconds),
        generator=result.cpu_seconds / run.requests * 1000,
        checkpoints=len(log_sizes),
    )


def run_generator(order: GeneratorOrder) -> GeneratorResult:
    with bind_to_core(GENERATOR_CORE):
        process = subprocess.run(
            [sys.executable, "-m", "benchmarks.analytics.generator"],
            cwd=ROOT,
            input=json.dumps(asdict(order)),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return GeneratorResult(**json.loads(process.stdout))


@contextmanager
def serve_collector(data: Path) -> Iterator[tuple[int, psutil.Process]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COPYDESK_")}
    settings = {
        "COPYDESK_DATA": str(data),
        "COPYDESK_COLLECT_PER_MINUTE": UNLIMITED,
        "COPYDESK_COLLECT_PER_ADDRESS": UNLIMITED,
        "COPYDESK_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "copydesk", "serve", "--no-worker", "--port", str(port)]
    with bind_to_core(SERVER_CORE):
        process = subprocess.Popen(command, cwd=ROOT, env={**inherited, **settings})
    try:
        while not is_healthy(port):
            if process.poll() is not None:
                raise RuntimeError(f"copydesk serve ended with {process.returncode} before it answered")
            time.sleep(0.01)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(timeout=60)


@contextmanager
def bind_to_core(core: int) -> Iterator[None]:
    """Binds processes that start in the block to this core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core} & before or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def watch_checkpoints(data: Path) -> Iterator[list[int]]:
    """Records the size of the write-ahead log before each checkpoint, observed from outside."""
    log_sizes, over = list[int](), Event()

    def watch() -> None:
        size = 0
        while not over.wait(0.02):
            now = max((log.stat().st_size for log in data.glob("*.wal")), default=0)
            if now < size:
                log_sizes.append(size)
            size = now

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield log_sizes
    finally:
        over.set()
        watcher.join()


if __name__ == "__main__":
    main()
