"""Measures jobs from the request to the pull request, with the embedded model, on repositories of several sizes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs.measure import family_cpu, family_memory, median, peak_memory_of
from benchmarks.jobs.prompts import TASKS, Task
from benchmarks.jobs.repository import copy_of
from benchmarks.jobs.service import Account, Served, account, serve


@dataclass(frozen=True)
class Edits:
    files: int
    task: str
    cold_wall: float | None
    cold_cpu: float | None
    """Of the first job on a repository, which clones it. None for the second task, which finds a warm mirror."""
    warm_wall: float
    """Of jobs one after another, median."""
    warm_cpu: float
    """Per job, of the server, its child processes and every git process, over all warm jobs. All in milliseconds."""
    per_second: float
    busy_cpu: float
    """CPU cores in use while several jobs run at once."""
    peak_memory: float
    """Megabytes: the peak of the server process, or the server with its children at the end, whichever is larger."""


def measure(folder: Path, repository: Path, files: int, alone: int, together: int) -> list[Edits]:
    data = folder / f"edits-{files}"
    mine = copy_of(repository, folder / f"edits-{files}.git")
    with account(data, mine) as owner, serve(data) as served:
        return [_measure(owner, served, files, task, alone, together) for task in TASKS]


def _measure(owner: Account, served: Served, files: int, task: Task, alone: int, together: int) -> Edits:
    is_first = task is TASKS[0]
    begin = family_cpu(served.process)
    cold = owner.wait_for([owner.create(served.port, task.prompt)]) if is_first else []
    warm = family_cpu(served.process)
    walls = [owner.wait_for([owner.create(served.port, task.prompt)])[0] for _ in range(alone)]
    busy = family_cpu(served.process)
    seconds = _together(owner, served, [task.prompt] * together)
    end = family_cpu(served.process)
    return Edits(
        files=files,
        task=task.name,
        cold_wall=cold[0] * 1000 if is_first else None,
        cold_cpu=(warm - begin) * 1000 if is_first else None,
        warm_wall=median(walls) * 1000,
        warm_cpu=(end - warm) / (alone + together) * 1000,
        per_second=together / seconds,
        busy_cpu=(end - busy) / seconds,
        peak_memory=max(peak_memory_of(served.process), family_memory(served.process)),
    )


def _together(owner: Account, served: Served, prompts: Sequence[str]) -> float:
    """Creates the jobs as fast as the service accepts them; returns the seconds until the last one ended."""
    began = time.perf_counter()
    owner.wait_for([owner.create(served.port, prompt) for prompt in prompts])
    return time.perf_counter() - began
