"""A probe that may hang: runs in a separate thread, one at a time, and its result is cached for a second."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")

CACHE_SECONDS = 1.0


class CachedProbe(Generic[T]):
    """Runs a probe that may hang in a daemon thread, and caches its result for CACHE_SECONDS.

    Callers that come while it runs share it (single flight), so at most one thread is ever stuck. A daemon thread does
    not delay the end of the process.
    """

    def __init__(self, probe: Callable[[], T]) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._future: Future[T] | None = None
        self._finished_at = 0.0

    def start(self) -> Future[T]:
        """Returns the running or cached probe as a future; starts a new probe when the cache has expired.

        The caller chooses the timeout when it waits for the future.
        """
        with self._lock:
            future = self._future
            if future is None or (future.done() and time.monotonic() > self._finished_at + CACHE_SECONDS):
                future = self._future = Future()
                threading.Thread(target=self._run, args=(future,), name="probe", daemon=True).start()
            return future

    def _run(self, future: "Future[T]") -> None:
        try:
            result = self._probe()
        except Exception as error:
            self._finished_at = time.monotonic()
            future.set_exception(error)
        else:
            self._finished_at = time.monotonic()
            future.set_result(result)
