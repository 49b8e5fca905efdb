"""The worker: claims runs, carries each out in a thread of its own, and keeps their leases alive."""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from copydesk.core.errors import StoreDown
from copydesk.core.ids import random_text
from copydesk.jobs.queue import Claim, Queue
from copydesk.jobs.records import QUEUE, STOP

log = logging.getLogger(__name__)
T = TypeVar("T")

IDLE_SECONDS = 5.0
HOUSEKEEPING_SECONDS = 60.0
STUCK_SECONDS = 60.0


class Interrupted(Exception):
    """The attempt was told to stop: its time is over, its claim is lost, or the worker shuts down."""


class Attempt:
    """One try at a run, which can be stopped from outside even inside a model call or a git command."""

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
        """It was told to stop long ago and did not: its lease is left to run out."""
        return time.monotonic() > self.deadline + STUCK_SECONDS

    def check(self) -> None:
        if self._stopped.is_set():
            raise Interrupted

    def pause(self, seconds: float) -> None:
        """Waits, unless it is told to stop."""
        self._stopped.wait(seconds)
        self.check()

    @contextmanager
    def stoppable(self, cancel: Callable[[], object]) -> Iterator[None]:
        """While the body runs, stop() also calls `cancel`. What was stopped ends as Interrupted, not as a failure."""
        with self._lock:
            self._cancels.append(cancel)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._cancels.remove(cancel)
        self.check()

    def wait_for(self, runner: asyncio.Runner, awaited: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end, or to the moment of stop()."""

        async def _run() -> T:
            task = asyncio.ensure_future(awaited)
            loop = asyncio.get_running_loop()
            with self.stoppable(lambda: loop.call_soon_threadsafe(task.cancel)):
                return await task

        try:
            return runner.run(_run())
        except (asyncio.CancelledError, Interrupted):
            awaited.close()
            raise Interrupted from None


class Workflow(Protocol):
    def perform(self, attempt: Attempt) -> None: ...

    def housekeeping(self) -> None: ...


class Worker:
    def __init__(self, queue: Queue, workflow: Workflow, *, slots: int, job_seconds: float) -> None:
        self.id = f"{socket.gethostname()}:{os.getpid()}:{random_text(6)}"
        self.queue, self.workflow = queue, workflow
        self.slots, self.job_seconds = slots, job_seconds
        self._signals = queue.database.signals
        self._running: dict[str, Attempt] = {}
        self._abandoned: set[str] = set()
        self._lock = threading.Condition()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Works until stop() is called, then hands back what is under way."""
        heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        heart.start()
        threading.Thread(target=self._tidy, name="housekeeping", daemon=True).start()
        poll = min(IDLE_SECONDS, self.queue.bounds.lease / 2000)
        while not self._stopping.is_set():
            mark = self._signals.mark(QUEUE)
            with self._lock:
                self._lock.wait_for(lambda: len(self._running) < self.slots or self._stopping.is_set())
            if not self._stopping.is_set() and not self._claim_one():
                self._signals.wait(QUEUE, mark, poll)
        self._drain()
        heart.join()

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            self._lock.notify_all()
        self._signals.wake(QUEUE)
        self._signals.wake(STOP)

    def _claim_one(self) -> bool:
        try:
            claim = self.queue.claim(self.id)
        except Exception as error:  # whatever it is, a worker that goes on is worth more than one that is gone
            log.warning("no job can be claimed right now: %s", error, exc_info=not isinstance(error, StoreDown))
            self._stopping.wait(1)
            return False
        if claim is None:
            return False
        attempt = Attempt(claim, self.job_seconds - claim.age / 1000)
        with self._lock:
            overtaken = self._running.get(claim.run_id)
            self._running[claim.run_id] = attempt
        if overtaken is not None:  # after a long pause a worker may take its own run over
            overtaken.stop()
        threading.Thread(target=self._carry_out, args=(attempt,), name=claim.run_id, daemon=True).start()
        return True

    def _carry_out(self, attempt: Attempt) -> None:
        try:
            self.workflow.perform(attempt)
        except StoreDown:
            log.warning("run %s stopped: the database is away; it is given back when it returns", attempt.claim.run_id)
            with self._lock:
                self._abandoned.add(attempt.claim.run_id)
        except Exception:
            log.exception("run %s stopped; it is taken up again when its lease is over", attempt.claim.run_id)
        finally:
            with self._lock:
                if self._running.get(attempt.claim.run_id) is attempt:
                    del self._running[attempt.claim.run_id]
                self._lock.notify_all()

    def _beat(self) -> None:
        """Renews the leases, and stops what is over or no longer ours."""
        interval = self.queue.bounds.lease / 3000
        while not self._stopping.is_set():
            mark = self._signals.mark(STOP)
            try:
                self._renew()
            except Exception as error:
                log.warning("leases could not be renewed: %s", error, exc_info=not isinstance(error, StoreDown))
            self._signals.wait(STOP, mark, min(interval, IDLE_SECONDS))

    def _tidy(self) -> None:
        while not self._stopping.wait(HOUSEKEEPING_SECONDS):
            try:
                self.workflow.housekeeping()
            except Exception as error:
                log.warning("housekeeping failed: %s", error, exc_info=not isinstance(error, StoreDown))

    def _renew(self) -> None:
        with self._lock:
            running = {run: attempt for run, attempt in self._running.items() if not attempt.is_stuck}
            abandoned = self._abandoned - self._running.keys()
        self.queue.release(self.id, abandoned)
        self._abandoned -= abandoned
        ours = self.queue.renew(self.id, running.keys())
        for run_id, attempt in running.items():
            if run_id not in ours:
                attempt.stop()
            elif time.monotonic() > attempt.deadline:
                attempt.stop(timed_out=True)

    def _drain(self) -> None:
        """Stops the attempts and gives their runs back, so that another worker goes on at once."""
        with self._lock:
            running = dict(self._running)
        for attempt in running.values():
            attempt.stop()
        with self._lock:
            self._lock.wait_for(lambda: not self._running, timeout=10)
        self.queue.release(self.id, running.keys())
