"""Findings of the checks: a message with its place, and whether a change introduced it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

RULES = {
    "link": "Links point to a page, file or folder that exists.",
    "anchor": "Links with an anchor point to a heading or an ID of their target page.",
    "image": "Images exist.",
    "include": "Included snippets and imported files exist.",
    "front-matter": "Front matter is valid and complete, and its fields have the right types.",
    "mdx": "Components, tags and expressions of MDX pages are balanced.",
    "fence": "Code fences are closed.",
    "navigation": "Navigation files are valid and list pages that exist.",
    "orphan": "A complete navigation lists every page.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    path: str
    line: int
    message: str
    """One sentence without line numbers, because it identifies the finding after lines have shifted."""


class ReferenceProblem(NamedTuple):
    """A problem with a reference that did not resolve."""

    rule: str
    message: str
    is_sure: bool
    """False if the reference may still be valid; then it is reported only if it resolved before the change."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    introduced: tuple[Finding, ...] = ()
    """Problems that the change introduced; only these count against it."""
    old: tuple[Finding, ...] = ()
    """Problems that existed before the change."""


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda each: (each.path, each.line, each.rule, each.message)))


def split_introduced(before: Iterable[Finding], after: Iterable[Finding], deleted: frozenset[str]) -> CheckReport:
    """Splits findings into introduced and old ones.

    Matches by rule, page and message. A page that has moved keeps its old findings.
    """
    counts_before = Counter((each.rule, each.path, each.message) for each in before)
    counts_in_deleted = Counter((each.rule, each.message) for each in before if each.path in deleted)
    introduced = []
    old = []
    for each in sort_findings(after):
        finding_key = (each.rule, each.path, each.message)
        moved_key = (each.rule, each.message)
        if counts_before[finding_key] > 0:
            counts_before[finding_key] -= 1
            old.append(each)
        elif counts_in_deleted[moved_key] > 0:
            counts_in_deleted[moved_key] -= 1
            old.append(each)
        else:
            introduced.append(each)
    return CheckReport(tuple(introduced), tuple(old))


def is_ignored(finding: Finding, ignored: Sequence[str]) -> bool:
    """Returns whether a pattern silences this finding.

    `orphan` silences a rule, `orphan:docs/internal/*` silences it on the pages that match, and `*` means every rule.
    """
    for pattern in ignored:
        rule, _, paths = pattern.partition(":")
        if rule in (finding.rule, "*") and (not paths or fnmatchcase(finding.path, paths)):
            return True
    return False
