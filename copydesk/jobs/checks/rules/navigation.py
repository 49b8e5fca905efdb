"""Checks that every page in the navigation exists, and that a complete navigation lists every page."""

import posixpath
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from copydesk.jobs.checks.findings import BrokenReference, Finding, ReferenceProblem, Unjudged
from copydesk.jobs.checks.rules.anchors import find_anchor_doubt, has_anchor
from copydesk.jobs.checks.rules.link_doubts import find_link_doubt
from copydesk.jobs.pages.page_types import INDEX_NAMES, PARTIAL_FOLDERS, is_site_page, stem
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.link_rewriter import find_referenced_file
from copydesk.jobs.pages.site.nav_entries import (
    VERSIONED_SIDEBAR_PATTERN,
    find_nav_root,
    find_nav_site,
    resolve_entry,
    resolve_link,
)
from copydesk.jobs.pages.site.nav_files import NavEntry, NavFile
from copydesk.jobs.pages.site.paths import is_within, join_path, split_target, strip_folder

UNLISTED_FIELDS = (
    "hidden",
    "unlisted",
    "draft",
    "noindex",
    "orphan",
    "displayed_sidebar",
    "redirect",
    "layout",
    "template",
)
OPTIONAL_NAVIGATION_KINDS = ("mintlify", "mkdocs", "docusaurus")
"""Generators that also build and serve the pages that the navigation does not list."""
SUMMARY_FILES = ("SUMMARY.md", "summary.md")


class CompleteMenu(NamedTuple):
    """A menu that names every page of a folder, so that a missing page is a finding."""

    site: DocsSite
    root: str


class NavigationReport(NamedTuple):
    findings: tuple[Finding, ...]
    unjudged: tuple[Unjudged, ...]
    broken: tuple[tuple[str, BrokenReference], ...]
    """Links of headers, footers and menus that did not resolve, with the paths of their files."""
    sites: Mapping[str, DocsSite]
    """The sites by the paths of their navigation files."""
    complete_menus: tuple[CompleteMenu, ...]


MenuResult = Finding | Unjudged | CompleteMenu


def check_navigation(resolver: LinkResolver, nav_files: Mapping[str, NavFile]) -> NavigationReport:
    sites: dict[str, DocsSite] = {}
    results: list[MenuResult] = []
    broken: list[tuple[str, BrokenReference]] = []
    menus: dict[tuple[DocsSite, str], dict[str, NavFile]] = {}
    for path, nav_file in nav_files.items():
        results += [Finding(problem.rule, path, problem.line, problem.message) for problem in nav_file.problems]
        site = find_nav_site(resolver, path)
        if site is None:
            continue
        sites[path] = site
        broken += ((path, each) for each in find_broken_links(resolver, site, nav_file))
        if nav_file.has_menu:
            menus.setdefault((site, find_nav_root(site, path)), {})[path] = nav_file
    for (site, root), files in menus.items():
        results += _check_menu(resolver, site, root, files)
    for site in resolver.sites:
        if site.kind in ("mdbook", "gitbook"):
            results += _check_summary(resolver, site)
        elif site.kind == "sphinx":
            results += _check_toctrees(resolver, site)
        sites.setdefault(site.config_path, site)
    return NavigationReport(
        tuple(each for each in results if isinstance(each, Finding)),
        tuple(each for each in results if isinstance(each, Unjudged)),
        tuple(broken),
        sites,
        tuple(each for each in results if isinstance(each, CompleteMenu)),
    )


def find_broken_links(resolver: LinkResolver, site: DocsSite, nav_file: NavFile) -> Iterator[BrokenReference]:
    """Yields the links of a header, a footer or a menu that do not resolve."""
    page = resolver.find_any_page(site)
    if page is None:
        return
    for entry in nav_file.links:
        path, suffix = split_target(entry.value)
        file = resolve_link(resolver, site, entry.value)
        anchor = suffix.partition("#")[2]
        if file is None:
            message = f"The link to `{entry.value}` is broken: the target does not exist."
            problem = ReferenceProblem("link", message, entry.value, find_link_doubt(resolver, page, path))
            yield BrokenReference(entry.line, entry.value, problem)
        elif anchor and file in resolver.pages and not has_anchor(resolver, file, anchor):
            message = f"The link to `{entry.value}` is broken: `{path}` has no anchor `{anchor}`."
            doubt = find_anchor_doubt(resolver, page, file)
            yield BrokenReference(
                entry.line, entry.value, ReferenceProblem("anchor", message, f"{file}#{anchor}", doubt)
            )


