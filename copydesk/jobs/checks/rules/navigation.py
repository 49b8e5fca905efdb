"""Checks that every page in the navigation exists, and that a complete navigation lists every page."""

import posixpath
import re
from collections.abc import Iterator, Mapping

from copydesk.jobs.checks.findings import Finding
from copydesk.jobs.checks.site.generators import DocsSite
from copydesk.jobs.checks.site.link_resolver import INDEX_NAMES, NUMBER_PREFIX_PATTERN, LinkResolver, join_path
from copydesk.jobs.checks.site.nav_files import NavFile
from copydesk.jobs.pages.link_targets import split_target
from copydesk.jobs.pages.page_types import is_site_page, stem

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
VERSIONED_SIDEBAR_PATTERN = re.compile(r"version-(.+)-sidebars\.json$")
PARTIAL_FOLDERS = {"snippets", "partials", "includes", "fragments", "templates"}
SUMMARY_FILES = ("SUMMARY.md", "summary.md")


def check_navigation(resolver: LinkResolver, nav_files: Mapping[str, NavFile]) -> Iterator[Finding]:
    for path, nav_file in nav_files.items():
        for problem in nav_file.problems:
            yield Finding(problem.rule, path, problem.line, problem.message)
        site = _find_site(resolver, path)
        if site is not None and nav_file.entries:
            yield from _check_entries(resolver, site, path, nav_file)
    for site in resolver.sites:
        if site.kind in ("mdbook", "gitbook"):
            yield from _check_summary(resolver, site)
        elif site.kind == "sphinx" and not site.generated_prefixes:
            yield from _check_toctrees(resolver, site)


def _find_site(resolver: LinkResolver, path: str) -> DocsSite | None:
    """Returns the site that a navigation file belongs to: the one that it configures, or whose folder it is in."""
    for site in resolver.sites:
        if site.config_path == path:
            return site
    folder = posixpath.dirname(path).removesuffix("/versioned_sidebars").removesuffix("versioned_sidebars")
    return next((site for site in resolver.sites if site.kind == "docusaurus" and site.folder == folder), None)


def _check_entries(resolver: LinkResolver, site: DocsSite, path: str, nav_file: NavFile) -> Iterator[Finding]:
    named_files: set[str] = set()
    for line, entry in nav_file.entries:
        file = _resolve_entry(resolver, site, path, entry)
        if file is not None:
            named_files.add(file)
        elif (site.kind == "sphinx" or not site.is_open_ended) and not _may_exist(resolver, site, entry):
            yield Finding(
                "navigation", path, line, f"The navigation entry `{entry}` points to a page that does not exist."
            )
    if (
        nav_file.is_complete
        and (site.kind == "sphinx" or not site.is_open_ended)
        and not VERSIONED_SIDEBAR_PATTERN.search(path)
    ):
        yield from _find_orphans(resolver, site, named_files, posixpath.basename(path))


def _resolve_entry(resolver: LinkResolver, site: DocsSite, path: str, entry: str) -> str | None:
    name = split_target(entry)[0].strip("/")
    if site.kind == "vitepress":
        return resolver.resolve(join_path(site.roots[0], "index.md") or "", entry)
    if site.kind == "docusaurus":
        return _resolve_docusaurus_id(resolver, site, path, name)
    return resolver.find_at(join_path(site.roots[0], name))


def _resolve_docusaurus_id(resolver: LinkResolver, site: DocsSite, path: str, name: str) -> str | None:
    """Resolves a Docusaurus ID: the path without number prefixes, or with the front matter's `id` as its last name."""
    version = VERSIONED_SIDEBAR_PATTERN.search(path)
    files_by_address = resolver.files_by_address[site]
    if version:
        root = join_path(site.folder, f"versioned_docs/version-{version[1]}") or ""
        for file in (f"{root}/{name}{kind}" for kind in (".md", ".mdx")):
            if file in resolver.files:
                return file
    return files_by_address.get(name) or files_by_address.get(NUMBER_PREFIX_PATTERN.sub(r"\1", name))


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
    if root and not page.startswith(root + "/"):
        return False
    path_in_root = page[len(root) + 1 if root else 0 :]
    if "/" not in path_in_root and stem(path_in_root) in INDEX_NAMES:
        return False
    folders = set(path_in_root.split("/")[:-1])
    if folders & PARTIAL_FOLDERS or any(name.startswith("_") for name in path_in_root.split("/")):
        return False
    facts = resolver.pages[page]
    if any(facts.fields.get(name) for name in UNLISTED_FIELDS):
        return False
    return path_in_root.endswith(".rst") or (facts.is_front_matter_readable and is_site_page(f"x/{path_in_root}"))
