"""Decides whether a page has an anchor, with the pages that it includes, and whether all its anchors are known."""

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote

from copydesk.jobs.pages.page_types import PARTIAL_FOLDERS
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.link_rewriter import find_referenced_file

MAX_INCLUDED_PAGES = 50
"""Limits the included pages whose anchors are read for one page."""


def has_anchor(resolver: LinkResolver, file: str, anchor: str) -> bool:
    plain = unquote(anchor) if "%" in anchor else anchor
    for page in (file, *_list_included_pages(resolver, file)):
        anchors = resolver.get_anchors(page)
        if anchors.has(anchor) or (plain != anchor and anchors.has(plain)):
            return True
    # Sphinx resolves labels across all pages, including pages from outside the site.
    return any(anchor in labels for labels in resolver.labels.values())


def find_anchor_doubt(resolver: LinkResolver, page: str, file: str) -> str:
    """Returns why a link from `page` to `file` may use an anchor that was not found; "" if all anchors are known."""
    for source in (file, *_list_included_pages(resolver, file)):
        facts = resolver.pages[source]
        if facts.open_reason:
            return f"{facts.open_reason}, so that its anchors are unknown"
    if not _are_includes_known(resolver, file):
        return "the page includes files that are not read, so that its anchors are unknown"
    site = resolver.site_by_page.get(file)
    if site is not None and site.kind == "mkdocs":
        if site.open_reason:
            return site.open_reason
        if site.hooks and (page != file or resolver.pages[file].has_shortcodes):
            return f"{site.hooks} may add anchors"
    if site is not None and site.kind == "sphinx" and (page == file or site.has_unread_settings):
        return site.label_reason  # a link without a path also leads to labels of other projects
    if site is not None and site.kind in ("hugo", "mixed"):
        return site.open_reason
    if page == file and (posixpath.basename(page).startswith("_") or PARTIAL_FOLDERS & set(page.split("/"))):
        return "a page that includes this one may have the anchor"
    return ""


def _list_included_pages(resolver: LinkResolver, file: str) -> Iterator[str]:
    """Yields the pages whose text becomes a part of this page, directly or through another one."""
    pending = [file] if resolver.pages[file].text_includes else []
    included = {file}
    while pending and len(included) <= MAX_INCLUDED_PAGES:
        page = pending.pop()
        for kind, target in resolver.pages[page].text_includes:
            path = find_referenced_file(resolver, page, kind, target)
            if path is not None and path in resolver.pages and path not in included:
                included.add(path)
                pending.append(path)
                yield path


def _are_includes_known(resolver: LinkResolver, file: str) -> bool:
    """Returns whether every file that this page includes as text was found and read."""
    return all(
        find_referenced_file(resolver, file, kind, target) in resolver.pages
        for kind, target in resolver.pages[file].text_includes
    )
