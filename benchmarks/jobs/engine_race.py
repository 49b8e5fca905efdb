"""The workload of both engines: enqueue, run three trivial durable steps each, four at once, read every result."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.jobs.measure import percentile

Handle = TypeVar("Handle")
STEPS_PER_WORKFLOW = 3
CONCURRENT_WORKFLOWS = 4
WARM_UP_JOBS = 40


@dataclass(frozen=True)
class EngineRound:
    per_second: float
    cpu: float
    """CPU milliseconds per job, of the engine's process."""
    enqueue_p50: float
    enqueue_p99: float
    """Milliseconds that the caller waits while the worker is busy."""


def run_race(
    jobs: int,
    enqueue: Callable[[], Handle],
    ended: threading.Semaphore,
    result: Callable[[Handle], object],
) -> EngineRound:
    """Runs the workload.

    Each workflow releases `ended` in its last line; `result` reads from the database that it succeeded.
    """
    _run_lap(WARM_UP_JOBS, enqueue, ended, result)
    cpu, began = time.process_time(), time.perf_counter()
    waits = _run_lap(jobs, enqueue, ended, result)
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    return EngineRound(jobs / seconds, used / jobs * 1000, percentile(waits, 50), percentile(waits, 99))


def _run_lap(
    jobs: int, enqueue: Callable[[], Handle], ended: threading.Semaphore, result: Callable[[Handle], object]
) -> list[float]:
    handles, waits = [], []
    for _ in range(jobs):
        enqueued_at = time.perf_counter()
        handles.append(enqueue())
        waits.append((time.perf_counter() - enqueued_at) * 1000)
    for _ in range(jobs):
        ended.acquire()
    for handle in handles:
        result(handle)
    return waits
