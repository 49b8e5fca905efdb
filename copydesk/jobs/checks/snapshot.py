"""The parsed state of a repository with its findings. The next state is built from it and the files that changed."""

import posixpath
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cached_property, partial
from typing import TypeVar

import pygit2

from copydesk.jobs.checks.content_cache import get_or_parse
from copydesk.jobs.checks.findings import Finding
from copydesk.jobs.checks.parsing import front_matter
from copydesk.jobs.checks.parsing.markdown import decode_body, parse_page
from copydesk.jobs.checks.parsing.page_facts import PageFacts, dependency_key
from copydesk.jobs.checks.rules.links import PageFindings, check_references
from copydesk.jobs.checks.rules.navigation import check_navigation
from copydesk.jobs.checks.site.generators import DocsSite, find_config_parser
from copydesk.jobs.checks.site.link_resolver import INDEX_NAMES, LinkResolver, list_addresses
from copydesk.jobs.checks.site.nav_files import NavFile, find_nav_parser, parse_nav_file
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension, is_page, is_site_page, stem
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.repository_limits import FileTooLarge

T = TypeVar("T")
FileIds = Mapping[str, pygit2.Oid]
ReadFile = Callable[[str], bytes]
MAX_GITIGNORE_LINES, MAX_GITIGNORE_LINE_CHARS, MAX_FOLDER_DEPTH = 500, 100, 100
"""Limits of the lines of a .gitignore, of the characters per line, and of the nested folders that are examined."""
CHECKED_EXTENSIONS = (*MARKDOWN_EXTENSIONS, ".rst")
# Pages that are wrong on purpose, and templates that are filled in later.
SKIPPED_PATH_PATTERN = re.compile(
    r"(?:^|/)(?:fixtures|testdata|__tests__|__fixtures__|archetypes|_templates)/|^tests?/|\{\{"
)


@dataclass(frozen=True)
class CheckScope:
    root: str = ""
    required_fields: tuple[str, ...] = ()

    def contains(self, path: str) -> bool:
        return not self.root or path.startswith(self.root + "/")


