"""A change becomes findings with file and line:  read ▶ place ▶ judge ▶ tell apart.  A doubt is no finding."""

from copydesk.jobs.checks.checker import check
from copydesk.jobs.checks.findings import RULES, CheckReport, Finding
from copydesk.jobs.checks.report_format import format_for_api, format_for_model

__all__ = ["RULES", "CheckReport", "Finding", "check", "format_for_api", "format_for_model"]
