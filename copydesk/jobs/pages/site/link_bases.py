"""Decides where a relative link starts: in the folder of its page's file, or at the address of the page.

A build rewrites links to source files and images, so that they start from the file. A browser resolves all others, and
raw HTML, from the address at which the page is served.
"""

import posixpath
from typing import NamedTuple

from copydesk.jobs.pages.page_types import (
    IMAGE_EXTENSIONS,
    INDEX_NAMES,
    MARKDOWN_EXTENSIONS,
    extension,
    strip_extension,
)
from copydesk.jobs.pages.parsing.page_facts import PageFacts
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.page_addresses import DATE_PREFIX_PATTERN, build_docusaurus_address, list_addresses


class LinkBases(NamedTuple):
    from_file: bool
    """True if the link may start from the folder of the page's file."""
    from_address: bool
    """True if the link may start from the address of the page."""


FROM_FILE, FROM_ADDRESS, FROM_EITHER = LinkBases(True, False), LinkBases(False, True), LinkBases(True, True)
FILE_GENERATORS = ("vitepress", "mdbook", "sphinx", "gitbook", "mintlify")
"""Generators whose pages are served from the folder of their file, so that both ways are the same."""
ADDRESS_GENERATORS = ("mkdocs", "docusaurus")
"""Generators whose pages may have an address from which a link starts elsewhere than from the file."""


def find_link_bases(site: DocsSite | None, path: str, is_html: bool, has_other_build: bool) -> LinkBases:
    """Returns where a relative link of a page may start. Both are possible only if the generator does not decide it.

    `has_other_build` is whether an unknown generator may build a page without a site."""
    ext = extension(path)
    kind = site.kind if site is not None else ""
    if kind in FILE_GENERATORS or (ext in MARKDOWN_EXTENSIONS and kind not in ("hugo", "mixed")):
        return FROM_FILE
    if kind == "mkdocs":
        return FROM_FILE if ext and not is_html else FROM_ADDRESS
    if kind == "docusaurus":
        if is_html or not ext or ext == ".html":
            return FROM_ADDRESS
        return FROM_FILE if ext in IMAGE_EXTENSIONS else FROM_EITHER
    return FROM_EITHER if kind or has_other_build else FROM_FILE


def is_file_of_site(site: DocsSite, path: str) -> bool:
    """Returns whether a relative path can only be a source or an image that the site's own folders contain."""
    is_known = site.kind in FILE_GENERATORS or site.kind in ADDRESS_GENERATORS
    return is_known and extension(path) in (*MARKDOWN_EXTENSIONS, *IMAGE_EXTENSIONS)


def list_address_bases(site: DocsSite, path: str, facts: PageFacts | None) -> list[str]:
    """Returns the addresses that a relative link of a page may start from; `..` is one outside of the folder of pages.

    `path` is the page's path in its folder of pages."""
    if site.kind == "mkdocs":
        folder, _, name = strip_extension(path).rpartition("/")
        return _list_folders(site, f"{folder}/" if name in INDEX_NAMES else strip_extension(path))
    if facts is None:
        return []
    addresses = list_addresses(site.kind, path, facts)
    if site.kind != "docusaurus":
        return [*addresses, *map(posixpath.dirname, addresses)]
    is_dated = DATE_PREFIX_PATTERN.search(path) is not None  # the address of a post has the date, or not
    own = [build_docusaurus_address(path, facts), *(addresses if is_dated else ())]
    return [folder for address in own for folder in _list_folders(site, address)]


def _list_folders(site: DocsSite, address: str) -> list[str]:
    """Returns the folder that a browser takes from an address, or both if the setting for slashes is unknown."""
    place = address.strip("/")
    is_folder = site.slashes == "always" or (site.slashes == "index" and (not place or address.endswith("/")))
    folders = [place] if is_folder or site.slashes == "unknown" else []
    return folders if is_folder else [*folders, posixpath.dirname(place) if place else ".."]
