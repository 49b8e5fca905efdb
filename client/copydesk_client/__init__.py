"""The Python client of Copydesk. It creates and follows jobs, sends page views and reads reports."""

from copydesk_client.client import Client
from copydesk_client.connection import ApiError, NotConfigured, Unreachable
from copydesk_client.shapes import (
    Automation,
    AutomationFiles,
    AutomationRun,
    Event,
    Job,
    JobPage,
    Template,
    TemplateField,
)

__all__ = [
    "ApiError",
    "Automation",
    "AutomationFiles",
    "AutomationRun",
    "Client",
    "Event",
    "Job",
    "JobPage",
    "NotConfigured",
    "Template",
    "TemplateField",
    "Unreachable",
    "__version__",
]
__version__ = "0.1.0"
