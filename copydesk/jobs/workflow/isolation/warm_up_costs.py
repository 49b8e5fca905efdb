"""Remembers how much longer a task takes in a child process that has not run it before."""

from typing import NamedTuple

MAX_TASKS = 1000
WARM_DECAY = 0.9
"""Share of the longest warm call that counts after one more warm call."""


class Task(NamedTuple):
    """A function and the repository that it reads. A child that has run a task has parts of its input in caches."""

    repository: str
    function: str


class _Durations(NamedTuple):
    cold_seconds: float
    """Duration of the latest call in a child that had not run the task before."""
    warm_seconds: float
    """Duration of the slowest recent call in a child that had run the task before, or 0 if there was none."""


class WarmUpCosts:
    """Durations of the most recently used tasks. Compares with slow warm calls, so that a cost is rather too low:
    a task whose calls vary much does not seem to gain from a cache."""

    def __init__(self) -> None:
        self._durations: dict[Task, _Durations] = {}

    def estimate(self, task: Task) -> float | None:
        """Returns the seconds that a cold call takes longer than a warm one, or None if the task is unknown."""
        durations = self._durations.get(task)
        return None if durations is None else max(0.0, durations.cold_seconds - durations.warm_seconds)

    def record_cold(self, task: Task, seconds: float) -> None:
        known = self._durations.get(task)
        self._store(task, _Durations(seconds, known.warm_seconds if known else 0.0))

    def record_warm(self, task: Task, seconds: float) -> None:
        known = self._durations.get(task)
        if known is not None:
            self._store(task, _Durations(known.cold_seconds, max(seconds, WARM_DECAY * known.warm_seconds)))

    def record_lost_cache(self, task: Task, seconds: float) -> None:
        """Records a call whose child had to be ended: the next call gains nothing from it."""
        self._store(task, _Durations(seconds, seconds))

    def _store(self, task: Task, durations: _Durations) -> None:
        self._durations.pop(task, None)
        self._durations[task] = durations
        if len(self._durations) > MAX_TASKS:
            del self._durations[next(iter(self._durations))]
