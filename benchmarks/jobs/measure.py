"""Clocks: CPU of a process and its ended children, peak memory, percentiles, and a description of the machine."""

import os
import platform
import resource
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Machine:
    system: str
    cores: int
    load: float
    """Load average of the last minute before the run: a busy machine makes every figure here worse."""
    python: str
    git: str
    sqlite: str
    dbos: str
    fsync_p50: float
    fsync_p99: float
    """Milliseconds for one 4 KB write with fsync: the lower bound of every durable operation."""
    loop: float
    """CPU seconds of ten million additions in a Python loop: how fast the machine is at the moment."""


def describe_machine(folder: Path) -> Machine:
    flushes = _measure_fsyncs(folder / "fsync")
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cores=os.cpu_count() or 1,
        load=os.getloadavg()[0],
        python=platform.python_version(),
        git=subprocess.check_output(["git", "--version"], text=True).split()[2],
        sqlite=sqlite3.sqlite_version,
        dbos=version("dbos"),
        fsync_p50=percentile(flushes, 50),
        fsync_p99=percentile(flushes, 99),
        loop=_measure_loop_seconds(),
    )


def _measure_loop_seconds() -> float:
    began, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - began


def percentile(values: Sequence[float], percent: int) -> float:
    """Returns a percentile by nearest rank, which is a measured value."""
    ranked = sorted(values)
    return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def measure_process_cpu(process: psutil.Process) -> float:
    """Returns the CPU seconds of a process and of all its descendants that ended. (Only Linux counts the latter.)"""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def measure_family_cpu(process: psutil.Process) -> float:
    """Returns the CPU seconds of a process and of all its descendants, both living and ended."""
    total = measure_process_cpu(process)
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            total += measure_process_cpu(child)
    return total


def measure_own_cpu() -> float:
    """Returns the same for this process, to the microsecond."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure_memory(process: psutil.Process) -> float:
    """Returns the resident megabytes."""
    return float(process.memory_info().rss) / 1e6


def measure_peak_memory(process: psutil.Process) -> float:
    """Returns the peak resident megabytes that the kernel recorded."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def measure_family_memory(process: psutil.Process) -> float:
    """Returns the megabytes of a process and its descendants; shared pages count once."""
    total = 0.0
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess, FileNotFoundError):
            rollup = Path(f"/proc/{member.pid}/smaps_rollup").read_text()
            total += int(rollup.split("\nPss:")[1].split()[0]) * 1024 / 1e6
    return total


def _measure_fsyncs(path: Path, count: int = 200) -> list[float]:
    took = []
    with path.open("wb") as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return took
