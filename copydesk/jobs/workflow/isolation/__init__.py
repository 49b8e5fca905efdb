"""Runs work on untrusted text in child processes that can be stopped: by limits on time and memory, or at once."""

from copydesk.jobs.workflow.isolation.child_limits import ChildLimits, LimitExceeded
from copydesk.jobs.workflow.isolation.child_pool import ChildPool

__all__ = ["ChildLimits", "ChildPool", "LimitExceeded"]
