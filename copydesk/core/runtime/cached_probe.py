"""Asking what may never answer: in a thread of its own, one at a time, and the answer is good for a second."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")

KEPT_SECONDS = 1.0


class Asked(Generic[T]):
    """However often and by however many it is asked, at most one thread hangs, and none that holds up the end."""

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._lock = threading.Lock()
        self._answer: Future[T] | None = None
        self._answered_at = 0.0

    def begin(self) -> Future[T]:
        """The answer to come, or the last one while it is good; who waits for it says how long."""
        with self._lock:
            answer = self._answer
            if answer is None or (answer.done() and time.monotonic() > self._answered_at + KEPT_SECONDS):
                answer = self._answer = Future()
                threading.Thread(target=self._ask, args=(answer,), name="asked", daemon=True).start()
            return answer

    def _ask(self, answer: "Future[T]") -> None:
        try:
            result = self._act()
        except Exception as error:
            self._answered_at = time.monotonic()
            answer.set_exception(error)
        else:
            self._answered_at = time.monotonic()
            answer.set_result(result)
