"""A change becomes findings with file and line:  read ▶ place ▶ judge ▶ tell apart.  A doubt is no finding."""

from copydesk.jobs.checks.checker import check
from copydesk.jobs.checks.findings import RULES, Finding, Report
from copydesk.jobs.checks.report_format import as_data, told

__all__ = ["RULES", "Finding", "Report", "as_data", "check", "told"]
