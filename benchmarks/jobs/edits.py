"""Measures jobs from the request to the pull request, with the embedded model, on repositories of several sizes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs.measure import measure_family_cpu, measure_family_memory, measure_peak_memory, median
from benchmarks.jobs.prompts import EDIT_TASKS, EditTask
from benchmarks.jobs.repository import copy_repository
from benchmarks.jobs.service import BenchmarkAccount, RunningService, open_account, serve


@dataclass(frozen=True)
class EditMeasurement:
    files: int
    task: str
    cold_wall: float | None
    cold_cpu: float | None
    """Milliseconds of the first job on a repository, which clones it; None for the second task."""
    warm_wall: float
    """Median milliseconds of jobs that run one after another."""
    warm_cpu: float
    """Milliseconds per warm job of the server, its child processes and every git process."""
    per_second: float
    busy_cpu: float
    """CPU cores in use while several jobs run at once."""
    peak_memory: float
    """Megabytes: the peak of the server process, or the server with its children at the end, whichever is larger."""


def measure_edits(folder: Path, repository: Path, files: int, alone: int, together: int) -> list[EditMeasurement]:
    data = folder / f"edits-{files}"
    repository_copy = copy_repository(repository, folder / f"edits-{files}.git")
    with open_account(data, repository_copy) as owner, serve(data) as served:
        return [_measure_task(owner, served, files, task, alone, together) for task in EDIT_TASKS]


def _measure_task(
    owner: BenchmarkAccount, served: RunningService, files: int, task: EditTask, alone: int, together: int
) -> EditMeasurement:
    is_first = task is EDIT_TASKS[0]
    begin = measure_family_cpu(served.process)
    cold = owner.wait_for([owner.create(served.port, task.prompt)]) if is_first else []
    warm = measure_family_cpu(served.process)
    walls = [owner.wait_for([owner.create(served.port, task.prompt)])[0] for _ in range(alone)]
    busy = measure_family_cpu(served.process)
    seconds = _measure_concurrent_jobs(owner, served, [task.prompt] * together)
    end = measure_family_cpu(served.process)
    return EditMeasurement(
        files=files,
        task=task.name,
        cold_wall=cold[0] * 1000 if is_first else None,
        cold_cpu=(warm - begin) * 1000 if is_first else None,
        warm_wall=median(walls) * 1000,
        warm_cpu=(end - warm) / (alone + together) * 1000,
        per_second=together / seconds,
        busy_cpu=(end - busy) / seconds,
        peak_memory=max(measure_peak_memory(served.process), measure_family_memory(served.process)),
    )


def _measure_concurrent_jobs(owner: BenchmarkAccount, served: RunningService, prompts: Sequence[str]) -> float:
    """Creates the jobs as fast as the service accepts them; returns the seconds until the last one ended."""
    began = time.perf_counter()
    owner.wait_for([owner.create(served.port, prompt) for prompt in prompts])
    return time.perf_counter() - began
