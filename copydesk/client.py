"""The older import path of the Python client. The client is the separately installable package `copydesk_client`."""

from copydesk_client import ApiError, Client, Event, Job, JobPage, NotConfigured, Unreachable

__all__ = ["ApiError", "Client", "Event", "Job", "JobPage", "NotConfigured", "Unreachable"]
