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
from copydesk.core.errors import RequestError
from copydesk.core.rate_limits.limits import RateLimit, add_uses

MAX_OWNERS = 100_000
"""With more in one window all begin anew: memory stays bounded, and so many are not held up one by one anyway."""
SYNC_DIVISOR = 20
"""A process tells of its uses when they come to one in so many of those that are left."""
log = logging.getLogger(__name__)


class LocalRateLimiter:
    """Of this process alone. One window for all owners: it opens with the first request after the last one closed."""

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self._uses_by_owner: dict[Hashable, int] = {}
        self._window_ends_at = 0.0

    def consume(self, owner: Hashable) -> None:
        now = monotonic()
        if now >= self._window_ends_at or len(self._uses_by_owner) >= MAX_OWNERS:
            self._uses_by_owner = {}
            self._window_ends_at = now + self.limit.window_ms / 1000
        used = self._uses_by_owner[owner] = self._uses_by_owner.get(owner, 0) + 1
        if used > self.limit.quota:
            raise self.limit.exceeded_error(_round_up_seconds(self._window_ends_at - now))


class SharedRateLimiter:
    """Of all processes together. No request waits for the database: it is told from beside at an owner's first use in a
    window and then the more often the less is left, and tells what others used meanwhile. So each process lets through
    at most a twentieth too many. While the database is away, each process counts for itself."""

    def __init__(self, limit: RateLimit, database: Database, executor: Executor) -> None:
        """The caller owns the teller, which tells the database in a thread of its own, and shuts it down."""
        self.limit, self._database, self._executor = limit, database, executor
        self._windows: dict[str, _Window] = {}
        self._lock = Lock()

    def consume(self, owner: str) -> dict[str, str]:
        """Owners must be ones that exist: each is remembered. The headers say what is left."""
        now = monotonic()
        with self._lock:
            window = self._windows.get(owner)
            if window is None or now >= window.ends_at:
                window = self._windows[owner] = _Window(now + self.limit.window_ms / 1000)
            reset_seconds = _round_up_seconds(window.ends_at - now)
            if window.synced_uses + window.unsynced_uses >= self.limit.quota:
                raise self.limit.exceeded_error(reset_seconds)
            window.unsynced_uses += 1
            remaining = self.limit.quota - window.synced_uses
            if not window.is_syncing and (not window.synced_uses or window.unsynced_uses * SYNC_DIVISOR >= remaining):
                window.is_syncing = True
                with suppress(RuntimeError):  # the teller was shut down, because the process ends
                    self._executor.submit(self._sync, owner, window)
            return self.limit.headers(remaining - window.unsynced_uses, reset_seconds)

    def _sync(self, owner: str, window: "_Window") -> None:
        with self._lock:
            if monotonic() >= window.ends_at:  # what was used then is not of the window that is open now
                return
            uses = window.unsynced_uses
        try:
            with self._database.write() as tx:
                synced_uses, remaining = add_uses(self._database, tx, self.limit, owner, uses)
        except RequestError:
            window.is_syncing = False
        except Exception:  # not tried again in this window, as each request would
            log.exception("A limit could not be shared.")
        else:
            with self._lock:
                window.synced_uses, window.unsynced_uses = synced_uses, window.unsynced_uses - uses
                window.ends_at = monotonic() + remaining / 1000
                window.is_syncing = False


@dataclass
class _Window:
    ends_at: float
    synced_uses: int = 0
    """Uses of all processes, as the database last said."""
    unsynced_uses: int = 0
    """This process's since."""
    is_syncing: bool = False


def _round_up_seconds(remaining: float) -> int:
    return max(1, ceil(remaining))
