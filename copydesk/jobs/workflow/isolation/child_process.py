"""A child process as the service sees it."""

import os
import pickle
import signal
import socket
from contextlib import suppress
from multiprocessing.connection import Connection

from copydesk.jobs.workflow.isolation.child import Answer
from copydesk.jobs.workflow.isolation.fork_server import ForkServer
from copydesk.jobs.workflow.isolation.warm_up_costs import Task


class CallTimedOut(Exception):
    """A child process did not answer a call in time."""


class Child:
    """A child process, the socket for calls to it, and the tasks that it has in its caches."""

    def __init__(self, server: ForkServer, task: Task) -> None:
        self._server = server
        self._pid: int | None = None
        self._connection: Connection | None = None
        self.task = task
        """The task of the latest call."""
        self.cached_functions: set[str] = set()
        """Functions that have run in this child for the repository of `task`."""
        self.value = 0.0
        """Seconds that it would take to fill the caches of another child as far."""
        self.eviction_rank = 0.0

    def assign(self, task: Task) -> None:
        if task.repository != self.task.repository:
            self.cached_functions = set()
        self.task = task

    def has_cached(self, task: Task) -> bool:
        return task.repository == self.task.repository and task.function in self.cached_functions

    @property
    def is_started(self) -> bool:
        return self._connection is not None

    def start(self) -> None:
        """Forks the process. Raises OSError if the system refuses."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._pid = self._server.fork(theirs.fileno())
            except BaseException:
                ours.close()
                raise
        self._connection = Connection(ours.detach())

    def call(self, request: bytes, wall_seconds: float) -> Answer | None:
        """Sends a call and returns the answer, or None if the child ends before it answers.

        Raises CallTimedOut if the child has not answered in time.
        """
        assert self._connection is not None
        try:
            self._connection.send_bytes(request)
            if not self._connection.poll(wall_seconds):
                raise CallTimedOut
            answer: Answer = pickle.loads(self._connection.recv_bytes())  # noqa: S301 a fork of our own code wrote it
        except (EOFError, OSError):
            return None
        return answer

    @property
    def is_alive(self) -> bool:
        """Returns whether an idle child still waits for a call. Its socket becomes readable when it ends."""
        return self._connection is not None and not self._connection.poll(0)

    def kill(self) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def end(self) -> int | None:
        """Ends the process if it still runs. Returns its exit code, or None if that is unknown."""
        if self._connection is None or self._pid is None:
            return None
        self._connection.close()
        self.kill()
        return self._server.reap(self._pid)
