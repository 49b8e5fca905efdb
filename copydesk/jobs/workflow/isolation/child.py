"""Answers calls in a child process, one after another, within limits."""

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
    """`error` is what the function raised. `memory_bytes` tells the pool whether to keep this child."""

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
        connection.send_bytes(_answer(pickle.loads(request)))  # noqa: S301 the service wrote it


def _answer(call: Call) -> bytes:
    apply_limits(call.limits)
    try:
        value, error = call.function(*call.arguments), None
    except Exception as raised:
        value, error = None, _make_picklable(raised)
    return pickle.dumps(Answer(value, error, _resident_bytes()), pickle.HIGHEST_PROTOCOL)


def _make_picklable(error: Exception) -> Exception:
    """Returns the exception if it survives pickling, or else one that says the same. The traceback becomes a note."""
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
    """Has the kernel kill this process when the fork server ends, which ends when the service does."""
    if not die_with_parent(os.getppid(), signal.SIGKILL):
        os._exit(0)
