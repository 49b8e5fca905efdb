"""Plans redirects from missing addresses to the pages that they surely meant; leaves all others to people."""

import posixpath
from collections import defaultdict
from functools import cached_property
from typing import NamedTuple

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.mechanic.instructions import AddRedirects
from copydesk.jobs.agent.mechanic.plan import EditPlan, Edits
from copydesk.jobs.pages.missing_addresses import is_safe_address
from copydesk.jobs.pages.moved_files import find_moved_files
from copydesk.jobs.pages.page_types import INDEX_NAMES, is_page, strip_extension
from copydesk.jobs.pages.redirects import PageAddress, add_redirect, find_address, is_redirected
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.paths import strip_folder
from copydesk.jobs.pages.site.repository_index import index_workspace
from copydesk.jobs.workspace.path_rules import PathRefused
from copydesk.jobs.workspace.text_edits import DecodedText
from copydesk.jobs.workspace.workspace import Workspace

COMMON_NAMES = frozenset(
    {"index", "readme", "overview", "introduction", "intro", "home", "docs", "page", "search", "changelog", "404"}
)
"""Names that pages of any section have, so that the name alone says nothing."""


class MissingPage(NamedTuple):
    old: PageAddress
    target: str
    """The page that the address surely meant."""
    reason: str


def plan_redirects(workspace: Workspace, instruction: AddRedirects) -> EditPlan:
    """Plans a redirect for each address whose page moved, or whose name exactly one page has."""
    plan = EditPlan()
    finder = _TargetFinder(workspace)
    scratch = _copy_workspace(workspace)
    left = 0
    for address in dict.fromkeys(instruction.addresses):
        found = finder.find(address) if is_safe_address(address) else None
        if found is None or is_redirected(scratch, found.old):
            left += 1
            continue
        result = add_redirect(scratch, found.old, found.target)
        if result.path is not None:
            plan.notes.append(f"{result.message} {found.reason}")
        else:
            left += 1
            plan.notes += [result.message] if result.message not in plan.notes else []
    for path, data in sorted(scratch.changes().items()):
        if data is not None and data != workspace.read(path):
            plan.add_edits(path, workspace.read(path), _find_edit(workspace.read(path), data))
    if left:
        plan.notes.append(
            f"{pluralize(left, 'missing path')} got no redirect: it is not sure which page was meant, or there is a "
            "redirect already."
        )
    return plan


class _TargetFinder:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._index = index_workspace(workspace)
        self._addresses = [found for page in self._index.pages if (found := find_address(self._index, page))]
        self._present = {(found.site, found.address) for found in self._addresses}
        self._by_name: defaultdict[str, list[PageAddress]] = defaultdict(list)
        for found in self._addresses:
            self._by_name[posixpath.basename(found.address).lower()].append(found)

    def find(self, address: str) -> MissingPage | None:
        """Returns the page that an address surely meant; None if there is none, or more than one."""
        sites = {found.site for found in self._addresses}
        local_addresses = {site: _to_local(address, site) for site in sites}
        if any((site, local) in self._present for site, local in local_addresses.items()):
            return None
        moved = {
            target: MissingPage(PageAddress(site, old, _keep_suffix(local, address)), target, "The page was moved.")
            for site, local in local_addresses.items()
            for old, target in self._moved_pages.get((site, local), ())
        }
        if moved:
            return next(iter(moved.values())) if len(moved) == 1 else None
        return self._find_by_name(local_addresses, address)

    def _find_by_name(self, local_addresses: dict[DocsSite, str], address: str) -> MissingPage | None:
        name = posixpath.basename(address.removesuffix(".html").rstrip("/")).lower()
        candidates = self._by_name.get(name, []) if len(name) > 2 and name not in COMMON_NAMES else []
        if len(candidates) != 1:
            return None
        [target] = candidates
        local = local_addresses[target.site]
        old_path = posixpath.join(target.site.roots[0], local.strip("/") + posixpath.splitext(target.path)[1])
        old = PageAddress(target.site, old_path, _keep_suffix(local, address))
        return MissingPage(old, target.path, "It is the only page of this name.")

    @cached_property
    def _moved_pages(self) -> dict[tuple[DocsSite, str], set[tuple[str, str]]]:
        """Returns the earlier paths and the current ones of pages that moved, by site and earlier address."""
        site_by_page = {found.path: found.site for found in self._addresses}
        moved: defaultdict[tuple[DocsSite, str], set[tuple[str, str]]] = defaultdict(set)
        for old, new in find_moved_files(self._workspace.tree).items():
            site = site_by_page.get(new)
            root = site.find_root(old) if site else None
            if site is not None and root is not None and is_page(old, in_site=True):
                folder, _, name = strip_extension(strip_folder(old, root)).rpartition("/")
                address = folder if name in INDEX_NAMES else posixpath.join(folder, name)
                moved[site, f"/{address}"].add((old, new))
        return moved


def _to_local(address: str, site: DocsSite) -> str:
    """Returns the address as the site's files spell it: without the route of Docusaurus and an HTML suffix."""
    address = address.removesuffix(".html").rstrip("/")
    first, slash, rest = address[1:].partition("/")
    if site.kind == "docusaurus" and slash and first in site.address_prefixes:
        return f"/{rest}"
    return address


def _keep_suffix(local: str, address: str) -> str:
    return f"{local}.html" if address.endswith(".html") else local


def _copy_workspace(workspace: Workspace) -> Workspace:
    """Returns a workspace with the same changes, to try redirects in."""

    def check_path(path: str) -> None:
        if not workspace.may_change(path):
            raise PathRefused(f"{path} is protected.")

    copy = Workspace(workspace.tree, check_path, workspace.root)
    copy.restore(workspace.changes())
    return copy


def _find_edit(old_data: bytes, new_data: bytes) -> Edits:
    """Returns the one edit that turns the old text into the new one, without the beginning and end that stay."""
    old, new = DecodedText.decode(old_data).body, DecodedText.decode(new_data).body
    start = len(posixpath.commonprefix([old, new]))
    end = len(posixpath.commonprefix([old[start:][::-1], new[start:][::-1]]))
    return [(start, len(old) - end, new[start : len(new) - end])]
