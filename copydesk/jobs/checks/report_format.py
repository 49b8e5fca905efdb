"""What a model is told of the findings, and what the API shows of them."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from copydesk.jobs.checks.findings import RULES, Finding, Report

MOST_TOLD = 40
MOST_SHOWN = 20
MOST_CHARACTERS = 300


def told(report: Report) -> str:
    """For the model that made the change: where, which rule, what; never so many that they drown the task."""
    lines = [f"{each.path}:{each.line} [{each.rule}] {_short(each.message)}" for each in report.introduced[:MOST_TOLD]]
    more = len(report.introduced) - len(lines)
    if more:
        lines.append(f"… and {more} more; mend these first, then check again.")
    if not lines:
        lines.append("The checks found nothing wrong with your changes.")
    if report.old:
        them = "1 old finding is" if len(report.old) == 1 else f"{len(report.old)} old findings are"
        lines.append(f"{them} not yours: leave what you were not asked to change.")
    return "\n".join(lines)


def as_data(report: Report, ignored: Iterable[str] = ()) -> list[dict[str, Any]]:
    """One entry per rule, in a fixed order, for the `checks` of a job."""
    old = Counter(each.rule for each in report.old)
    silenced = set(ignored)
    return [_entry(rule, report, old[rule]) for rule in RULES if rule not in silenced]


def _entry(rule: str, report: Report, old: int) -> dict[str, Any]:
    introduced = [each for each in report.introduced if each.rule == rule]
    return {
        "name": rule,
        "status": "failed" if introduced else "passed",
        "introduced": len(introduced),
        "old": old,
        "findings": [_shown(each) for each in introduced[:MOST_SHOWN]],
    }


def _shown(finding: Finding) -> dict[str, Any]:
    return {"path": finding.path, "line": finding.line, "message": _short(finding.message)}


def _short(message: str) -> str:
    """A target may be as long as a page."""
    return message if len(message) <= MOST_CHARACTERS else message[: MOST_CHARACTERS - 1] + "…"
