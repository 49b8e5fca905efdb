"""The older import path of the Python client. The client is the separately installable package `copydesk_client`."""

from copydesk_client import (
    ApiError,
    Automation,
    Client,
    Event,
    Job,
    JobPage,
    NotConfigured,
    Template,
    TemplateField,
    Unreachable,
)

__all__ = [
    "ApiError",
    "Automation",
    "Client",
    "Event",
    "Job",
    "JobPage",
    "NotConfigured",
    "Template",
    "TemplateField",
    "Unreachable",
]
