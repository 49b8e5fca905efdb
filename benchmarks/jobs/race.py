"""The workload of both engines: enqueue, run three trivial durable steps each, four at once, read every result."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.jobs.measure import percentile

Handle = TypeVar("Handle")
STEPS = 3
AT_ONCE = 4
WARM_UP = 40


@dataclass(frozen=True)
class Round:
    per_second: float
    cpu: float
    """CPU milliseconds per job, of the engine's process."""
    enqueue_p50: float
    enqueue_p99: float
    """Milliseconds that the caller waits while the worker is busy."""


def race(
    jobs: int,
    enqueue: Callable[[], Handle],
    ended: threading.Semaphore,
    result: Callable[[Handle], object],
) -> Round:
    """Runs the workload.

    Each workflow releases `ended` in its last line; `result` reads from the database that it succeeded.
    """
    _lap(WARM_UP, enqueue, ended, result)
    cpu, began = time.process_time(), time.perf_counter()
    waits = _lap(jobs, enqueue, ended, result)
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    return Round(jobs / seconds, used / jobs * 1000, percentile(waits, 50), percentile(waits, 99))


def _lap(
    jobs: int, enqueue: Callable[[], Handle], ended: threading.Semaphore, result: Callable[[Handle], object]
) -> list[float]:
    handles, waits = [], []
    for _ in range(jobs):
        asked = time.perf_counter()
        handles.append(enqueue())
        waits.append((time.perf_counter() - asked) * 1000)
    for _ in range(jobs):
        ended.acquire()
    for handle in handles:
        result(handle)
    return waits