class Snapshot:
    def __init__(
        self,
        scope: CheckScope,
        tree: Tree,
        files: FileIds,
        read: ReadFile,
        previous: "Snapshot | None" = None,
        changed: Set[str] | None = None,
    ) -> None:
        """Parses and checks the files, reusing all results of `previous` that have not changed.

        `changed` are the paths that differ from `previous`; None means that they are computed.
        """
        self.scope, self.files, self.tree = scope, files, tree
        if previous is None:
            changed = files.keys()
        elif changed is None:
            changed = {path for path, _ in previous.files.items() ^ files.items()}

        def update(previous_values: Mapping[str, T], parse: Callable[[str], T | None]) -> dict[str, T]:
            values = dict(previous_values)
            for path in changed:  # a first snapshot reads in git's order, which is the fastest for a pack
                values.pop(path, None)
                value = _none_if_too_large(parse, path) if path in files else None
                if value is not None:
                    values[path] = value
            return values

        self.pages: dict[str, PageFacts] = update(
            previous.pages if previous else {}, lambda path: self._parse_page(path, read)
        )
        self.nav_files: dict[str, NavFile] = update(
            previous.nav_files if previous else {}, lambda path: self._parse_nav_file(path, read)
        )
        self.sites: dict[str, DocsSite] = update(
            previous.sites if previous else {}, lambda path: self._parse_site_config(path, read)
        )
        self.ignored_pattern: re.Pattern[str] = (
            previous.ignored_pattern if previous and ".gitignore" not in changed else _read_gitignore(files, read)
        )
        is_hidden = partial(
            _is_unverifiable, tree, self.ignored_pattern
        )  # a bound method would create a reference cycle
        self.resolver: LinkResolver
        if previous is not None and self._has_same_layout(previous, changed):
            self.resolver = previous.resolver.with_changed_pages(files, self.pages, changed, is_hidden)
            self._navigation_findings = (
                previous.navigation_findings if self._has_same_navigation(previous, changed) else None
            )
        else:
            self.resolver = LinkResolver(files, self.pages, self.sites.values(), is_hidden)
            self._navigation_findings = None
        self.findings_by_page = self._check_pages(previous, changed)

    def _has_same_layout(self, previous: "Snapshot", changed: Set[str]) -> bool:
        """Returns whether the files, the sites, and the addresses and labels of all pages are the same as before."""
        pairs = [(previous.pages.get(path), self.pages.get(path)) for path in changed]
        return (
            previous.files.keys() == self.files.keys()
            and changed.isdisjoint(self.sites.keys() | previous.sites.keys())
            and all(
                (old is None and new is None)
                or (old is not None and new is not None and (old.fields, old.labels) == (new.fields, new.labels))
                for old, new in pairs
            )
        )

    def _has_same_navigation(self, previous: "Snapshot", changed: Set[str]) -> bool:
        """Returns whether the navigation is unchanged; False if the generator defines it in the pages."""
        is_in_pages = any(site.kind in ("mdbook", "gitbook", "sphinx") for site in self.resolver.sites)
        return (
            not is_in_pages
            and previous.ignored_pattern == self.ignored_pattern
            and changed.isdisjoint(self.nav_files.keys() | previous.nav_files.keys())
        )

    def _parse_page(self, path: str, read: ReadFile) -> PageFacts | None:
        ext = extension(path)
        if (
            ext not in CHECKED_EXTENSIONS
            or not self.scope.contains(path)
            or not is_page(path)
            or SKIPPED_PATH_PATTERN.search(path)
        ):
            return None
        return get_or_parse(self.files[path], ext, lambda: parse_page(ext, read(path)))

    def _parse_nav_file(self, path: str, read: ReadFile) -> NavFile | None:
        if find_nav_parser(path) is None or not self._may_configure_root(path):
            return None
        return get_or_parse(self.files[path], path, lambda: parse_nav_file(path, decode_body(read(path))))

    def _parse_site_config(self, path: str, read: ReadFile) -> DocsSite | None:
        parser = find_config_parser(path)
        if parser is None or SKIPPED_PATH_PATTERN.search(path) or not self._may_configure_root(path):
            return None
        return get_or_parse(self.files[path], f"site {path}", lambda: parser(path, decode_body(read(path))))

    def _may_configure_root(self, path: str) -> bool:
        """Returns whether a configuration file may apply to pages in the root: it is in the root or above it."""
        folder = path.rpartition("/")[0].rpartition(".vitepress")[0].strip("/") or path.rpartition("/")[0]
        return self.scope.contains(path) or not folder or f"{self.scope.root}/".startswith(f"{folder}/")

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return (
            *(finding for judged in self.findings_by_page.values() for finding in judged.findings),
            *self.navigation_findings,
        )

    @cached_property
    def navigation_findings(self) -> tuple[Finding, ...]:
        if self._navigation_findings is not None:
            return self._navigation_findings
        return tuple(each for each in check_navigation(self.resolver, self.nav_files) if self._is_in_scope(each))

    def _is_in_scope(self, finding: Finding) -> bool:
        """Returns whether to report a finding. Navigation files outside the root may list pages inside it."""
        return self.scope.contains(finding.path) or finding.path in self.nav_files

    def _check_pages(self, previous: "Snapshot | None", changed: Set[str]) -> dict[str, PageFindings]:
        if (
            previous is None
            or previous.ignored_pattern != self.ignored_pattern
            or not _equal_except_redirects(previous.resolver.sites, self.resolver.sites)
        ):
            self.rechecked_pages: Set[str] = self.pages.keys()
            return {page: self._check_page(page, facts) for page, facts in self.pages.items()}
        affected_keys = _find_affected_keys(previous, self, changed)
        self.rechecked_pages = {page for page in changed if page in self.pages}
        if affected_keys:
            self.rechecked_pages |= {
                page for page, facts in self.pages.items() if not affected_keys.isdisjoint(facts.dependency_keys)
            }
        findings = dict(previous.findings_by_page)
        for page in previous.findings_by_page.keys() - self.pages.keys():
            del findings[page]
        findings.update((page, self._check_page(page, self.pages[page])) for page in self.rechecked_pages)
        return findings

    def _check_page(self, page: str, facts: PageFacts) -> PageFindings:
        site = self.resolver.site_by_page[page]
        problems = list(facts.problems)
        if facts.is_front_matter_readable:
            if facts.fields and site is not None:
                problems += front_matter.find_wrong_types(site.kind, facts.fields, facts.field_lines)
            if self.scope.required_fields and is_site_page(page):
                problems += front_matter.find_missing_fields(facts.fields, self.scope.required_fields)
        page_findings = check_references(self.resolver, page, facts)
        if not problems:
            return page_findings
        findings = (Finding(problem.rule, page, problem.line, problem.message) for problem in problems)
        return PageFindings((*findings, *page_findings.findings), page_findings.uncertain)


