"""The findings of a repository's state. The next state is checked from it and the files that changed."""

import posixpath
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from functools import cached_property

from copydesk.jobs.checks.findings import BrokenReference, Finding, Unjudged
from copydesk.jobs.checks.names.unknown_names import NameSearch
from copydesk.jobs.checks.rules.front_matter import find_missing_fields, find_wrong_types
from copydesk.jobs.checks.rules.links import NO_FINDINGS, PageFindings, find_broken_references
from copydesk.jobs.checks.rules.navigation import NavigationReport, check_navigation
from copydesk.jobs.pages.page_types import INDEX_NAMES, is_site_page, stem
from copydesk.jobs.pages.parsing.page_facts import PageFacts, dependency_key
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.paths import is_within
from copydesk.jobs.pages.site.repository_index import RepositoryIndex


@dataclass(frozen=True)
class CheckScope:
    root: str = ""
    required_fields: tuple[str, ...] = ()

    def contains(self, path: str) -> bool:
        return is_within(path, self.root)


class Snapshot:
    def __init__(self, scope: CheckScope, index: RepositoryIndex, previous: "Snapshot | None" = None) -> None:
        """Checks the files of the index, reusing all findings of `previous` that have not changed.

        If there is a previous snapshot, `index` must be built from its index.
        """
        self.scope = scope
        self.index = index
        self.resolver = index.resolver
        self._navigation = (
            previous.navigation
            if previous is not None and index.has_same_layout and self._has_same_navigation(previous)
            else None
        )
        self.findings_by_page = self._check_pages(previous)

    def _has_same_navigation(self, previous: "Snapshot") -> bool:
        """Returns whether the navigation is unchanged; False if the generator defines it in the pages.

        A link of a menu to an anchor depends on the pages too."""
        is_in_pages = any(site.kind in ("mdbook", "gitbook", "sphinx") for site in self.resolver.sites)
        return (
            not is_in_pages
            and not any("#" in link.value for nav_file in self.index.nav_files.values() for link in nav_file.links)
            and previous.index.ignored_pattern == self.index.ignored_pattern
            and self.index.changed.isdisjoint(self.index.nav_files.keys() | previous.index.nav_files.keys())
        )

    @cached_property
    def name_search(self) -> NameSearch:
        return NameSearch(self.index.tree)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Returns all sure problems of this state."""
        return (*self.plain_findings, *self._reference_findings)

    @cached_property
    def plain_findings(self) -> tuple[Finding, ...]:
        """Returns the problems apart from broken references."""
        return (
            *(finding for judged in self.findings_by_page.values() for finding in judged.findings),
            *self.navigation.findings,
        )

    @property
    def _reference_findings(self) -> tuple[Finding, ...]:
        return tuple(
            Finding(broken.problem.rule, page, broken.line, broken.problem.message)
            for page, broken in self.list_broken()
            if broken.problem.is_sure
        )

    def list_broken(self) -> Iterator[tuple[str, BrokenReference]]:
        """Yields the references of pages, headers, footers and menus that did not resolve, with their files."""
        for page, judged in self.findings_by_page.items():
            for broken in judged.broken:
                yield page, broken
        yield from self.navigation.broken

    @cached_property
    def navigation(self) -> NavigationReport:
        if self._navigation is not None:
            return self._navigation
        report = check_navigation(self.resolver, self.index.nav_files)
        findings = tuple(each for each in report.findings if self._is_in_scope(each))
        return report._replace(findings=findings)

    def _is_in_scope(self, finding: Finding) -> bool:
        """Returns whether to report a finding. Navigation files outside the root may list pages inside it."""
        return self.scope.contains(finding.path) or finding.path in self.index.nav_files

    def _check_pages(self, previous: "Snapshot | None") -> dict[str, PageFindings]:
        pages = self.index.pages
        if (
            previous is None
            or previous.index.ignored_pattern != self.index.ignored_pattern
            or not _equal_except_redirects(previous.resolver.sites, self.resolver.sites)
            or previous.resolver.has_other_build != self.resolver.has_other_build
            or previous.resolver.stub_folders != self.resolver.stub_folders
        ):
            self.rechecked_pages: Set[str] = pages.keys()
            self.affected_keys: Set[str] | None = None
            """The dependency keys of the references that were judged again; None if all were."""
            return {page: self._check_page(page, facts) for page, facts in pages.items()}
        affected_keys = self.affected_keys = _find_affected_keys(previous.index, self.index)
        self.rechecked_pages = {page for page in self.index.changed if page in pages}
        if affected_keys:
            self.rechecked_pages |= {
                page for page, facts in pages.items() if not affected_keys.isdisjoint(facts.dependency_keys)
            }
        findings = dict(previous.findings_by_page)
        for page in previous.findings_by_page.keys() - pages.keys():
            del findings[page]
        findings.update((page, self._check_page(page, pages[page])) for page in self.rechecked_pages)
        return findings

    def _check_page(self, page: str, facts: PageFacts) -> PageFindings:
        site = self.resolver.site_by_page[page]
        problems = list(facts.problems)
        if facts.is_front_matter_readable:
            if facts.fields and site is not None:
                problems += find_wrong_types(site.kind, facts.fields, facts.field_lines)
            if self.scope.required_fields and is_site_page(page):
                problems += find_missing_fields(facts.fields, self.scope.required_fields)
        broken = find_broken_references(self.resolver, page, facts)
        if not problems and not broken and not facts.unjudged:
            return NO_FINDINGS
        findings = tuple(Finding(problem.rule, page, problem.line, problem.message) for problem in problems)
        return PageFindings(findings, broken, tuple(Unjudged(rule, page, 1, "", why) for rule, why in facts.unjudged))


def _equal_except_redirects(before: list[DocsSite], after: list[DocsSite]) -> bool:
    """Returns whether the sites are equal apart from their redirects.

    Redirects do not change how links are resolved; `_find_affected_keys` includes the redirected addresses.
    """
    return [replace(site, redirects=()) for site in before] == [replace(site, redirects=()) for site in after]


def _find_affected_keys(before: RepositoryIndex, after: RepositoryIndex) -> set[str]:
    """Returns the dependency keys of all files that were added or removed, or whose anchors or addresses changed."""
    keys: set[str] = set()
    changed_texts: set[str] = set()
    for path in after.changed:
        old = before.pages.get(path)
        new = after.pages.get(path)
        if (path in before.files) != (path in after.files):
            keys |= _list_reference_keys(before, path, old) | _list_reference_keys(after, path, new)
            changed_texts.add(path)
        elif old is not None and new is not None:
            if _list_page_addresses(before, path) != _list_page_addresses(after, path):
                keys |= _list_reference_keys(before, path, old) | _list_reference_keys(after, path, new)
            if _linkable_anchors(old) != _linkable_anchors(new):
                keys |= {f"# {name}" for name in _list_reference_keys(after, path, new)}
                changed_texts.add(path)
        labels = set(old.labels if old else ()) ^ set(new.labels if new else ())
        keys |= (
            {f"ref {label}" for label in labels} | {f"# {label}" for label in labels} | ({"# "} if labels else set())
        )
    for path, facts in _list_including_pages(after, changed_texts):
        keys |= {f"# {name}" for name in _list_reference_keys(after, path, facts)}
    keys |= {dependency_key(folder.rpartition("/")[2]) for folder in before.resolver.folders ^ after.resolver.folders}
    for old_site, new_site in zip(before.resolver.sites, after.resolver.sites, strict=True):
        for redirect in set(old_site.redirects) ^ set(new_site.redirects):
            keys |= {dependency_key(name) for name in re.split(r"[:*(]", redirect)[0].split("/")}
    return keys


def _list_including_pages(index: RepositoryIndex, changed: set[str]) -> Iterator[tuple[str, PageFacts]]:
    """Yields the pages that include one of the changed texts, directly or through another page.

    Compares names only, so that it may yield more pages than necessary."""
    names = {dependency_key(path.rpartition("/")[2]) for path in changed}
    pending = [(path, facts) for path, facts in index.pages.items() if facts.text_includes] if names else []
    while including := [(path, facts) for path, facts in pending if not names.isdisjoint(_list_included_names(facts))]:
        yield from including
        names = {dependency_key(path.rpartition("/")[2]) for path, _ in including}
        found = {path for path, _ in including}
        pending = [(path, facts) for path, facts in pending if path not in found]


def _list_included_names(facts: PageFacts) -> set[str]:
    return {dependency_key(target.rpartition("/")[2]) for _, target in facts.text_includes}


def _list_reference_keys(index: RepositoryIndex, path: str, facts: PageFacts | None) -> set[str]:
    """Returns the dependency keys that a reference to this file may have."""
    addresses_and_path = {path, *(_list_page_addresses(index, path) if facts else ())}
    if stem(path) in INDEX_NAMES:
        addresses_and_path |= {posixpath.dirname(path), ""}
    return {dependency_key(name.rpartition("/")[2]) for name in addresses_and_path}


def _list_page_addresses(index: RepositoryIndex, path: str) -> set[str]:
    return set(index.resolver.list_page_addresses(path))


def _linkable_anchors(facts: PageFacts) -> tuple[object, ...]:
    """Returns the facts of a page that decide which anchors a link can use."""
    return set(facts.explicit_ids), facts.headings, facts.component_titles, facts.open_reason, facts.text_includes
