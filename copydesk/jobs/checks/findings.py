"""Findings of the checks: a message with its place, and whether a change introduced it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    "unknown-name": "Added flags, settings, variables, endpoints and packages occur in the repository or the request.",
}
RULE_WORDS = {
    "link": "links",
    "anchor": "anchors",
    "image": "images",
    "include": "includes",
    "front-matter": "front matter",
    "mdx": "components",
    "fence": "code fences",
    "orphan": "pages outside the navigation",
    "unknown-name": "names that exist nowhere",
    "command": "check command",
}


def name_rule(rule: str) -> str:
    """Returns the words that stand for a rule, or for the check command, wherever people read of it."""
    return RULE_WORDS.get(rule, rule)


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    path: str
    line: int
    message: str
    """One sentence without line numbers, because it identifies the finding after lines have shifted."""
    is_note: bool = False
    """Whether it needs no change: a page outside the navigation, where the generator allows that."""


class ReferenceProblem(NamedTuple):
    """A problem with a reference that did not resolve."""

    rule: str
    message: str
    identity: str
    """What the reference leads to, however it is written: a path of the repository with the anchor, or a label."""
    doubt: str = ""
    """Why the reference may still be valid; empty if it is surely broken. A doubtful problem is reported only if the
    reference resolved before the change; else the reference is not judged."""

    @property
    def is_sure(self) -> bool:
        return not self.doubt


class Unjudged(NamedTuple):
    """A part of a change that a rule cannot judge."""

    rule: str
    path: str
    line: int
    subject: str
    """What was not judged: the target of a reference, or "" for the whole file."""
    reason: str
    """A clause that says why, such as "the page includes other files"."""

    @property
    def message(self) -> str:
        subject = f"`{self.subject}` was not judged" if self.subject else "Not judged"
        return f"{subject}: {self.reason}."


class BrokenReference(NamedTuple):
    """A reference that did not resolve, for comparison with the state before the change."""

    line: int
    target: str
    """The target as written."""
    problem: ReferenceProblem


@dataclass(frozen=True, slots=True)
class CheckReport:
    introduced: tuple[Finding, ...] = ()
    """Problems that the change introduced; only these count against it."""
    old: tuple[Finding, ...] = ()
    """Problems that existed before the change."""
    not_judged: tuple[Unjudged, ...] = ()
    """Parts of the change that a rule cannot judge."""
    fixed: tuple[Finding, ...] = ()
    """Problems that existed before the change and that it fixed. Problems of deleted pages are left out."""
    please_check: tuple[Finding, ...] = ()
    """Names that exist nowhere but may be right, so that a person decides."""
    judged: Mapping[str, int] = field(default_factory=dict)
    """How many references, fields, pages or names of the change each rule judged."""


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda each: (each.path, each.line, each.rule, each.message)))


def is_ignored(finding: Finding | Unjudged, ignored: Sequence[str]) -> bool:
    """Returns whether a pattern silences this finding.

    `orphan` silences a rule, `orphan:docs/internal/*` silences it on the pages that match, and `*` means every rule.
    """
    for pattern in ignored:
        rule, _, paths = pattern.partition(":")
        if rule in (finding.rule, "*") and (not paths or fnmatchcase(finding.path, paths)):
            return True
    return False