def _none_if_too_large(parse: Callable[[str], T | None], path: str) -> T | None:
    """Parses a file. Returns None if it is too large: then it exists, but its content is unknown."""
    try:
        return parse(path)
    except FileTooLarge:
        return None


def _is_unverifiable(tree: Tree, ignored_pattern: re.Pattern[str], path: str) -> bool:
    """Returns whether a path may exist although the tree has no such file.

    It may be below a symbolic link or a submodule, or be build output that git ignores.
    """
    names = path.split("/")
    for end in range(1, min(len(names), MAX_FOLDER_DEPTH) + 1):
        entry = tree.find_entry("/".join(names[:end]))
        if entry is not None and entry.mode in (0o120000, 0o160000):
            return True
        if entry is None:
            break
    return any(map(ignored_pattern.match, set(names[:MAX_FOLDER_DEPTH])))


def _read_gitignore(files: FileIds, read: ReadFile) -> re.Pattern[str]:
    """Returns a pattern of the names that git ignores in any folder, such as those of build output."""
    text = _none_if_too_large(lambda path: decode_body(read(path)), ".gitignore") or "" if ".gitignore" in files else ""
    lines = (line.strip().strip("/") for line in text.splitlines()[:MAX_GITIGNORE_LINES])
    names = {line.rpartition("/")[2] for line in lines if line and line[0] not in "#!" and line[-1:] != "*"}
    return re.compile(
        "|".join(translate(name) for name in sorted(names) if len(name) <= MAX_GITIGNORE_LINE_CHARS) or "(?!)"
    )


def _equal_except_redirects(before: list[DocsSite], after: list[DocsSite]) -> bool:
    """Returns whether the sites are equal apart from their redirects.

    Redirects do not change how links are resolved; `_find_affected_keys` includes the redirected addresses.
    """
    return [replace(site, redirects=()) for site in before] == [replace(site, redirects=()) for site in after]


def _find_affected_keys(before: Snapshot, after: Snapshot, changed: Set[str]) -> set[str]:
    """Returns the dependency keys of all files that were added or removed, or whose anchors or addresses changed."""
    keys: set[str] = set()
    for path in changed:
        old, new = before.pages.get(path), after.pages.get(path)
        if (path in before.files) != (path in after.files):
            keys |= _list_reference_keys(before, path, old) | _list_reference_keys(after, path, new)
        elif old is not None and new is not None:
            if _list_page_addresses(before, path, old) != _list_page_addresses(after, path, new):
                keys |= _list_reference_keys(before, path, old) | _list_reference_keys(after, path, new)
            if _linkable_anchors(old) != _linkable_anchors(new):
                keys |= {f"# {name}" for name in _list_reference_keys(after, path, new)}
        labels = set(old.labels if old else ()) ^ set(new.labels if new else ())
        keys |= (
            {f"ref {label}" for label in labels} | {f"# {label}" for label in labels} | ({"# "} if labels else set())
        )
    keys |= {dependency_key(folder.rpartition("/")[2]) for folder in before.resolver.folders ^ after.resolver.folders}
    for old_site, new_site in zip(before.resolver.sites, after.resolver.sites, strict=True):
        for redirect in set(old_site.redirects) ^ set(new_site.redirects):
            keys |= {dependency_key(name) for name in re.split(r"[:*(]", redirect)[0].split("/")}
    return keys


def _list_reference_keys(state: Snapshot, path: str, facts: PageFacts | None) -> set[str]:
    """Returns the dependency keys that a reference to this file may have."""
    addresses_and_path = {path, *(_list_page_addresses(state, path, facts) if facts else ())}
    if stem(path) in INDEX_NAMES:
        addresses_and_path |= {posixpath.dirname(path), ""}
    return {dependency_key(name.rpartition("/")[2]) for name in addresses_and_path}


def _list_page_addresses(state: Snapshot, path: str, facts: PageFacts) -> set[str]:
    site = state.resolver.site_by_page.get(path)
    return set(list_addresses(site.kind, path, facts)) if site else set()


def _linkable_anchors(facts: PageFacts) -> tuple[object, ...]:
    """Returns the facts of a page that decide which anchors a link can use."""
    return set(facts.explicit_ids), facts.headings, facts.component_titles, facts.is_open_ended
