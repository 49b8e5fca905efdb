"""A pool of warm child processes. A call in a child process can be stopped at any moment."""

import atexit
import logging
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from copydesk.core.runtime.retry import Backoff, retry
from copydesk.jobs.execution.stoppable import Stoppable, unstoppable
from copydesk.jobs.workflow.isolation.child import Answer, Call
from copydesk.jobs.workflow.isolation.child_limits import (
    ChildDied,
    ChildLimits,
    LimitExceeded,
    describe_memory_limit,
    explain_end,
)
from copydesk.jobs.workflow.isolation.fork_server import ForkServer

log = logging.getLogger(__name__)

T = TypeVar("T")

FORK_PAUSES_SECONDS = (0.1, 1.0, 3.0)


@cache
def shared_fork_server() -> ForkServer:
    """Returns the only fork server of this process, which ends with the process."""
    server = ForkServer()
    atexit.register(server.close)
    return server


class Child:
    """A child process, and the socket for calls to it."""

    def __init__(self, server: ForkServer) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.pid = server.fork(theirs.fileno())
            except BaseException:
                ours.close()
                raise
        self._server = server
        self._connection = Connection(ours.detach())
        self.affinity = ""
        """Repository of the latest call; the child has parts of it in its cache."""

    def call(self, request: bytes) -> Answer | None:
        """Sends a call and returns the answer, or None if the child ends before it answers."""
        try:
            self._connection.send_bytes(request)
            answer: Answer = pickle.loads(self._connection.recv_bytes())  # noqa: S301 a fork of our own code wrote it
        except (EOFError, OSError):
            return None
        return answer

    @property
    def is_alive(self) -> bool:
        """Returns whether an idle child still waits for a call. Its socket becomes readable when it ends."""
        return not self._connection.poll(0)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int | None:
        """Ends the process if it still runs. Returns its exit code, or None if that is unknown."""
        self._connection.close()
        self.kill()
        return self._server.reap(self.pid)


class ChildPool:
    """Runs functions in children. Each call takes an idle child or starts one, so calls never wait for each other."""

    def __init__(self, limits: ChildLimits, max_idle: int = 4) -> None:
        self.limits = limits
        self._max_idle = max_idle
        self._server = shared_fork_server()
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._closed = False

    def start(self) -> None:
        """Starts the fork server in the background, so that the first call does not wait for it."""
        self._server.start()

    def run(
        self, function: Callable[..., T], *arguments: object, affinity: str = "", stoppable: Stoppable = unstoppable
    ) -> T:
        """Runs a module-level function in a child. Returns its result or raises its exception.

        Raises LimitExceeded if the function took too much CPU time or memory. A stop from outside kills the child.
        `affinity` names the repository that the function reads; a child that has read it before is preferred.
        """
        request = pickle.dumps(Call(function, arguments, self.limits), pickle.HIGHEST_PROTOCOL)
        try:
            try:
                value: T = self._call(self._acquire(affinity), request, stoppable)
            except ChildDied as death:  # an operator or the fork server ended it; its input is not the cause
                log.warning("running %s again: %s", function.__name__, death)
                value = self._call(self._acquire(affinity), request, stoppable)
        except LimitExceeded as limit:
            log.warning("%s was stopped because it took %s", function.__name__, limit)
            raise
        return value

    def close(self) -> None:
        """Ends the idle children. Busy children end after their call."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for child in idle:
            child.end()

    def _call(self, child: Child, request: bytes, stoppable: Stoppable) -> Any:
        try:
            with stoppable(child.kill):
                answer = child.call(request)
        except BaseException:
            child.end()
            raise
        if answer is None:
            raise explain_end(child.end(), self.limits)
        if isinstance(answer.error, MemoryError):
            child.end()
            raise LimitExceeded(describe_memory_limit(self.limits))
        self._release(child, answer)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _acquire(self, affinity: str) -> Child:
        while (child := self._acquire_idle(affinity)) is not None:
            if child.is_alive:
                break
            child.end()
        if child is None:
            child = self._fork()
        child.affinity = affinity
        return child

    def _fork(self) -> Child:
        """Starts a child, with retries: a machine may run out of processes or memory for only a moment."""
        return retry(lambda: Child(self._server), OSError, Backoff(FORK_PAUSES_SECONDS), _wait_for_next_fork)

    def _acquire_idle(self, affinity: str) -> Child | None:
        """Takes the idle child that has read this repository, or the one idle for longest if the pool is full.

        Returns None otherwise."""
        with self._lock:
            idle_child = next((child for child in self._idle if child.affinity == affinity), None)
            if idle_child is None and len(self._idle) >= self._max_idle:
                idle_child = self._idle[0]
            if idle_child is not None:
                self._idle.remove(idle_child)
            return idle_child

    def _release(self, child: Child, answer: Answer) -> None:
        """Returns the child to the pool, or ends it if the next call might not have enough memory in it."""
        with self._lock:
            is_kept = not self._closed and answer.memory_bytes <= self.limits.memory_bytes // 2
            if is_kept:
                self._idle.append(child)
            surplus = self._idle.pop(0) if len(self._idle) > self._max_idle else None
        for each in (surplus, None if is_kept else child):
            if each is not None:
                each.end()


def _wait_for_next_fork(seconds: float, error: OSError) -> None:
    log.warning("could not start a child process, retrying: %s", error)
    time.sleep(seconds)
