"""Asserts that CPU time grows in proportion to the input: a ratio, which also holds on a slow or busy machine."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from types import FrameType
from typing import NamedTuple

FACTOR = 4
MAX_GROWTH = 8.0
"""For an input of four times the length: proportional growth is 4, quadratic growth is 16."""
MIN_MEASURED_SECONDS = 0.004
"""Shorter runs cannot be measured well, and do no harm."""
MAX_RUN_SECONDS = 30.0
"""A run that takes longer is stopped: it would take minutes, or never end."""
ATTEMPTS = 3

Run = Callable[[str], object]


class Pump(NamedTuple):
    """A text of any length: a repeated piece, with a prefix and a suffix."""

    piece: str
    prefix: str = ""
    suffix: str = ""

    def text(self, size: int) -> str:
        return self.prefix + self.piece * max(1, size // max(1, len(self.piece))) + self.suffix


class TooSlow(AssertionError):
    """The CPU time grows faster than the input."""


def assert_linear(run: Run, pump: Pump, size: int) -> None:
    """Raises TooSlow if four times the input takes more than eight times as long.

    Measures a ratio that is too large again, with more runs and more input, before it counts: this removes noise and
    makes quadratic growth clearer.
    """
    measured = []
    for attempt in range(ATTEMPTS):
        runs = 2 + attempt
        small, large = (_measure_fastest_run(run, pump.text(length), runs) for length in (size, FACTOR * size))
        if large < MIN_MEASURED_SECONDS or large <= MAX_GROWTH * small:
            return
        measured.append(f"{size} characters {small * 1e3:.1f} ms, {FACTOR * size} {large * 1e3:.1f} ms")
        size += size // 2
    raise TooSlow(f"{pump}: {'; '.join(measured)}")


def assert_cheap(run: Run, pump: Pump, size: int, plain: Pump, times: float) -> None:
    """Raises TooSlow if a text of this length takes more than `times` as long as a plain one.

    For limited input, where a cost may grow faster than the input without harm.
    """
    for attempt in range(ATTEMPTS):
        runs = 1 + 2 * attempt
        usual, actual = (_measure_fastest_run(run, each.text(size), runs) for each in (plain, pump))
        if actual <= times * usual:
            return
    raise TooSlow(f"{pump}: {actual * 1e3:.1f} ms, and {usual * 1e3:.1f} ms for {plain}")


def _measure_fastest_run(run: Run, text: str, runs: int) -> float:
    """Returns the CPU seconds of the fastest of several runs, which has the least noise."""
    durations = []
    with _limit_run_time(text):
        for _ in range(runs):
            began = thread_time()
            run(text)
            durations.append(thread_time() - began)
    return min(durations)


@contextmanager
def _limit_run_time(text: str) -> Iterator[None]:
    """Raises TooSlow in a run that does not end.

    Regular expressions check for signals regularly, as Python code does.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"{len(text)} characters, {text[:60]!r}…, took over {MAX_RUN_SECONDS:.0f} s of CPU time.")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_RUN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
