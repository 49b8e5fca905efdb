"""The Python client of the API: create jobs, watch them, read what they did; send page views, read the numbers."""

from copydesk.client.client import Client
from copydesk.client.connection import ApiError, NotConfigured, Unreachable
from copydesk.client.shapes import Event, Job, JobPage

__all__ = ["ApiError", "Client", "Event", "Job", "JobPage", "NotConfigured", "Unreachable"]
