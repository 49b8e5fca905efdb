"""Limits of a child process, and how a caller learns that one was exceeded."""

import math
import resource
import signal
from typing import NamedTuple

from copydesk.jobs.workspace.repository_limits import MIB


class ChildLimits(NamedTuple):
    cpu_seconds: int = 60
    """CPU time that one call may take."""
    memory_bytes: int = 2048 * MIB
    """Memory that a child may have allocated, between calls and during one."""


class LimitExceeded(Exception):
    """A call in a child process was ended because it took too much CPU time or memory; the message says which."""


class ChildDied(Exception):
    """A child process ended during a call for another reason than its limits."""


def apply_limits(limits: ChildLimits) -> None:
    """Limits this process. CPU time is counted from now on, so this is called before each call.

    The kernel ends the process with SIGXCPU; an allocation that is too large raises MemoryError.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    _lower_limit(resource.RLIMIT_CPU, math.ceil(used + limits.cpu_seconds))
    # RLIMIT_AS would count mapped pack files too, which are read from disk and take no memory of their own.
    _lower_limit(resource.RLIMIT_DATA, limits.memory_bytes)


def _lower_limit(kind: int, limit: int) -> None:
    """Sets a soft limit, or the hard limit that the service was started with where that is lower."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def describe_cpu_limit(limits: ChildLimits) -> str:
    return f"more than {limits.cpu_seconds} s of CPU time"


def describe_memory_limit(limits: ChildLimits) -> str:
    return f"more than {limits.memory_bytes // MIB:,} MiB of memory"


def explain_end(status: int | None, limits: ChildLimits) -> Exception:
    """Returns the exception for a child that ended during a call. `status` is the wait status, None if unknown."""
    number = None if status is None or status >= 0 else -status
    if number == signal.SIGXCPU:
        return LimitExceeded(describe_cpu_limit(limits))
    if number == signal.SIGKILL:  # not by the pool: the kernel's out-of-memory killer, or an operator
        return LimitExceeded("more memory than the machine has")
    return ChildDied(f"A child process ended unexpectedly ({'unknown status' if status is None else status}).")
