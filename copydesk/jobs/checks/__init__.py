"""Checks a change and returns findings with file and line: parse ▶ resolve ▶ apply rules ▶ separate new from old.

Only certain problems are reported. What a rule cannot judge is listed with the reason.
"""

from copydesk.jobs.checks.checker import check
from copydesk.jobs.checks.findings import RULES, CheckReport, Finding, Unjudged
from copydesk.jobs.checks.report_format import format_for_api, format_for_model

__all__ = ["RULES", "CheckReport", "Finding", "Unjudged", "check", "format_for_api", "format_for_model"]
