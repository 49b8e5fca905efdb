"""Limits of a child process, and the errors for exceeding them."""

import math
import resource
import signal
from typing import NamedTuple

from copydesk.core.settings import Settings
from copydesk.jobs.workspace.repository_limits import MIB

WALL_SECONDS_PER_CPU_SECOND = 5
"""A machine whose processors are busy gives a call a part of them, so a limit close to the CPU time would stop it."""
MIN_WALL_SECONDS = 60


class ChildLimits(NamedTuple):
    cpu_seconds: int = 60
    """CPU time that one call may take."""
    memory_bytes: int = 2048 * MIB
    """Memory that a child may have allocated at any time, including memory of earlier calls."""
    wall_seconds: float = 300
    """How long one call may take, for one that waits and uses no CPU time."""

    @classmethod
    def from_settings(cls, settings: Settings) -> "ChildLimits":
        cpu_seconds = settings.call_cpu_seconds
        wall_seconds = max(MIN_WALL_SECONDS, WALL_SECONDS_PER_CPU_SECOND * cpu_seconds)
        return cls(cpu_seconds, settings.call_memory_megabytes * MIB, wall_seconds)


class LimitExceeded(Exception):
    """A call in a child process was stopped because it took too much time or memory; the message says which."""


class ChildDied(Exception):
    """A child process ended during a call, but not because of its limits."""


def apply_limits(limits: ChildLimits) -> None:
    """Limits the CPU time and memory of this process. Called before each call, since CPU time counts from now on.

    The kernel ends the process with SIGXCPU; an allocation beyond the limit raises MemoryError.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    _set_soft_limit(resource.RLIMIT_CPU, math.ceil(used + limits.cpu_seconds))
    # RLIMIT_AS would also count mapped pack files, whose memory the kernel can free at any time.
    _set_soft_limit(resource.RLIMIT_DATA, limits.memory_bytes)


def _set_soft_limit(kind: int, limit: int) -> None:
    """Sets a soft limit, at most the hard limit that the service was started with."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def describe_cpu_limit(limits: ChildLimits) -> str:
    return f"more than {limits.cpu_seconds} s of CPU time"


def describe_wall_limit(limits: ChildLimits) -> str:
    return f"more than {limits.wall_seconds:g} s"


def describe_memory_limit(limits: ChildLimits) -> str:
    return f"more than {limits.memory_bytes // MIB:,} MiB of memory"


def explain_end(exit_code: int | None, limits: ChildLimits) -> Exception:
    """Returns the exception for a child that ended during a call.

    `status` is its exit code: negative for a signal, None if unknown."""
    number = None if exit_code is None or exit_code >= 0 else -exit_code
    if number == signal.SIGXCPU:
        return LimitExceeded(describe_cpu_limit(limits))
    if number == signal.SIGKILL:  # from the kernel's out-of-memory killer or an operator, not from the pool
        return LimitExceeded("more memory than the machine has")
    return ChildDied(f"A child process ended unexpectedly ({'unknown status' if exit_code is None else exit_code}).")
