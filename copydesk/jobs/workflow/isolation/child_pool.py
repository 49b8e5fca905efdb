"""Keeps child processes warm and runs calls in them, so that a call can be stopped at any moment."""

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
    """Returns the one fork server of this process; it ends with the process."""
    server = ForkServer()
    atexit.register(server.close)
    return server


class Child:
    """A child process and the socket on which it is called."""

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
        """The repository of its latest call, some of which it remembers."""

    def call(self, request: bytes) -> Answer | None:
        """Returns None if the child ends before it answers."""
        try:
            self._connection.send_bytes(request)
            answer: Answer = pickle.loads(self._connection.recv_bytes())  # noqa: S301 a fork of our own code wrote it
        except (EOFError, OSError):
            return None
        return answer

    @property
    def is_alive(self) -> bool:
        """Whether it waits for a call: an idle child that has something to read has ended."""
        return not self._connection.poll(0)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int | None:
        """Ends the process unless it has ended by itself. Returns its exit code, None if that is unknown."""
        self._connection.close()
        self.kill()
        return self._server.reap(self.pid)


class ChildPool:
    """Runs functions in children. Each call takes an idle child, or a new one; it never waits for another call."""

    def __init__(self, limits: ChildLimits, max_idle: int = 4) -> None:
        self.limits = limits
        self._max_idle = max_idle
        self._server = shared_fork_server()
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._closed = False

    def start(self) -> None:
        """Starts what the first call needs, in the background."""
        self._server.start()

    def run(
        self, function: Callable[..., T], *arguments: object, affinity: str = "", stoppable: Stoppable = unstoppable
    ) -> T:
        """Returns what a module-level function returns, or raises what it raises.

        Raises LimitExceeded if it took too much CPU time or memory. A stop from outside kills the child.
        `affinity` names what the function reads, so that a child which has read it before can be used again.
        """
        request = pickle.dumps(Call(function, arguments, self.limits), pickle.HIGHEST_PROTOCOL)
        try:
            try:
                value: T = self._call(self._acquire(affinity), request, stoppable)
            except ChildDied as death:  # by the operator's hand, or with the fork server: not by what it works on
                log.warning("%s is run again: %s", function.__name__, death)
                value = self._call(self._acquire(affinity), request, stoppable)
        except LimitExceeded as limit:
            log.warning("%s was stopped because it took %s", function.__name__, limit)
            raise
        return value

    def close(self) -> None:
        """Ends the idle children; those at work are ended when their call is over."""
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
        """Tries for a while: a machine that has no process or memory left now may have some in a moment."""
        for pause in FORK_PAUSES_SECONDS:
            try:
                return Child(self._server)
            except OSError as error:
                log.warning("no child process can be started right now: %s", error)
                time.sleep(pause)
        return Child(self._server)

    def _acquire_idle(self, affinity: str) -> Child | None:
        """Returns the child that knows this repository; or the one idle for longest, if no more may be kept."""
        with self._lock:
            idle_child = next((child for child in self._idle if child.affinity == affinity), None)
            if idle_child is None and len(self._idle) >= self._max_idle:
                idle_child = self._idle[0]
            if idle_child is not None:
                self._idle.remove(idle_child)
            return idle_child

    def _release(self, child: Child, answer: Answer) -> None:
        """Keeps the child for the next call, unless the next call could not have enough memory in it."""
        with self._lock:
            is_kept = not self._closed and answer.memory_bytes <= self.limits.memory_bytes // 2
            if is_kept:
                self._idle.append(child)
            surplus = self._idle.pop(0) if len(self._idle) > self._max_idle else None
        for each in (surplus, None if is_kept else child):
            if each is not None:
                each.end()
