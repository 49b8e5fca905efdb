"""Runs work on untrusted text in child processes that can be stopped: by a limit on CPU time or memory, or at once."""

from copydesk.jobs.isolation.limits import LimitExceeded, Limits
from copydesk.jobs.isolation.pool import ChildPool

__all__ = ["ChildPool", "LimitExceeded", "Limits"]
