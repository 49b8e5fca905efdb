"""Measures the same change with git alone: check the repository out, edit the files, commit, push."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs.measure import median, own_cpu
from benchmarks.jobs.prompts import TASKS, Task
from benchmarks.jobs.repository import copy_of

AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "gc.auto=0")


@dataclass(frozen=True)
class Plain:
    files: int
    task: str
    way: str
    wall: float
    cpu: float
    """CPU milliseconds per job, of git, its remote side and the edit."""


def measure(folder: Path, repository: Path, files: int, jobs: int) -> list[Plain]:
    far = copy_of(repository, folder / f"plain-{files}.git")
    kept = folder / f"plain-{files}"
    _git(folder, "clone", "--quiet", "--bare", f"file://{far}", str(kept))
    checkout = folder / f"plain-{files}-checkout"
    ways: dict[str, Callable[[Task, str], None]] = {
        "clone --depth 1": lambda task, branch: _clone(far, checkout, task, branch),
        "fetch, worktree": lambda task, branch: _worktree(kept, checkout, task, branch),
    }
    return [_measure(files, task, name, way, jobs) for task in TASKS for name, way in ways.items()]


def _measure(files: int, task: Task, name: str, way: Callable[[Task, str], None], jobs: int) -> Plain:
    walls, cpu = [], own_cpu()
    for number in range(jobs):
        began = time.perf_counter()
        way(task, f"{name}-{task.name}-{number}".replace(" ", "_"))
        walls.append((time.perf_counter() - began) * 1000)
    return Plain(files, task.name, name, median(walls), (own_cpu() - cpu) / jobs * 1000)


def _clone(far: Path, checkout: Path, task: Task, branch: str) -> None:
    """Clones through file://, so that git uses its protocol as with any host; a bare path would be hard-linked."""
    _git(checkout.parent, "clone", "--quiet", "--depth", "1", "--branch", "main", f"file://{far}", str(checkout))
    _edit_and_push(checkout, task, branch)
    shutil.rmtree(checkout)


def _worktree(kept: Path, checkout: Path, task: Task, branch: str) -> None:
    _git(kept, "fetch", "--quiet", "origin", "+refs/heads/main:refs/heads/main")
    _git(kept, "worktree", "add", "--quiet", "--detach", str(checkout), "main")
    _edit_and_push(checkout, task, branch)
    _git(kept, "worktree", "remove", "--force", str(checkout))


def _edit_and_push(checkout: Path, task: Task, branch: str) -> None:
    task.edit(checkout)
    _git(checkout, "commit", "--quiet", "--all", "--message", "Change")
    _git(checkout, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")


def _git(folder: Path, *arguments: str) -> None:
    closed = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "-C", str(folder), *AUTHOR, *arguments], env=closed, check=True)
