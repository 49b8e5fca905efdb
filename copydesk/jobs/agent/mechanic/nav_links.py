"""Fixes the entries of navigation files that name no page: mkdocs.yml, docs.json, sidebars and other menus.

Entries of SUMMARY.md and of Sphinx's tables of contents are references of pages and are fixed as links.
"""

import posixpath
from collections.abc import Iterator, Mapping

from copydesk.jobs.agent.mechanic.fix_links import LinkFixer
from copydesk.jobs.agent.mechanic.instructions import InstructionScope
from copydesk.jobs.agent.mechanic.plan import EditPlan
from copydesk.jobs.checks.findings import Unjudged
from copydesk.jobs.checks.rules.navigation import describe_missing_entry, find_broken_links
from copydesk.jobs.pages.page_types import PAGE_EXTENSIONS, extension, strip_extension
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.nav_entries import VERSIONED_SIDEBAR_PATTERN, find_nav_root, find_nav_site, resolve_entry
from copydesk.jobs.pages.site.nav_files import NavEntry, NavFile
from copydesk.jobs.pages.site.paths import is_within, split_target, strip_folder
from copydesk.jobs.workspace.text_edits import is_text
from copydesk.jobs.workspace.workspace import Workspace


def plan_nav_fixes(
    workspace: Workspace,
    nav_files: Mapping[str, NavFile],
    fixer: LinkFixer,
    scope: InstructionScope,
    plan: EditPlan,
) -> int:
    """Plans the edits of the navigation files in the scope. Returns how many entries they fix."""
    fixed = 0
    for path, nav_file in sorted(nav_files.items()):
        site = find_nav_site(fixer.resolver, path)
        if site is None or not _is_in_scope(path, site, scope):
            continue
        plan.notes += [f"{path}:{problem.line}: {problem.message}" for problem in nav_file.problems]
        if nav_file.navigation_doubt:
            fixer.unjudged.append(Unjudged("navigation", path, 1, "", nav_file.navigation_doubt))
        may_change = workspace.may_change(path) and workspace.is_readable(path) and is_text(workspace.read(path))
        edits = list(_find_edits(path, site, nav_file, fixer, may_change))
        if edits and plan.is_full:
            plan.note_limit_reached()
            break
        if edits and plan.add_edits(path, workspace.read(path), edits):
            fixed += len(edits)
    return fixed


def _is_in_scope(path: str, site: DocsSite, scope: InstructionScope) -> bool:
    """Returns whether the scope is everything, or a folder that has the navigation file or all pages of its site."""
    places = [place.strip("/") for place in scope.places]
    root = _find_pages_folder(site, path)
    return not places or any(is_within(path, place) or is_within(f"{root}/", place) for place in places)


def _find_pages_folder(site: DocsSite, path: str) -> str:
    """Returns the folder of the pages that a navigation file may list; for a sidebar of a version, that of it."""
    version = VERSIONED_SIDEBAR_PATTERN.search(path)
    if version is None:
        return find_nav_root(site, path)
    folder = posixpath.dirname(path).removesuffix("versioned_sidebars")
    return f"{folder}versioned_docs/version-{version[1]}"


def _find_edits(
    path: str, site: DocsSite, nav_file: NavFile, fixer: LinkFixer, may_change: bool
) -> Iterator[tuple[int, int, str]]:
    """Yields the edits of entries that have one clear target, and collects the others."""
    files = {entry: resolve_entry(fixer.resolver, site, path, entry.full_value) for entry in nav_file.listed}
    listed_files = {file for file in files.values() if file}
    missing = [(entry, describe_missing_entry(fixer.resolver, site, entry)) for entry in files if files[entry] is None]
    problems = {(each.line, each.target): each.problem for each in find_broken_links(fixer.resolver, site, nav_file)}
    broken = [(link, problems[key]) for link in nav_file.links if (key := (link.line, link.value)) in problems]
    for entry, problem in sorted((*missing, *broken), key=lambda each: each[0].line):
        place = f"{path}:{entry.line} {entry.value}"
        if problem.doubt:
            fixer.unjudged.append(Unjudged(problem.rule, path, entry.line, entry.value, problem.doubt))
        elif not may_change:
            fixer.protected.append(place)
        else:
            new = _fix_link(site, entry, fixer) if entry.is_link else _fix_entry(path, site, entry, fixer, listed_files)
            if new is None or entry.span is None:
                fixer.undecided.append(place)
            else:
                yield (*entry.span, new)


def _fix_link(site: DocsSite, entry: NavEntry, fixer: LinkFixer) -> str | None:
    page = fixer.resolver.find_any_page(site)
    return fixer.fix_target(page, "link", entry.value) if page else None


def _fix_entry(path: str, site: DocsSite, entry: NavEntry, fixer: LinkFixer, listed_files: set[str]) -> str | None:
    """Returns the entry of the page that a broken entry means; None if it is not clear, or listed already."""
    root = _find_pages_folder(site, path)
    file = fixer.guess_target(posixpath.join(root, "index.md"), entry.full_value, root)
    if file is None or file in listed_files:
        return None
    for candidate in _list_candidates(fixer.resolver, entry.value, strip_folder(file, root), file):
        if resolve_entry(fixer.resolver, site, path, entry.base + candidate) == file:
            listed_files.add(file)
            return candidate
    return None


def _list_candidates(resolver: LinkResolver, value: str, name: str, file: str) -> Iterator[str]:
    """Yields the entries that may name a file, those in the style of the old entry first."""
    old_name, query_and_anchor = split_target(value)
    lead = "/" if old_name.startswith("/") else ""
    if extension(old_name) not in PAGE_EXTENSIONS:
        yield lead + strip_extension(name) + query_and_anchor
    yield lead + name + query_and_anchor
    yield from resolver.list_page_addresses(file)
