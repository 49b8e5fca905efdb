"""Checks that every page in the navigation exists, and that a complete navigation lists every page."""

import posixpath
from collections.abc import Iterator, Mapping

from copydesk.jobs.checks.findings import Finding
from copydesk.jobs.pages.page_types import INDEX_NAMES, PARTIAL_FOLDERS, is_site_page, stem
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.nav_entries import VERSIONED_SIDEBAR_PATTERN, find_nav_site, resolve_entry
from copydesk.jobs.pages.site.nav_files import NavFile
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
SUMMARY_FILES = ("SUMMARY.md", "summary.md")


def check_navigation(resolver: LinkResolver, nav_files: Mapping[str, NavFile]) -> Iterator[Finding]:
    for path, nav_file in nav_files.items():
        for problem in nav_file.problems:
            yield Finding(problem.rule, path, problem.line, problem.message)
        site = find_nav_site(resolver, path)
        if site is not None and nav_file.listed:
            yield from _check_entries(resolver, site, path, nav_file)
    for site in resolver.sites:
        if site.kind in ("mdbook", "gitbook"):
            yield from _check_summary(resolver, site)
        elif site.kind == "sphinx" and not site.generated_prefixes:
            yield from _check_toctrees(resolver, site)


def _check_entries(resolver: LinkResolver, site: DocsSite, path: str, nav_file: NavFile) -> Iterator[Finding]:
    named_files: set[str] = set()
    for entry in nav_file.listed:
        file = resolve_entry(resolver, site, path, entry.value)
        if file is not None:
            named_files.add(file)
        elif (site.kind == "sphinx" or not site.is_open_ended) and not _may_exist(resolver, site, entry.value):
            message = f"The navigation entry `{entry.value}` points to a page that does not exist."
            yield Finding("navigation", path, entry.line, message)
    if (
        nav_file.is_complete
        and (site.kind == "sphinx" or not site.is_open_ended)
        and not VERSIONED_SIDEBAR_PATTERN.search(path)
    ):
        yield from _find_orphans(resolver, site, named_files, posixpath.basename(path))


def _may_exist(resolver: LinkResolver, site: DocsSite, entry: str) -> bool:
    name = entry.strip("/")
    return any(
        place is None or resolver.is_unverifiable(place) for root in site.roots for place in [join_path(root, name)]
    )


def _check_summary(resolver: LinkResolver, site: DocsSite) -> Iterator[Finding]:
    """Reports the pages that a summary leaves out. The links in the summary are checked as links."""
    root = site.roots[0]
    for name in SUMMARY_FILES:
        path = join_path(root, name) or name
        facts = resolver.pages.get(path)
        if facts is not None:
            linked_files = {resolver.resolve(path, split_target(target)[0]) for _, _, target in facts.references}
            yield from _find_orphans(resolver, site, {file for file in linked_files if file}, name)


def _check_toctrees(resolver: LinkResolver, site: DocsSite) -> Iterator[Finding]:
    """Reports pages that are missing from all Sphinx tables of contents. A `_toc.yml` replaces these tables."""
    if posixpath.basename(site.config_path) == "_toc.yml":
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
            return
    if named_files:
        yield from _find_orphans(resolver, site, named_files & resolver.pages.keys(), "any table of contents")


def _find_orphans(resolver: LinkResolver, site: DocsSite, named_files: set[str], nav_name: str) -> Iterator[Finding]:
    """Reports unlisted pages. A navigation that leaves out more pages than it lists is not meant to be complete."""
    unnamed = [page for page in resolver.pages if page not in named_files and resolver.site_by_page[page] is site]
    missing = [page for page in unnamed if _should_be_listed(resolver, site, page)]
    if len(missing) > len(named_files):
        return
    for page in missing:
        yield Finding("orphan", page, 1, f"This page is not listed in {nav_name}.")


def _should_be_listed(resolver: LinkResolver, site: DocsSite, page: str) -> bool:
    """Returns whether a site should list this page: not its home page, a partial, or a page that opts out."""
    root = site.roots[0]
    if not is_within(page, root):
        return False
    path_in_root = strip_folder(page, root)
    if "/" not in path_in_root and stem(path_in_root) in INDEX_NAMES:
        return False
    folders = set(path_in_root.split("/")[:-1])
    if folders & PARTIAL_FOLDERS or any(name.startswith("_") for name in path_in_root.split("/")):
        return False
    facts = resolver.pages[page]
    if any(facts.fields.get(name) for name in UNLISTED_FIELDS):
        return False
    return path_in_root.endswith(".rst") or (facts.is_front_matter_readable and is_site_page(f"x/{path_in_root}"))
