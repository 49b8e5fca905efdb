"""Explains why a command could not be started."""

import errno

TASK_LIMIT_REACHED = (
    "no more processes can be started, because this user or this container has reached its limit of processes and "
    "threads (ulimit -u, pids.max)"
)
FORK_ERRORS = ("Cannot fork", "can't fork", "Resource temporarily unavailable")
"""Messages of shells and of bubblewrap that cannot start a process."""


def explain_start_error(error: BaseException) -> str:
    """Returns the error's message, or the cause if the kernel refused to start a process (EAGAIN)."""
    is_refused_fork = isinstance(error, OSError) and error.errno == errno.EAGAIN
    return TASK_LIMIT_REACHED if is_refused_fork else str(error)


def is_fork_error(output: str) -> bool:
    """Returns whether the output of a shell or of bubblewrap says that it could not start a process."""
    return any(message in output for message in FORK_ERRORS)
