"""Formats findings for the model and for the API."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from copydesk.core.text.plurals import pluralize
from copydesk.core.text.truncation import truncate
from copydesk.jobs.checks.finding_queries import finding_id
from copydesk.jobs.checks.findings import RULES, CheckReport, Finding, Unjudged

MAX_FINDINGS_FOR_MODEL = 40
MAX_FINDINGS_PER_RULE = 20
MAX_UNJUDGED_FOR_MODEL = 5
MAX_REASONS = 3
MAX_MESSAGE_CHARS = 300


def format_for_model(report: CheckReport) -> str:
    """Formats findings for the model that made the change: place, rule and message.

    The number of findings is limited so that they do not distract from the task.
    """
    lines = [
        f"{each.path}:{each.line} [{each.rule}] {_truncate(each.message)}"
        f" (id {finding_id(each.rule, each.path, each.message)})"
        for each in report.introduced[:MAX_FINDINGS_FOR_MODEL]
    ]
    omitted = len(report.introduced) - len(lines)
    if omitted:
        lines.append(f"… and {omitted} more. Fix these first, then check again.")
    if not lines:
        lines.append("The checks found no problems in your changes.")
    if report.not_judged:
        examples = "; ".join(
            f"{each.path}:{each.line} [{each.rule}] {_truncate(each.message)}"
            for each in report.not_judged[:MAX_UNJUDGED_FOR_MODEL]
        )
        lines.append(f"Not judged, so make sure yourself: {examples}")
    if report.please_check:
        examples = "; ".join(
            f"{each.path}:{each.line} {_truncate(each.message)}"
            for each in report.please_check[:MAX_UNJUDGED_FOR_MODEL]
        )
        lines.append(f"Make sure that these exist, or are names that a reader chooses: {examples}")
    if report.old:
        subject = pluralize(len(report.old), "problem")
        lines.append(
            f"{subject} existed before your changes. Do not change anything that you were not asked to change."
        )
    return "\n".join(lines)


def format_for_api(report: CheckReport, ignored: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Returns an entry for each rule that had something to judge, in a fixed order, for the `checks` of a job."""
    old = Counter(each.rule for each in report.old)
    listed = {rule for rule, judged in report.judged.items() if judged}
    listed |= {each.rule for each in (*report.introduced, *report.please_check)}
    listed |= {each.rule for each in report.not_judged}
    return [_format_rule(rule, report, old[rule]) for rule in RULES if rule in listed.difference(ignored)]


def _format_rule(rule: str, report: CheckReport, old: int) -> dict[str, Any]:
    introduced = [each for each in report.introduced if each.rule == rule]
    not_judged = [each for each in report.not_judged if each.rule == rule]
    please_check = [each for each in report.please_check if each.rule == rule]
    entry = {
        "name": rule,
        "status": "failed" if introduced else "not_judged" if not_judged or please_check else "passed",
        "judged": report.judged.get(rule, 0),
        "introduced": len(introduced),
        "old": old,
        "findings": [_format_finding(each) for each in introduced[:MAX_FINDINGS_PER_RULE]],
    }
    if not_judged:
        entry["reason"] = _join_reasons(not_judged)
        entry["notJudged"] = [_format_finding(each) for each in not_judged[:MAX_FINDINGS_PER_RULE]]
    if please_check:
        entry["pleaseCheck"] = [_format_finding(each) for each in please_check[:MAX_FINDINGS_PER_RULE]]
    return entry


def _join_reasons(not_judged: list[Unjudged]) -> str:
    """Returns the different reasons, the most frequent first."""
    reasons = [reason for reason, _ in Counter(each.reason for each in not_judged).most_common()]
    omitted = len(reasons) - MAX_REASONS
    more = f"; and {omitted} more" if omitted > 0 else ""
    return _truncate("; ".join(reasons[:MAX_REASONS]) + more)


def _format_finding(finding: Finding | Unjudged) -> dict[str, Any]:
    return {"path": finding.path, "line": finding.line, "message": _truncate(finding.message)}


def _truncate(message: str) -> str:
    """Shortens a message, because a link target may be as long as a page."""
    return truncate(message, MAX_MESSAGE_CHARS)
