"""Finds the file that an entry of a navigation file names, and renames the entry when the file has moved."""

import posixpath
import re
from collections.abc import Iterator

from copydesk.jobs.pages.page_types import PAGE_EXTENSIONS, extension, strip_extension
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.link_resolver import FOLDER_MARK, LinkResolver
from copydesk.jobs.pages.site.link_rewriter import rewrite_reference
from copydesk.jobs.pages.site.page_addresses import NUMBER_PREFIX_PATTERN
from copydesk.jobs.pages.site.paths import PathChange, is_within, join_path, split_target, strip_folder

VERSIONED_SIDEBARS_FOLDER_PATTERN = re.compile(r"(?:^|/)(?:[^/]+_)?versioned_sidebars$")
VERSIONED_SIDEBAR_PATTERN = re.compile(r"version-(.+)-sidebars\.json$")


def find_nav_site(resolver: LinkResolver, nav_path: str) -> DocsSite | None:
    """Returns the site that a navigation file belongs to: the one that it configures, or whose folder it is in."""
    for site in resolver.sites:
        if site.config_path == nav_path or any(part.path == nav_path for part in site.parts):
            return site
    if "src/pages/" in nav_path:
        folder = nav_path[: nav_path.index("src/pages/")].rstrip("/")
        return next((site for site in resolver.sites if site.kind == "docusaurus" and site.folder == folder), None)
    folder = VERSIONED_SIDEBARS_FOLDER_PATTERN.sub("", posixpath.dirname(nav_path))
    return next((site for site in resolver.sites if site.kind == "docusaurus" and site.folder == folder), None)


def find_nav_root(site: DocsSite, nav_path: str) -> str:
    """Returns the folder of the pages that a navigation file lists."""
    return next((part.root for part in site.parts if part.path == nav_path and part.root), site.roots[0])


def resolve_entry(resolver: LinkResolver, site: DocsSite, nav_path: str, value: str) -> str | None:
    """Returns the file or folder that an entry names by the rules of its site, or None."""
    name = split_target(value)[0].strip("/")
    if site.kind == "vitepress":
        return resolver.resolve(join_path(site.roots[0], "index.md") or "", value)
    if site.kind == "docusaurus":
        return _resolve_docusaurus_id(resolver, site, nav_path, name)
    file = resolver.find_at(join_path(site.roots[0], name))
    if site.kind == "mkdocs" and file is not None and not is_within(file, site.roots[0]):
        return None  # MkDocs builds no page outside of its folder of pages
    return file


def resolve_link(resolver: LinkResolver, site: DocsSite, value: str) -> str | None:
    """Returns the file that a link in the header, the footer or a menu of a site leads to, or None."""
    page = resolver.find_any_page(site)
    return resolver.resolve(page, split_target(value)[0]) if page else None


def rename_link(before: LinkResolver, after: LinkResolver, nav_path: str, value: str, change: PathChange) -> str:
    """Returns the link to a page that has moved; the same link if it leads elsewhere or cannot be rewritten."""
    site = find_nav_site(before, nav_path)
    page = before.find_any_page(site) if site and resolve_link(before, site, value) == change.old else None
    if page is None:
        return value
    page_change = change if page == change.old else PathChange(page, page)
    return rewrite_reference(before, after, "link", value, page_change, change)


def _resolve_docusaurus_id(resolver: LinkResolver, site: DocsSite, nav_path: str, name: str) -> str | None:
    """Resolves a Docusaurus ID: the path without number prefixes, or with the front matter's `id` as its last name."""
    version = VERSIONED_SIDEBAR_PATTERN.search(nav_path)
    root = strip_folder(find_nav_root(site, nav_path), site.folder)
    instance = posixpath.basename(posixpath.dirname(nav_path)).removesuffix("versioned_sidebars").rstrip("_")
    names = [instance or "docs", version[1]] if version else [root]
    unnumbered = NUMBER_PREFIX_PATTERN.sub(r"\1", name)
    file = resolver.find_page(site, name, names) or resolver.find_page(site, unnumbered, names)
    is_configured = any(part.path == nav_path for part in site.parts)
    if file is not None and is_configured and not is_within(file, find_nav_root(site, nav_path)):
        return None  # a page of another plugin has the same ID
    return file


def find_entry_file(resolver: LinkResolver, nav_path: str, value: str) -> str | None:
    """Returns the file that an entry names, also in a navigation file without a site; None if there is none."""
    site = find_nav_site(resolver, nav_path)
    file = resolve_entry(resolver, site, nav_path, value) if site else None
    if file is None or file.endswith(FOLDER_MARK):
        name = split_target(value)[0].strip("/")
        candidates = (resolver.find_at(join_path(base, name)) for base in _list_bases(site, nav_path))
        file = next((each for each in candidates if each and not each.endswith(FOLDER_MARK)), None)
    return file


def rename_entry(before: LinkResolver, after: LinkResolver, nav_path: str, value: str, old: str, new: str) -> str:
    """Returns the entry for a file that has moved, in the style of the old one; the same entry if there is no other."""
    for candidate in (value, *_list_new_entries(before, after, nav_path, value, old, new)):
        if find_entry_file(after, nav_path, candidate) == new:
            return candidate
    return value


def _list_new_entries(
    before: LinkResolver, after: LinkResolver, nav_path: str, value: str, old: str, new: str
) -> Iterator[str]:
    old_name, query_and_anchor = split_target(value)
    lead = "/" if old_name.startswith("/") else ""
    tail = ("/" if old_name.endswith("/") else "") + query_and_anchor
    name = old_name.strip("/")
    has_extension = extension(name) in PAGE_EXTENSIONS
    old_addresses = before.list_page_addresses(old)
    new_addresses = after.list_page_addresses(new)
    if name in old_addresses and len(old_addresses) == len(new_addresses):
        yield lead + new_addresses[old_addresses.index(name)] + tail
    for base in _list_bases(find_nav_site(before, nav_path), nav_path):
        if is_within(old, base) and is_within(new, base) and strip_folder(old, base).startswith(strip_extension(name)):
            new_name = strip_folder(new, base)
            yield lead + (new_name if has_extension else _strip_page_extension(new_name)) + tail


def _strip_page_extension(name: str) -> str:
    return strip_extension(name) if extension(name) in PAGE_EXTENSIONS else name


def _list_bases(site: DocsSite | None, nav_path: str) -> list[str]:
    """Returns the folders that the entries of a navigation file may be relative to."""
    folder = posixpath.dirname(nav_path)
    roots = [*site.roots, site.folder] if site else []
    return list(dict.fromkeys([*roots, folder, posixpath.join(folder, "docs")]))
