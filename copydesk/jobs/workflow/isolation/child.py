"""Serves calls in a child process, one at a time, within limits."""

import os
import pickle
import resource
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from copydesk.jobs.sandbox.linux_security import die_with_parent
from copydesk.jobs.workflow.isolation.child_limits import ChildLimits, apply_limits

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Call(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    limits: ChildLimits


class Answer(NamedTuple):
    """The outcome of a call. `error` is the exception that the function raised, or None.

    The pool reuses the child only if `memory_bytes`, its resident memory, is small enough."""

    value: Any
    error: BaseException | None
    memory_bytes: int


def serve_calls(descriptor: int) -> None:
    """Reads calls from the socket and writes answers until the service closes its end."""
    _end_with_fork_server()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # SIGXCPU would write a core file
    connection = Connection(descriptor)
    while True:
        try:
            request = connection.recv_bytes()
        except (EOFError, OSError):
            os._exit(0)
        answer = _answer(pickle.loads(request))  # noqa: S301 the service wrote it
        try:
            connection.send_bytes(answer)
        except ConnectionError:  # the service ended, or gave up, while the function ran
            os._exit(0)


def _answer(call: Call) -> bytes:
    apply_limits(call.limits)
    try:
        value = call.function(*call.arguments)
        error = None
    except Exception as raised:
        value = None
        error = _make_picklable(raised)
    return pickle.dumps(Answer(value, error, _resident_bytes()), pickle.HIGHEST_PROTOCOL)


def _make_picklable(error: Exception) -> Exception:
    """Returns the exception, or a RuntimeError with the same text if it cannot be pickled.

    Adds the traceback as a note, since pickling drops tracebacks."""
    error.add_note("In a child process:\n" + "".join(traceback.format_exception(error)))
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 just written
    except Exception:
        copy = RuntimeError(f"{type(error).__name__}: {error}")
        copy.__notes__ = error.__notes__
        return copy
    return error


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE_BYTES


def _end_with_fork_server() -> None:
    """Makes the kernel kill this process when the fork server ends, which in turn ends with the service."""
    if not die_with_parent(os.getppid(), signal.SIGKILL):
        os._exit(0)
