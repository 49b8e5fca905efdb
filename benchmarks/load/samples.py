"""Samples the processes under load: CPU, memory, files, threads, connections, disk, and the queue."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from sqlalchemy import text

from benchmarks.jobs.measure import measure_family_cpu, measure_memory
from benchmarks.load.stores import POSTGRESQL, BenchmarkFleet

SELECT_WAITING_RUNS = "select min(created_at), count(*), {now} from runs where state = 'queued'"
COUNT_CONNECTIONS = "select count(*) from pg_stat_activity where backend_type = 'client backend'"


@dataclass(frozen=True)
class ProcessUsage:
    """The resources of one process; PostgreSQL's processes count as one."""

    cpu: float
    resident: float
    own: float
    """Megabytes; own memory excludes pages of files and shared memory."""
    files: int
    threads: int


@dataclass(frozen=True)
class Sample:
    at: float
    processes: dict[str, ProcessUsage]
    machine: float
    """CPU seconds that the complete machine was busy."""
    disk: float
    log: float
    """Megabytes in the data folder, and megabytes of write-ahead logs among them."""
    connections: int
    """Open connections of PostgreSQL."""
    oldest: float
    """Seconds that the job at the head of the queue has waited."""
    waiting: int


def take_sample(fleet: BenchmarkFleet) -> Sample:
    oldest, waiting = _queue_age_and_length(fleet)
    files = [(path, _megabytes_on_disk(path)) for path in fleet.data.glob("*") if path.is_file()]
    return Sample(
        at=time.monotonic(),
        processes={name: _measure_process(name, process) for name, process in fleet.processes.items()},
        machine=_machine_cpu_seconds(),
        disk=sum(size for _, size in files),
        log=sum(size for path, size in files if path.name.endswith(("-wal", ".wal"))),
        connections=_count_connections(fleet),
        oldest=oldest,
        waiting=waiting,
    )


@contextmanager
def sample_periodically(fleet: BenchmarkFleet, every: float) -> Iterator[list[Sample]]:
    """Takes samples in a background thread while the block runs, one at its beginning and one at its end."""
    samples, over = [take_sample(fleet)], threading.Event()

    def watch() -> None:
        while not over.wait(every):
            samples.append(take_sample(fleet))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()
        samples.append(take_sample(fleet))


def _measure_process(name: str, process: psutil.Process) -> ProcessUsage:
    members = [process, *process.children()] if name == POSTGRESQL else [process]
    resident, own, files, threads = 0.0, 0.0, 0, 0
    for member in members:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            resident, own = resident + measure_memory(member), own + _measure_own_memory(member)
            files, threads = files + member.num_fds(), threads + member.num_threads()
    return ProcessUsage(measure_family_cpu(process), resident, own, files, threads)


def _measure_own_memory(process: psutil.Process) -> float:
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0.0
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024 / 1e6 if "RssAnon:" in status else 0.0


def _machine_cpu_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def cpu_by_process(processes: Mapping[str, psutil.Process]) -> dict[str, float]:
    """Returns the CPU seconds of each process, including its children."""
    return {name: measure_family_cpu(process) for name, process in processes.items()}


def _queue_age_and_length(fleet: BenchmarkFleet) -> tuple[float, int]:
    database = fleet.account.desk.database
    with database.read() as tx:
        oldest, waiting, now = tx.execute(text(SELECT_WAITING_RUNS.format(now=database.clock_sql))).one()
    return (max(0.0, (now - oldest) / 1000), waiting) if waiting else (0.0, 0)


def _count_connections(fleet: BenchmarkFleet) -> int:
    if fleet.stores.are_embedded:
        return 0
    with fleet.account.desk.database.read() as tx:
        return int(tx.execute(text(COUNT_CONNECTIONS)).scalar_one())


def _megabytes_on_disk(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.stat().st_size / 1e6
    return 0.0
