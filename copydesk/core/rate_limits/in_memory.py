"""In-memory rate limits, for calls that are too frequent to count each of them in the database."""

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
"""With more owners in one window, all counts restart, to bound memory. Limits per owner would not help then anyway."""
SYNC_DIVISOR = 20
"""A process synchronizes when its new uses reach the remaining quota divided by this."""
log = logging.getLogger(__name__)


class LocalRateLimiter:
    """A rate limit within this process.

    All owners share one window, which starts with the first request after the last window ended.
    """

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
    """A rate limit over all processes that never makes a request wait for the database.

    Uses are counted in memory and synchronized with the database in the background: at an owner's first use in a
    window, then more often as the quota runs out, so that each process exceeds it by at most 1/SYNC_DIVISOR. While the
    database is unavailable, each process counts alone.
    """

    def __init__(self, limit: RateLimit, database: Database, executor: Executor) -> None:
        """Takes the executor that synchronizes with the database. The caller owns it and shuts it down."""
        self.limit = limit
        self._database = database
        self._executor = executor
        self._windows: dict[str, _Window] = {}
        self._lock = Lock()

    def consume(self, owner: str) -> dict[str, str]:
        """Counts one use and returns the rate-limit headers. Pass only existing owners, since each takes memory."""
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
                with suppress(RuntimeError):  # the executor was shut down, because the process ends
                    self._executor.submit(self._sync, owner, window)
            return self.limit.headers(remaining - window.unsynced_uses, reset_seconds)

    def _sync(self, owner: str, window: "_Window") -> None:
        with self._lock:
            if monotonic() >= window.ends_at:  # these uses belong to a window that has ended
                return
            uses = window.unsynced_uses
        try:
            with self._database.write() as tx:
                synced_uses, remaining = add_uses(self._database, tx, self.limit, owner, uses)
        except RequestError:
            window.is_syncing = False
        except Exception:  # still `is_syncing`, so that no request retries in this window
            log.exception("Could not synchronize a rate limit with the database.")
        else:
            with self._lock:
                window.synced_uses = synced_uses
                window.unsynced_uses -= uses
                window.ends_at = monotonic() + remaining / 1000
                window.is_syncing = False


@dataclass
class _Window:
    ends_at: float
    synced_uses: int = 0
    """Uses of all processes at the last synchronization."""
    unsynced_uses: int = 0
    """Uses of this process since then."""
    is_syncing: bool = False


def _round_up_seconds(remaining: float) -> int:
    return max(1, ceil(remaining))
