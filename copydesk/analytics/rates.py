"""Limits that are counted in this process's memory: for calls that are too many to count in a database."""

from collections.abc import Hashable
from math import ceil
from time import monotonic

from copydesk.core.limits import Limit, TooManyRequests

MOST_OWNERS = 100_000
"""With more in one window all begin anew: memory stays bounded, and so many are not held up one by one anyway."""


class Rate:
    """One window for all owners: it opens with the first request after the last one closed."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._used: dict[Hashable, int] = {}
        self._ends = 0.0

    def take(self, owner: Hashable) -> None:
        now = monotonic()
        if now >= self._ends or len(self._used) >= MOST_OWNERS:
            self._used = {}
            self._ends = now + self.limit.window / 1000
        used = self._used[owner] = self._used.get(owner, 0) + 1
        if used > self.limit.quota:
            reset = max(1, ceil(self._ends - now))
            raise TooManyRequests(
                f"The limit of {self.limit.quota} a minute is used up; try again in {reset} s.",
                headers={**self.limit.headers(0, reset), "Retry-After": str(reset)},
            )

    def left(self, owner: Hashable) -> dict[str, str]:
        """What is left to an owner, as headers."""
        left = self.limit.quota - self._used.get(owner, 0)
        return self.limit.headers(max(0, left), max(1, ceil(self._ends - monotonic())))