def _check_menu(
    resolver: LinkResolver, site: DocsSite, root: str, files: Mapping[str, NavFile]
) -> Iterator[MenuResult]:
    """Checks the navigation files that make up one menu."""
    open_reason = "" if site.kind == "sphinx" else site.open_reason
    named_files: set[str] = set()
    for path, nav_file in files.items():
        if nav_file.navigation_doubt:
            yield Unjudged("navigation", path, 1, "", nav_file.navigation_doubt)
        for entry in nav_file.listed:
            file = resolve_entry(resolver, site, path, entry.full_value)
            if file is not None:
                named_files.add(file)
                continue
            problem = describe_missing_entry(resolver, site, entry)
            if problem.doubt:
                yield Unjudged(problem.rule, path, entry.line, entry.value, problem.doubt)
            else:
                yield Finding(problem.rule, path, entry.line, problem.message)
    main_path = min(files, key=lambda path: (path != site.config_path, path))
    doubt = next((each.orphan_doubt for each in files.values() if each.orphan_doubt), open_reason)
    is_versioned = any(VERSIONED_SIDEBAR_PATTERN.search(path) for path in files)
    if doubt and any(each.listed or each.orphan_doubt for each in files.values()):
        yield Unjudged("orphan", main_path, 1, "", doubt)
    elif named_files and all(each.is_complete for each in files.values()) and not is_versioned:
        is_optional = site.kind in OPTIONAL_NAVIGATION_KINDS
        yield from _find_orphans(resolver, site, root, named_files, posixpath.basename(main_path), is_optional)


def describe_missing_entry(resolver: LinkResolver, site: DocsSite, entry: NavEntry) -> ReferenceProblem:
    """Returns the problem of an entry that names no page of the repository."""
    doubt = "" if site.kind == "sphinx" else site.open_reason
    if not doubt and _may_exist(resolver, site, entry.value):
        doubt = "git ignores the file"
    message = f"The navigation entry `{entry.value}` points to a page that does not exist."
    return ReferenceProblem("navigation", message, entry.value, doubt)


def _may_exist(resolver: LinkResolver, site: DocsSite, entry: str) -> bool:
    name = entry.strip("/")
    places = (join_path(root, name) for root in site.roots)
    return any(place is not None and resolver.is_unverifiable(place) for place in places)


def _check_summary(resolver: LinkResolver, site: DocsSite) -> Iterator[MenuResult]:
    """Reports the pages that a summary leaves out. The links in the summary are checked as links.

    A page that another one includes is a part of that page."""
    root = site.roots[0]
    included = {
        find_referenced_file(resolver, page, kind, target)
        for page, facts in resolver.pages.items()
        if resolver.site_by_page.get(page) is site
        for kind, target in facts.text_includes
    }
    for name in SUMMARY_FILES:
        path = join_path(root, name) or name
        facts = resolver.pages.get(path)
        if facts is not None:
            linked_files = {resolver.resolve(path, split_target(target)[0]) for _, _, target in facts.references}
            named_files = {file for file in linked_files | included if file}
            yield from _find_orphans(resolver, site, root, named_files, name)


def _check_toctrees(resolver: LinkResolver, site: DocsSite) -> Iterator[MenuResult]:
    """Reports pages that are missing from all Sphinx tables of contents. A `_toc.yml` replaces these tables."""
    if posixpath.basename(site.config_path) == "_toc.yml":
        return
    if site.open_reason:
        yield Unjudged("orphan", site.config_path, 1, "", site.open_reason)
        return
    named_files: set[str] = set()
    for page, facts in resolver.pages.items():
        if resolver.site_by_page.get(page) != site:
            continue
        for _, kind, target in facts.references:
            if kind in ("toctree", "include"):
                base = site.folder if target.startswith("/") else posixpath.dirname(page)
                place = join_path(base, target.strip("/")) or ""
                named_files |= {place, *(place + kind for kind in (".rst", ".md", ".ipynb"))}
        if facts.has_toctree_glob:
            yield Unjudged("orphan", site.config_path, 1, "", "a table of contents lists pages by pattern")
            return
    if named_files:
        named_files &= resolver.pages.keys()
        yield from _find_orphans(resolver, site, site.roots[0], named_files, "any table of contents")


def _find_orphans(
    resolver: LinkResolver,
    site: DocsSite,
    root: str,
    named_files: set[str],
    nav_name: str,
    is_optional: bool = False,
) -> Iterator[MenuResult]:
    """Reports unlisted pages. A navigation that leaves out more pages than it lists is not meant to be complete.

    `is_optional` says that the generator also shows the pages that the navigation does not list."""
    unnamed = [page for page in resolver.pages if page not in named_files and resolver.site_by_page[page] is site]
    missing = [page for page in unnamed if should_be_listed(resolver, site, root, page)]
    if len(missing) > len(named_files):
        return
    yield CompleteMenu(site, root)
    for page in missing:
        yield Finding("orphan", page, 1, f"This page is not listed in {nav_name}.", is_note=is_optional)


def should_be_listed(resolver: LinkResolver, site: DocsSite, root: str, page: str) -> bool:
    """Returns whether a site should list this page: not its home page, a partial, or a page that opts out."""
    if not is_within(page, root):
        return False
    path_in_root = strip_folder(page, root)
    if site.kind == "mdbook" and path_in_root == "404.md":
        return False
    if "/" not in path_in_root and stem(path_in_root) in INDEX_NAMES:
        return False
    folders = set(path_in_root.split("/")[:-1])
    if folders & PARTIAL_FOLDERS or any(name.startswith("_") for name in path_in_root.split("/")):
        return False
    facts = resolver.pages[page]
    if any(facts.fields.get(name) for name in UNLISTED_FIELDS):
        return False
    return path_in_root.endswith(".rst") or (facts.is_front_matter_readable and is_site_page(f"x/{path_in_root}"))
