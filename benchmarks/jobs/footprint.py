"""Measures the idle service, and how long it takes to start."""

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs.measure import measure_memory, measure_process_cpu
from benchmarks.jobs.service import serve

SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class Footprint:
    start_fresh: list[float]
    start_existing: list[float]
    """Seconds from exec to the first 200 of /healthz: with a new data folder, and with an existing one."""
    idle_seconds: float
    idle_cpu: float
    """Share of one core."""
    idle_memory: float
    """Resident megabytes."""


def measure_footprint(folder: Path, starts: int, idle_seconds: float) -> Footprint:
    with serve(folder / "start-first"):
        pass  # compiles the modules, so that the measured starts do not
    fresh, existing = [], []
    for number in range(starts):
        data = folder / f"start-{number}"
        with serve(data) as served:
            fresh.append(served.started_in)
        with serve(data) as served:
            existing.append(served.started_in)
    with serve(folder / "start-0") as served:
        time.sleep(SETTLE_SECONDS)
        cpu, began = measure_process_cpu(served.process), time.perf_counter()
        time.sleep(idle_seconds)
        used = (measure_process_cpu(served.process) - cpu) / (time.perf_counter() - began)
        return Footprint(fresh, existing, idle_seconds, used, measure_memory(served.process))
