"""Navigation: every page that it names exists, and, where it is complete, it names every page."""

import posixpath
import re
from collections.abc import Iterator, Mapping

from copydesk.jobs.checks.findings import Finding
from copydesk.jobs.checks.site.generators import Site
from copydesk.jobs.checks.site.link_resolver import INDEXES, NUMBERED, Places, joined
from copydesk.jobs.checks.site.nav_files import Listing
from copydesk.jobs.pages.link_targets import split
from copydesk.jobs.pages.page_types import is_site_page, stem

UNLISTED = ("hidden", "unlisted", "draft", "noindex", "orphan", "displayed_sidebar", "redirect", "layout", "template")
VERSION = re.compile(r"version-(.+)-sidebars\.json$")
PARTS = {"snippets", "partials", "includes", "fragments", "templates"}
SUMMARIES = ("SUMMARY.md", "summary.md")


def navigation(places: Places, listings: Mapping[str, Listing]) -> Iterator[Finding]:
    for path, listing in listings.items():
        for problem in listing.problems:
            yield Finding(problem.rule, path, problem.line, problem.message)
        site = _site(places, path)
        if site is not None and listing.entries:
            yield from _entries(places, site, path, listing)
    for site in places.sites:
        if site.kind in ("mdbook", "gitbook"):
            yield from _summary(places, site)
        elif site.kind == "sphinx" and not site.generated:
            yield from _tables(places, site)


def _site(places: Places, path: str) -> Site | None:
    """The site that a navigation file belongs to: the one that it configures, or that it lies in."""
    for site in places.sites:
        if site.config == path:
            return site
    folder = posixpath.dirname(path).removesuffix("/versioned_sidebars").removesuffix("versioned_sidebars")
    return next((site for site in places.sites if site.kind == "docusaurus" and site.folder == folder), None)


def _entries(places: Places, site: Site, path: str, listing: Listing) -> Iterator[Finding]:
    named: set[str] = set()
    for line, entry in listing.entries:
        file = _named(places, site, path, entry)
        if file is not None:
            named.add(file)
        elif (site.kind == "sphinx" or not site.open_ended) and not _may_exist(places, site, entry):
            yield Finding("navigation", path, line, f"The entry `{entry}` names a page that does not exist.")
    if listing.is_complete and (site.kind == "sphinx" or not site.open_ended) and not VERSION.search(path):
        yield from _orphans(places, site, named, posixpath.basename(path))


def _named(places: Places, site: Site, path: str, entry: str) -> str | None:
    name = split(entry)[0].strip("/")
    if site.kind == "vitepress":
        return places.find(joined(site.roots[0], "index.md") or "", entry)
    if site.kind == "docusaurus":
        return _document(places, site, path, name)
    return places.at(joined(site.roots[0], name))


def _document(places: Places, site: Site, path: str, name: str) -> str | None:
    """A Docusaurus id: the path without numbers, or with the `id` of the front matter for its last name."""
    version = VERSION.search(path)
    known = places.addresses[site]
    if version:
        root = joined(site.folder, f"versioned_docs/version-{version[1]}") or ""
        for file in (f"{root}/{name}{kind}" for kind in (".md", ".mdx")):
            if file in places.files:
                return file
    return known.get(name) or known.get(NUMBERED.sub(r"\1", name))


def _may_exist(places: Places, site: Site, entry: str) -> bool:
    name = entry.strip("/")
    return any(place is None or places.is_hidden(place) for root in site.roots for place in [joined(root, name)])


def _summary(places: Places, site: Site) -> Iterator[Finding]:
    """The links of a summary are checked as links; here is what it leaves out."""
    root = site.roots[0]
    for name in SUMMARIES:
        path = joined(root, name) or name
        facts = places.pages.get(path)
        if facts is not None:
            found = {places.find(path, split(target)[0]) for _, _, target in facts.references}
            yield from _orphans(places, site, {file for file in found if file}, name)


def _tables(places: Places, site: Site) -> Iterator[Finding]:
    """Sphinx: the tables of contents of all pages together; a `_toc.yml` takes their place."""
    if posixpath.basename(site.config) == "_toc.yml":
        return
    named: set[str] = set()
    for page, facts in places.pages.items():
        if places.site_of.get(page) != site:
            continue
        for _, kind, target in facts.references:
            if kind in ("toctree", "include"):
                base = site.folder if target.startswith("/") else posixpath.dirname(page)
                place = joined(base, target.strip("/")) or ""
                named |= {place, *(place + kind for kind in (".rst", ".md", ".ipynb"))}
        if facts.globbed:
            return
    if named:
        yield from _orphans(places, site, named & places.pages.keys(), "tables of contents")


def _orphans(places: Places, site: Site, named: set[str], by: str) -> Iterator[Finding]:
    """A navigation that leaves out more pages than it names is not meant to be complete."""
    unnamed = [page for page in places.pages if page not in named and places.site_of[page] is site]
    missing = [page for page in unnamed if _is_listed(places, site, page)]
    if len(missing) > len(named):
        return
    for page in missing:
        yield Finding("orphan", page, 1, f"No entry of the {by} names this page.")


def _is_listed(places: Places, site: Site, page: str) -> bool:
    """Pages that a site shows in its menus: not the first one, no parts, nothing that asks to be left out."""
    root = site.roots[0]
    if root and not page.startswith(root + "/"):
        return False
    inside = page[len(root) + 1 if root else 0 :]
    if "/" not in inside and stem(inside) in INDEXES:
        return False
    folders = set(inside.split("/")[:-1])
    if folders & PARTS or any(name.startswith("_") for name in inside.split("/")):
        return False
    facts = places.pages[page]
    if any(facts.fields.get(name) for name in UNLISTED):
        return False
    return inside.endswith(".rst") or (facts.has_fields and is_site_page(f"x/{inside}"))
