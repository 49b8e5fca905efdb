"""The worker: claims runs, carries each out in a thread of its own, and keeps their leases alive."""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from copydesk.core.errors import NoRoom, StoreDown
from copydesk.core.ids import random_text
from copydesk.core.telemetry import instruments as measured
from copydesk.core.telemetry import logs
from copydesk.jobs.execution.queue import Claim, Queue
from copydesk.jobs.storage.records import QUEUE, STOP

log = logging.getLogger(__name__)
T = TypeVar("T")

IDLE_SECONDS = 5.0
HOUSEKEEPING_SECONDS = 60.0
STUCK_SECONDS = 60.0
DRAIN_SECONDS = 10.0
REST_SECONDS = 5.0


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

    def close(self) -> None: ...


class Worker:
    def __init__(self, queue: Queue, workflow: Workflow, *, slots: int, job_seconds: float) -> None:
        self.id = f"{socket.gethostname()}:{os.getpid()}:{random_text(6)}"
        self.queue, self.workflow = queue, workflow
        self.slots, self.job_seconds = slots, job_seconds
        self._signals = queue.database.signals
        self._running: dict[str, Attempt] = {}
        self._abandoned: set[str] = set()
        self._rests_until = 0.0
        self._lock = threading.Condition()
        self._stopping = threading.Event()
        self._leave_at: float | None = None
        self.beat_at = time.time()
        """When the leases were last renewed, by this machine's clock."""

    @property
    def busy(self) -> int:
        """How many runs it has under way."""
        return len(self._running)

    def run(self) -> None:
        """Works until stop() or leave() is called, then hands back what is under way."""
        heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        heart.start()
        threading.Thread(target=self._tidy, name="housekeeping", daemon=True).start()
        poll = min(IDLE_SECONDS, self.queue.bounds.lease / 2000)
        while not self._stopping.is_set():
            mark = self._signals.mark(QUEUE)
            with self._lock:
                self._lock.wait_for(
                    lambda: len(self._running) < self.slots or self._stopping.is_set() or self._leave_at is not None
                )
            if self._leave_at is not None:
                self._finish(self._leave_at)
            elif not self._stopping.is_set() and not self._claim_one():
                self._signals.wait(QUEUE, mark, poll)
        self._drain()
        self.workflow.close()
        heart.join()

    def leave(self, seconds: float) -> None:
        """Claims nothing more, and stops as soon as all is done, or else after so many seconds."""
        self._leave_at = time.monotonic() + seconds
        with self._lock:
            self._lock.notify_all()
        self._signals.wake(QUEUE)

    def stop(self) -> None:
        """At once."""
        self._stopping.set()
        with self._lock:
            self._lock.notify_all()
        self._signals.wake(QUEUE)
        self._signals.wake(STOP)

    def _finish(self, until: float) -> None:
        with self._lock:
            idle = self._lock.wait_for(
                lambda: not self._running or self._stopping.is_set(), max(0.0, until - time.monotonic())
            )
        if not idle:
            log.info("hands back %d runs that did not end in time", self.busy)
        self.stop()

    def _claim_one(self) -> bool:
        if time.monotonic() < self._rests_until:  # another worker may have room for what this one had to give back
            return False
        try:
            claim = self.queue.claim(self.id)
        except Exception as error:  # whatever it is, a worker that goes on is worth more than one that is gone
            log.warning("no job can be claimed right now: %s", error, exc_info=not isinstance(error, StoreDown))
            self._stopping.wait(1)
            return False
        if claim is None:
            return False
        measured.attempts.add("first" if claim.attempt == 1 else "again")
        attempt = Attempt(claim, max(0.0, self.job_seconds - claim.age / 1000))
        with self._lock:
            overtaken = self._running.get(claim.run_id)
            self._running[claim.run_id] = attempt
        if overtaken is not None:  # after a long pause a worker may take its own run over
            overtaken.stop()
        try:
            threading.Thread(target=self._carry_out, args=(attempt,), name=claim.run_id, daemon=True).start()
        except RuntimeError as error:
            self._abandon(claim, error, rests=True)
            self._forget(attempt)
            return False
        return True

    def _carry_out(self, attempt: Attempt) -> None:
        claim = attempt.claim
        logs.set_about(jobId=claim.job_id, projectId=claim.project_id, attempt=claim.attempt, worker=self.id)
        try:
            self.workflow.perform(attempt)
        except StoreDown as error:
            self._abandon(claim, error, rests=isinstance(error, NoRoom))
        except Exception:
            log.exception("run %s stopped; it is taken up again when its lease is over", claim.run_id)
        finally:
            self._forget(attempt)

    def _abandon(self, claim: Claim, error: Exception, *, rests: bool) -> None:
        log.warning("run %s stopped and is given back when that is possible: %s", claim.run_id, error)
        with self._lock:
            self._abandoned.add(claim.run_id)
            if rests:
                self._rests_until = time.monotonic() + REST_SECONDS

    def _forget(self, attempt: Attempt) -> None:
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
        self.beat_at = time.time()
        for run_id, attempt in running.items():
            if run_id not in ours:
                attempt.stop()
            elif time.monotonic() > attempt.deadline:
                attempt.stop(timed_out=True)

    def _drain(self) -> None:
        """Stops the attempts and gives each run back as it ends, so that another worker goes on with it at once."""
        with self._lock:
            held = dict(self._running)
        for attempt in held.values():
            attempt.stop()
        self._give_back(self._abandoned - held.keys())
        until = time.monotonic() + DRAIN_SECONDS
        while held:
            with self._lock:
                in_time = self._lock.wait_for(lambda: held.keys() - self._running, until - time.monotonic())
                ended = held.keys() - self._running if in_time else set(held)
            for run_id in ended:
                del held[run_id]
            self._give_back(ended)

    def _give_back(self, run_ids: Collection[str]) -> None:
        try:
            self.queue.release(self.id, run_ids)
        except StoreDown as error:
            log.warning("%d runs could not be given back; they are taken up in a while: %s", len(run_ids), error)
