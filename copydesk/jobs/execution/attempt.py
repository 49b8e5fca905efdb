"""One try of a worker at a run, which can be stopped at any moment."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from copydesk.jobs.execution.queue import Claim

T = TypeVar("T")

STOP_GRACE_SECONDS = 60.0


class AttemptStopped(Exception):
    """The attempt was stopped: it timed out, it lost its lease, or the worker is shutting down."""


class Attempt:
    """One attempt at a run. It can be stopped from outside, even during a model call or a git command."""

    def __init__(self, claim: Claim, seconds: float) -> None:
        self.claim = claim
        self.deadline = time.monotonic() + seconds
        self.timed_out = False
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._cancels: list[Callable[[], object]] = []

    def stop(self, *, timed_out: bool = False) -> None:
        with self._lock:
            self.timed_out = self.timed_out or timed_out
            self._stopped.set()
            for cancel in self._cancels:
                cancel()

    @property
    def is_stuck(self) -> bool:
        """Returns whether the attempt still runs long after its deadline. Its lease is then no longer renewed."""
        return time.monotonic() > self.deadline + STOP_GRACE_SECONDS

    def raise_if_stopped(self) -> None:
        if self._stopped.is_set():
            raise AttemptStopped

    def pause(self, seconds: float) -> None:
        """Waits. Raises AttemptStopped as soon as the attempt is stopped."""
        self._stopped.wait(seconds)
        self.raise_if_stopped()

    @contextmanager
    def stoppable(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Makes stop() also call `cancel` while the body runs.

        Raises AttemptStopped if the body returns after a stop, so that the caller does not see a failed result."""
        with self._lock:
            self._cancels.append(cancel)
        try:
            self.raise_if_stopped()
            yield
        finally:
            with self._lock:
                self._cancels.remove(cancel)
        self.raise_if_stopped()

    def run_coroutine(self, runner: asyncio.Runner, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end. Cancels it and raises AttemptStopped when stop() is called."""

        async def _run() -> T:
            task = asyncio.ensure_future(coroutine)
            loop = asyncio.get_running_loop()
            with self.stoppable(lambda: loop.call_soon_threadsafe(task.cancel)):
                return await task

        try:
            return runner.run(_run())
        except (asyncio.CancelledError, AttemptStopped):
            coroutine.close()
            raise AttemptStopped from None
