"""Asking what may never answer: in a thread of its own, one at a time, and the answer is good for a second."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")

CACHE_SECONDS = 1.0


class CachedProbe(Generic[T]):
    """However often and by however many it is asked, at most one thread hangs, and none that holds up the end."""

    def __init__(self, probe: Callable[[], T]) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._future: Future[T] | None = None
        self._finished_at = 0.0

    def start(self) -> Future[T]:
        """The answer to come, or the last one while it is good; who waits for it says how long."""
        with self._lock:
            future = self._future
            if future is None or (future.done() and time.monotonic() > self._finished_at + CACHE_SECONDS):
                future = self._future = Future()
                threading.Thread(target=self._run, args=(future,), name="asked", daemon=True).start()
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
