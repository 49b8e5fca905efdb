"""Measures the same change with git alone: check the repository out, edit the files, commit, push."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs.measure import measure_own_cpu, median
from benchmarks.jobs.prompts import EDIT_TASKS, EditTask
from benchmarks.jobs.repository import copy_repository

GIT_OPTIONS = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "gc.auto=0")


@dataclass(frozen=True)
class PlainGitMeasurement:
    files: int
    task: str
    way: str
    wall: float
    cpu: float
    """CPU milliseconds per job, of git, its remote side and the edit."""


def measure_plain_git(folder: Path, repository: Path, files: int, jobs: int) -> list[PlainGitMeasurement]:
    remote = copy_repository(repository, folder / f"plain-{files}.git")
    clone = folder / f"plain-{files}"
    _run_git(folder, "clone", "--quiet", "--bare", f"file://{remote}", str(clone))
    checkout = folder / f"plain-{files}-checkout"
    ways: dict[str, Callable[[EditTask, str], None]] = {
        "clone --depth 1": lambda task, branch: _clone(remote, checkout, task, branch),
        "fetch, worktree": lambda task, branch: _worktree(clone, checkout, task, branch),
    }
    return [_measure_method(files, task, name, method, jobs) for task in EDIT_TASKS for name, method in ways.items()]


def _measure_method(
    files: int, task: EditTask, name: str, method: Callable[[EditTask, str], None], jobs: int
) -> PlainGitMeasurement:
    walls, cpu = [], measure_own_cpu()
    for number in range(jobs):
        began = time.perf_counter()
        method(task, f"{name}-{task.name}-{number}".replace(" ", "_"))
        walls.append((time.perf_counter() - began) * 1000)
    return PlainGitMeasurement(files, task.name, name, median(walls), (measure_own_cpu() - cpu) / jobs * 1000)


def _clone(remote: Path, checkout: Path, task: EditTask, branch: str) -> None:
    """Clones through file://, so that git uses its protocol as with any host; a bare path would be hard-linked."""
    _run_git(checkout.parent, "clone", "--quiet", "--depth", "1", "--branch", "main", f"file://{remote}", str(checkout))
    _edit_and_push(checkout, task, branch)
    shutil.rmtree(checkout)


def _worktree(clone: Path, checkout: Path, task: EditTask, branch: str) -> None:
    _run_git(clone, "fetch", "--quiet", "origin", "+refs/heads/main:refs/heads/main")
    _run_git(clone, "worktree", "add", "--quiet", "--detach", str(checkout), "main")
    _edit_and_push(checkout, task, branch)
    _run_git(clone, "worktree", "remove", "--force", str(checkout))


def _edit_and_push(checkout: Path, task: EditTask, branch: str) -> None:
    task.edit(checkout)
    _run_git(checkout, "commit", "--quiet", "--all", "--message", "Change")
    _run_git(checkout, "push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")


def _run_git(folder: Path, *arguments: str) -> None:
    closed = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "-C", str(folder), *GIT_OPTIONS, *arguments], env=closed, check=True)
