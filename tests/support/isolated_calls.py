"""Functions that tests call in a child process; it imports them from here."""

import os
import re
import time
from pathlib import Path

_held_memory: list[bytearray] = []
_read_repositories: set[str] = set()


class Unpicklable(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def match_forever() -> None:
    """Backtracks practically without end."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def sleep_forever() -> None:
    """Waits without using CPU time."""
    time.sleep(3600)


def write_pid_and_match_forever(file: str) -> None:
    Path(file).write_text(str(os.getpid()))
    match_forever()


def raise_unpicklable() -> None:
    raise Unpicklable("not", "portable")


def keep_memory(size: int) -> int:
    """Holds memory after the call, as a cache does."""
    _held_memory.append(bytearray(size))
    return os.getpid()


def burn_and_get_pid(seconds: float) -> int:
    """Takes this much CPU time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return os.getpid()


def read_repository(name: str, cold_seconds: float, go: str = "") -> tuple[int, bool]:
    """Takes long only at the first call in a process, as work does that fills a cache.

    Then waits until the file `go` exists. Returns the process id, and whether the repository was cached."""
    was_cached = name in _read_repositories
    if not was_cached:
        time.sleep(cold_seconds)
        _read_repositories.add(name)
    _wait_for_files(go)
    return os.getpid(), was_cached


def wait_for_go(pid_file: str, go: str) -> int:
    """Writes the process id to a file, and waits until the file `go` exists."""
    Path(pid_file).write_text(str(os.getpid()))
    _wait_for_files(go)
    return os.getpid()


def meet(own_file: str, other_file: str, kept_memory: int = 0) -> int:
    """Returns only if another call writes the other file at the same time."""
    _held_memory.append(bytearray(kept_memory))
    Path(own_file).touch()
    _wait_for_files(other_file)
    return os.getpid()


def _wait_for_files(*files: str) -> None:
    end = time.monotonic() + 60
    while not all(Path(file).exists() for file in files if file):
        if time.monotonic() > end:
            raise TimeoutError(files)
        time.sleep(0.005)
