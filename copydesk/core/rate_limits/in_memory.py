"""Limits for calls that are too many to write each of them down: counted in memory, and shared now and then."""

import logging
from collections.abc import Hashable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from threading import Lock
from time import monotonic

from copydesk.core.db.database import Database
from copydesk.core.errors import Refusal
from copydesk.core.rate_limits.limits import Limit, add

MOST_OWNERS = 100_000
"""With more in one window all begin anew: memory stays bounded, and so many are not held up one by one anyway."""
SHARE = 20
"""A process tells of its uses when they come to one in so many of those that are left."""
log = logging.getLogger(__name__)


class Rate:
    """Of this process alone. One window for all owners: it opens with the first request after the last one closed."""

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
            raise self.limit.used_up(_seconds(self._ends - now))


class SharedRate:
    """Of all processes together. No request waits for the database: it is told from beside at an owner's first use in a
    window and then the more often the less is left, and tells what others used meanwhile. So each process lets through
    at most a twentieth too many. While the database is away, each process counts for itself."""

    def __init__(self, limit: Limit, database: Database, teller: Executor) -> None:
        """The caller owns the teller, which tells the database in a thread of its own, and shuts it down."""
        self.limit, self._database, self._teller = limit, database, teller
        self._windows: dict[str, _Window] = {}
        self._lock = Lock()

    def take(self, owner: str) -> dict[str, str]:
        """Owners must be ones that exist: each is remembered. The headers say what is left."""
        now = monotonic()
        with self._lock:
            window = self._windows.get(owner)
            if window is None or now >= window.ends:
                window = self._windows[owner] = _Window(now + self.limit.window / 1000)
            reset = _seconds(window.ends - now)
            if window.told + window.untold >= self.limit.quota:
                raise self.limit.used_up(reset)
            window.untold += 1
            left = self.limit.quota - window.told
            if not window.is_telling and (not window.told or window.untold * SHARE >= left):
                window.is_telling = True
                with suppress(RuntimeError):  # the teller was shut down, because the process ends
                    self._teller.submit(self._tell, owner, window)
            return self.limit.headers(left - window.untold, reset)

    def _tell(self, owner: str, window: "_Window") -> None:
        with self._lock:
            if monotonic() >= window.ends:  # what was used then is not of the window that is open now
                return
            uses = window.untold
        try:
            with self._database.write() as tx:
                told, remaining = add(self._database, tx, self.limit, owner, uses)
        except Refusal:
            window.is_telling = False
        except Exception:  # not tried again in this window, as each request would
            log.exception("A limit could not be shared.")
        else:
            with self._lock:
                window.told, window.untold = told, window.untold - uses
                window.ends = monotonic() + remaining / 1000
                window.is_telling = False


@dataclass
class _Window:
    ends: float
    told: int = 0
    """Uses of all processes, as the database last said."""
    untold: int = 0
    """This process's since."""
    is_telling: bool = False


def _seconds(remaining: float) -> int:
    return max(1, ceil(remaining))
