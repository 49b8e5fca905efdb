"""The Python client under its older name; it is the package `copydesk_client`, which installs on its own."""

from copydesk_client import ApiError, Client, Event, Job, JobPage, NotConfigured, Unreachable

__all__ = ["ApiError", "Client", "Event", "Job", "JobPage", "NotConfigured", "Unreachable"]
