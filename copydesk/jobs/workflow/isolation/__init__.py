"""Runs work on untrusted text in child processes that can be stopped: by a limit on CPU time or memory, or at once."""

from copydesk.jobs.workflow.isolation.child_limits import LimitExceeded, Limits
from copydesk.jobs.workflow.isolation.child_pool import ChildPool

__all__ = ["ChildPool", "LimitExceeded", "Limits"]
