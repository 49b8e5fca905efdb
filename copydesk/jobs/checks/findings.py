"""What a check has to say: a sentence with its place, and which of them a change brought about."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

RULES = {
    "link": "Links lead to a page, file or folder that exists.",
    "anchor": "Links with an anchor lead to a heading or an id of their page.",
    "image": "Images exist.",
    "include": "Included snippets and imported files exist.",
    "front-matter": "Front matter is valid, complete and of the right types.",
    "mdx": "Components, tags and expressions of MDX pages are balanced.",
    "fence": "Code fences are closed.",
    "navigation": "Navigation files are valid and name pages that exist.",
    "orphan": "A complete navigation names every page.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    path: str
    line: int
    message: str
    """One sentence, without line numbers: it tells this finding from others when lines have shifted."""


class ReferenceProblem(NamedTuple):
    """Of one reference that was not found."""

    rule: str
    message: str
    is_sure: bool
    """False where it may be right all the same; then it is a finding only if it was found before the change."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    introduced: tuple[Finding, ...] = ()
    """What the change brought about; these count."""
    old: tuple[Finding, ...] = ()
    """What was there before."""


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda each: (each.path, each.line, each.rule, each.message)))


def split_introduced(before: Iterable[Finding], after: Iterable[Finding], deleted: frozenset[str]) -> CheckReport:
    """Matches by rule, page and sentence. A page that has moved takes its old findings along."""
    counts_before = Counter((each.rule, each.path, each.message) for each in before)
    counts_in_deleted = Counter((each.rule, each.message) for each in before if each.path in deleted)
    introduced, old = [], []
    for each in sort_findings(after):
        finding_key, moved_key = (each.rule, each.path, each.message), (each.rule, each.message)
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
    """`orphan` silences a rule, `orphan:docs/internal/*` silences it on the pages that match."""
    for pattern in ignored:
        rule, _, paths = pattern.partition(":")
        if rule in (finding.rule, "*") and (not paths or fnmatchcase(finding.path, paths)):
            return True
    return False
