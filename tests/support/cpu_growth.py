"""Whether CPU time grows in proportion to the input: a ratio, which holds on a slow or busy machine too."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from types import FrameType
from typing import NamedTuple

FACTOR = 4
MAX_GROWTH = 8.0
"""For an input of four times the length: proportional growth is 4, that of the square 16."""
LEAST_SECONDS = 0.004
"""What takes less is not measured well, and does no harm."""
HOPELESS_SECONDS = 30.0
"""After which a run is stopped: it would take minutes, or for ever."""
ATTEMPTS = 3

Run = Callable[[str], object]


class Pump(NamedTuple):
    """A text of any length: a piece that is repeated, with something before and after it."""

    piece: str
    prefix: str = ""
    suffix: str = ""

    def text(self, size: int) -> str:
        return self.prefix + self.piece * max(1, size // max(1, len(self.piece))) + self.suffix


class TooSlow(AssertionError):
    """The CPU time grows faster than the input."""


def assert_linear(run: Run, pump: Pump, size: int) -> None:
    """Raises TooSlow when four times the input takes more than eight times as long.

    A ratio that is too large is measured again, with more runs and more input, before it counts: noise goes away,
    and growth with the square shows more clearly."""
    measured = []
    for attempt in range(ATTEMPTS):
        runs = 2 + attempt
        small, large = (_least_seconds(run, pump.text(length), runs) for length in (size, FACTOR * size))
        if large < LEAST_SECONDS or large <= MAX_GROWTH * small:
            return
        measured.append(f"{size} characters {small * 1e3:.1f} ms, {FACTOR * size} {large * 1e3:.1f} ms")
        size += size // 2
    raise TooSlow(f"{pump}: {'; '.join(measured)}")


def assert_cheap(run: Run, pump: Pump, size: int, plain: Pump, times: float) -> None:
    """Raises TooSlow when a text of this length takes more than so many times as long as a plain one.

    For input that is bounded, where a cost need not be proportional to be harmless."""
    for attempt in range(ATTEMPTS):
        runs = 1 + 2 * attempt
        usual, spent = (_least_seconds(run, each.text(size), runs) for each in (plain, pump))
        if spent <= times * usual:
            return
    raise TooSlow(f"{pump}: {spent * 1e3:.1f} ms, and {usual * 1e3:.1f} ms for {plain}")


def _least_seconds(run: Run, text: str, runs: int) -> float:
    """Returns the CPU seconds of the fastest of several runs, which has the least noise in it."""
    spent = []
    with _stop_hopeless(text):
        for _ in range(runs):
            began = thread_time()
            run(text)
            spent.append(thread_time() - began)
    return min(spent)


@contextmanager
def _stop_hopeless(text: str) -> Iterator[None]:
    """Raises TooSlow in a run that does not end. Patterns look for signals now and then, as Python code does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"{len(text)} characters, {text[:60]!r}…, took over {HOPELESS_SECONDS:.0f} s of CPU time.")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, HOPELESS_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
