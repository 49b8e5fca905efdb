"""Questions about findings: their IDs, which of them are intended, and those of some pages or of one rule."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from copydesk.core.text.truncation import truncate
from copydesk.jobs.checks.findings import Finding

MAX_ID_MESSAGE_CHARS = 300
MAX_LISTED = 200


def finding_id(rule: str, path: str, message: str) -> str:
    """Returns a short ID that stays the same when lines shift. It is computed from the message as the API shows it."""
    text = "\0".join((rule, path, truncate(message, MAX_ID_MESSAGE_CHARS)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def format_findings(findings: Iterable[Finding], paths: Sequence[str] = (), rule: str = "") -> list[str]:
    """Returns a line for each finding of this rule on these paths (shell patterns; all if empty)."""
    selected = [
        each
        for each in findings
        if rule in ("", each.rule) and (not paths or any(fnmatchcase(each.path, pattern) for pattern in paths))
    ]
    lines = [
        f"{each.path}:{each.line} [{each.rule}] {truncate(each.message, MAX_ID_MESSAGE_CHARS)}"
        for each in selected[:MAX_LISTED]
    ]
    omitted = len(selected) - len(lines)
    return [*lines, f"… and {omitted} more: name paths or a rule."] if omitted else lines


def mark_intended(entries: list[dict[str, Any]], intended: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns the entries of the API with an ID in each finding, and the reason of those that are intended."""
    return [
        {**entry, "findings": [_mark_finding(entry["name"], finding, intended) for finding in entry["findings"]]}
        for entry in entries
    ]


def _mark_finding(rule: str, finding: dict[str, Any], intended: Mapping[str, str]) -> dict[str, Any]:
    identifier = finding_id(rule, finding["path"], finding["message"])
    return {**finding, "id": identifier, "intended": intended.get(identifier)}
