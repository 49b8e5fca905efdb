"""The worker: claims runs, executes each in its own thread, and renews their leases."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

from copydesk.core.errors import DiskFull, StoreUnavailable
from copydesk.core.ids import random_text
from copydesk.core.telemetry import instruments, logs
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.queue import Claim, Queue
from copydesk.jobs.storage.records import QUEUE_TOPIC, STOP_TOPIC

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_POLL_SECONDS = 5.0
MAINTENANCE_INTERVAL_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 10.0
COOL_DOWN_SECONDS = 5.0


class PeriodicTask(NamedTuple):
    """A task that every worker runs in a thread of its own, again this many seconds after it ended."""

    name: str
    seconds: float
    run: Callable[[], None]


class AttemptExecutor(Protocol):
    def execute(self, attempt: Attempt) -> None: ...

    def run_maintenance(self) -> None: ...

    def close(self) -> None: ...


class Worker:
    def __init__(
        self,
        queue: Queue,
        executor: AttemptExecutor,
        *,
        slots: int,
        job_seconds: float,
        more_tasks: Sequence[PeriodicTask] = (),
    ) -> None:
        self.id = f"{socket.gethostname()}:{os.getpid()}:{random_text(6)}"
        self.queue = queue
        self.executor = executor
        self.slots = slots
        self.job_seconds = job_seconds
        self.tasks = (PeriodicTask("maintenance", MAINTENANCE_INTERVAL_SECONDS, self._run_maintenance), *more_tasks)
        self._signals = queue.database.notifications
        self._running: dict[str, Attempt] = {}
        self._abandoned: set[str] = set()
        self._cool_down_until = 0.0
        self._lock = threading.Condition()
        self._stopping = threading.Event()
        self._drain_deadline: float | None = None
        self.last_heartbeat_at = time.time()
        """When the leases were last renewed, in Unix seconds of this machine's clock."""

    @property
    def running_count(self) -> int:
        """Returns the number of runs in progress."""
        return len(self._running)

    def run(self) -> None:
        """Claims and executes runs until stop() or drain() is called, then releases the runs in progress."""
        heartbeat = threading.Thread(target=self._run_heartbeat, name="heartbeat", daemon=True)
        heartbeat.start()
        for task in self.tasks:
            threading.Thread(target=self._run_periodically, args=(task,), name=task.name, daemon=True).start()
        poll_seconds = min(MAX_POLL_SECONDS, self.queue.limits.lease_ms / 2000)
        while not self._stopping.is_set():
            mark = self._signals.mark(QUEUE_TOPIC)
            with self._lock:
                self._lock.wait_for(
                    lambda: (
                        len(self._running) < self.slots or self._stopping.is_set() or self._drain_deadline is not None
                    )
                )
            if self._drain_deadline is not None:
                self._wait_until_idle(self._drain_deadline)
            elif not self._stopping.is_set() and not self._claim_one():
                self._signals.wait(QUEUE_TOPIC, mark, poll_seconds)
        self._stop_attempts()
        self.executor.close()
        heartbeat.join()

    def drain(self, seconds: float) -> None:
        """Claims no more runs, and stops when all are finished or after this many seconds."""
        self._drain_deadline = time.monotonic() + seconds
        with self._lock:
            self._lock.notify_all()
        self._signals.wake(QUEUE_TOPIC)

    def stop(self) -> None:
        """Stops immediately; `run` then releases the runs in progress."""
        self._stopping.set()
        with self._lock:
            self._lock.notify_all()
        self._signals.wake(QUEUE_TOPIC)
        self._signals.wake(STOP_TOPIC)

    def _wait_until_idle(self, deadline: float) -> None:
        with self._lock:
            idle = self._lock.wait_for(
                lambda: not self._running or self._stopping.is_set(), max(0.0, deadline - time.monotonic())
            )
        if not idle:
            log.info("releasing %d runs that did not finish in time", self.running_count)
        self.stop()

    def _claim_one(self) -> bool:
        """Claims a run and starts a thread that executes it. Returns False if there is none, or if that failed."""
        if time.monotonic() < self._cool_down_until:  # lets another worker claim the run that this one released
            return False
        try:
            claim = self.queue.claim(self.id)
        except Exception as error:  # the worker must survive any error, since the next claim may succeed
            log.warning("could not claim a run, retrying: %s", error, exc_info=not isinstance(error, StoreUnavailable))
            self._stopping.wait(1)
            return False
        if claim is None:
            return False
        instruments.attempts.labels("first" if claim.attempt == 1 else "again").inc()
        attempt = Attempt(claim, max(0.0, self.job_seconds - claim.worked_ms / 1000))
        with self._lock:
            previous = self._running.get(claim.run_id)
            self._running[claim.run_id] = attempt
        if previous is not None:  # after a long suspension a worker may claim its own run again
            previous.stop()
        try:
            threading.Thread(target=self._execute, args=(attempt,), name=claim.run_id, daemon=True).start()
        except RuntimeError as error:
            self._abandon(claim, error, cool_down=True)
            self._remove_attempt(attempt)
            return False
        return True

    def _execute(self, attempt: Attempt) -> None:
        claim = attempt.claim
        logs.bind_log_context(jobId=claim.job_id, projectId=claim.project_id, attempt=claim.attempt, worker=self.id)
        try:
            self.executor.execute(attempt)
        except StoreUnavailable as error:
            self._abandon(claim, error, cool_down=isinstance(error, DiskFull))
        except Exception:
            log.exception("run %s failed; a worker will claim it again when its lease expires", claim.run_id)
        finally:
            self._remove_attempt(attempt)

    def _abandon(self, claim: Claim, error: Exception, *, cool_down: bool) -> None:
        log.warning("run %s stopped and will be released as soon as possible: %s", claim.run_id, error)
        with self._lock:
            self._abandoned.add(claim.run_id)
            if cool_down:
                self._cool_down_until = time.monotonic() + COOL_DOWN_SECONDS

    def _remove_attempt(self, attempt: Attempt) -> None:
        with self._lock:
            if self._running.get(attempt.claim.run_id) is attempt:
                del self._running[attempt.claim.run_id]
            self._lock.notify_all()

    def _run_heartbeat(self) -> None:
        """Renews the leases, and stops attempts that timed out or lost their lease."""
        interval = self.queue.limits.lease_ms / 3000
        while not self._stopping.is_set():
            mark = self._signals.mark(STOP_TOPIC)
            try:
                self._renew_leases()
            except Exception as error:
                log.warning("could not renew leases: %s", error, exc_info=not isinstance(error, StoreUnavailable))
            self._signals.wait(STOP_TOPIC, mark, min(interval, MAX_POLL_SECONDS))

    def _run_maintenance(self) -> None:
        self.executor.run_maintenance()  # looked up at each call: tests replace the executor

    def _run_periodically(self, task: PeriodicTask) -> None:
        while not self._stopping.wait(task.seconds):
            try:
                task.run()
            except Exception as error:
                log.warning("%s failed: %s", task.name, error, exc_info=not isinstance(error, StoreUnavailable))

    def _renew_leases(self) -> None:
        with self._lock:
            running = {run: attempt for run, attempt in self._running.items() if not attempt.is_stuck}
            abandoned = self._abandoned - self._running.keys()
        self.queue.release(self.id, abandoned)
        self._abandoned -= abandoned
        renewed = self.queue.renew(self.id, running.keys())
        self.last_heartbeat_at = time.time()
        for run_id, attempt in running.items():
            if run_id not in renewed:
                attempt.stop()
            elif time.monotonic() > attempt.deadline:
                attempt.stop(timed_out=True)

    def _stop_attempts(self) -> None:
        """Stops the attempts and releases each run as it ends, so that another worker can resume it immediately."""
        with self._lock:
            unfinished = dict(self._running)
        for attempt in unfinished.values():
            attempt.stop()
        self._release(self._abandoned - unfinished.keys())
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while unfinished:
            with self._lock:
                in_time = self._lock.wait_for(lambda: unfinished.keys() - self._running, deadline - time.monotonic())
                ended = unfinished.keys() - self._running if in_time else set(unfinished)
            for run_id in ended:
                del unfinished[run_id]
            self._release(ended)

    def _release(self, run_ids: Collection[str]) -> None:
        try:
            self.queue.release(self.id, run_ids)
        except StoreUnavailable as error:
            log.warning("could not release %d runs; they resume when their leases expire: %s", len(run_ids), error)
