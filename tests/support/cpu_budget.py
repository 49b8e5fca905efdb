"""Limits on CPU time that also hold on a slow or busy machine."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

_PATTERN = re.compile(r"(?P<word>[a-z]+)-(?P<number>\d+)")
_USUAL_REFERENCE_SECONDS = 0.01


@contextmanager
def limit_cpu(seconds: float) -> Iterator[None]:
    """Asserts that the block takes this thread at most `seconds` of CPU time, as measured on a typical machine.

    Runs a reference workload only if the block took longer, and then raises the limit by the factor by which this
    machine is currently slower.
    """
    began = thread_time()
    yield
    cpu_seconds = thread_time() - began
    if cpu_seconds > seconds:
        allowed = seconds * measure_slowness()
        assert cpu_seconds <= allowed, f"it took {cpu_seconds:.2f} s of CPU time, and {allowed:.2f} s are allowed"


def measure_slowness() -> float:
    """Returns the factor by which this machine is currently slower than a typical one, at least 1."""
    return max(1.0, max(_measure_reference() for _ in range(20)) / _USUAL_REFERENCE_SECONDS)


def _measure_reference() -> float:
    """Returns the CPU seconds that a fixed workload of calls, strings, dicts and matches currently takes."""
    began = thread_time()
    lengths: dict[str, int] = {}
    for number in range(10_000):
        match = _PATTERN.search(f"the word-{number} of a line")
        assert match is not None
        lengths[match["word"]] = lengths.get(match["word"], 0) + len(match["number"])
    assert lengths == {"word": 38_890}
    return thread_time() - began
