"""A pool of warm child processes. A call in a child process can be stopped at any moment."""

import atexit
import logging
import pickle
import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from copydesk.core.runtime.retry import Backoff, retry
from copydesk.jobs.execution.stoppable import Stoppable, unstoppable
from copydesk.jobs.workflow.isolation.child import Call
from copydesk.jobs.workflow.isolation.child_allocator import ChildAllocator
from copydesk.jobs.workflow.isolation.child_limits import (
    ChildDied,
    ChildLimits,
    LimitExceeded,
    describe_memory_limit,
    describe_wall_limit,
    explain_end,
)
from copydesk.jobs.workflow.isolation.child_process import CallTimedOut, Child
from copydesk.jobs.workflow.isolation.fork_server import ForkServer
from copydesk.jobs.workflow.isolation.warm_up_costs import Task

log = logging.getLogger(__name__)

T = TypeVar("T")

FORK_PAUSES_SECONDS = (0.1, 1.0, 3.0)


@cache
def shared_fork_server() -> ForkServer:
    """Returns the only fork server of this process, which ends with the process."""
    server = ForkServer()
    atexit.register(server.close)
    return server


class ChildPool:
    """Runs functions in children. Calls for different repositories never wait for each other."""

    def __init__(self, limits: ChildLimits, max_idle: int = 4) -> None:
        self.limits = limits
        self._server = shared_fork_server()
        self._allocator = ChildAllocator(self._server, max_idle)

    def start(self) -> None:
        """Starts the fork server in the background, so that the first call does not wait for it."""
        self._server.start()

    def run(
        self, function: Callable[..., T], *arguments: object, affinity: str = "", stoppable: Stoppable = unstoppable
    ) -> T:
        """Runs a module-level function in a child. Returns its result or raises its exception.

        Raises LimitExceeded if the function took too much time or memory. A stop from outside kills the child.
        `affinity` names the repository that the function reads; a child that has read it before is preferred.
        """
        request = pickle.dumps(Call(function, arguments, self.limits), pickle.HIGHEST_PROTOCOL)
        task = Task(affinity, function.__name__)
        try:
            try:
                value: T = self._call(self._acquire(task, stoppable), request, stoppable)
            except ChildDied as death:  # an operator or the fork server ended it; its input is not the cause
                log.warning("running %s again: %s", function.__name__, death)
                value = self._call(self._acquire(task, stoppable), request, stoppable)
        except LimitExceeded as limit:
            log.warning("%s was stopped because it took %s", function.__name__, limit)
            raise
        return value

    def close(self) -> None:
        """Ends the idle children. Busy children end after their call, and after the calls that wait for them."""
        self._allocator.close()

    def _call(self, child: Child, request: bytes, stoppable: Stoppable) -> Any:
        started_at = time.monotonic()
        try:
            with stoppable(child.kill):
                answer = child.call(request, self.limits.wall_seconds)
        except CallTimedOut:
            self._allocator.discard(child)
            raise LimitExceeded(describe_wall_limit(self.limits)) from None
        except BaseException:
            self._allocator.discard(child)
            raise
        seconds = time.monotonic() - started_at
        if answer is None:
            raise explain_end(self._allocator.discard(child), self.limits)
        if isinstance(answer.error, MemoryError):
            self._allocator.discard(child)
            raise LimitExceeded(describe_memory_limit(self.limits))
        if answer.memory_bytes > self.limits.memory_bytes // 2:  # the next call might not have enough memory in it
            self._allocator.discard(child, lost_seconds=seconds)
        else:
            self._allocator.release(child, seconds, has_failed=answer.error is not None)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _acquire(self, task: Task, stoppable: Stoppable) -> Child:
        """Returns a child that runs."""
        while True:
            child = self._allocator.acquire(task, stoppable)
            if not child.is_started:
                return self._start(child)
            if child.is_alive:
                return child
            self._allocator.discard(child)

    def _start(self, child: Child) -> Child:
        """Starts a child, with retries: a machine may run out of processes or memory for only a moment."""
        try:
            retry(child.start, OSError, Backoff(FORK_PAUSES_SECONDS), _wait_for_next_start)
        except BaseException:
            self._allocator.discard(child)
            raise
        return child


def _wait_for_next_start(seconds: float, error: OSError) -> None:
    log.warning("could not start a child process, retrying: %s", error)
    time.sleep(seconds)
