"""Functions that tests call in a child process; it imports them from here."""

import os
import re
import time
from pathlib import Path

_held_memory: list[bytearray] = []


class Unpicklable(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def match_forever() -> None:
    """Backtracks practically without end."""
    re.match(r"(a+)+$", "a" * 60 + "b")


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
