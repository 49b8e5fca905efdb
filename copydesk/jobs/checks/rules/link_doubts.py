"""Says why a link without a target may still be valid. An empty reason means that the link is surely broken.

A link is surely broken if the generator's own link checker would report it. Any other target may be created by a build
or served by another application.
"""

import posixpath
from urllib.parse import unquote

from copydesk.jobs.pages.page_types import IMAGE_EXTENSIONS, MARKDOWN_EXTENSIONS, extension, strip_extension
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.paths import is_within, join_path

FILE_EXTENSIONS = frozenset(
    (".pdf", ".zip", ".py", ".ts", ".tsx", ".go", ".rs", ".java", ".sh", ".yml", ".yaml", ".toml", ".csv")
)
LINKED_FILE_EXTENSIONS = frozenset((*MARKDOWN_EXTENSIONS, *IMAGE_EXTENSIONS, *FILE_EXTENSIONS, ".rst"))
# These generators serve each page under one address and know all addresses, so an address without a page is broken.
ADDRESS_BASED_GENERATORS = ("mintlify", "docusaurus", "vitepress")
MDBOOK_GENERATED_NAMES = ("print.html", "index.html", "404.html", "toc.html")
OTHER_APPLICATION = "the address may belong to another application on the same host"
OUTSIDE_SITE = "the address is outside this site"
IN_SNIPPET = "links of a snippet start from the pages that include it"
RAW_HTML = "raw HTML starts from the address of its page, which depends on the host"
UNKNOWN_BUILD = "a build may create the file"


def find_link_doubt(resolver: LinkResolver, page: str, path: str, is_html: bool = False) -> str:
    """Returns why a link from this page may be valid although nothing was found at its path; "" if it is broken."""
    site = resolver.site_by_page.get(page)
    ext = extension(path)
    if resolver.may_exist(page, path):
        return "the file is not in the repository: git ignores it, or it is behind a symbolic link or a submodule"
    if not path.startswith("/") and any(each.is_snippet(page) for each in resolver.sites):
        return IN_SNIPPET
    if site is None:
        return _doubt_without_site(resolver, path, ext)
    if site.kind in ("hugo", "mixed"):
        return site.open_reason
    if is_html and site.kind in ("sphinx", "docusaurus") and _is_found_otherwise(resolver, page, path):
        return RAW_HTML
    if site.kind in ADDRESS_BASED_GENERATORS:
        return _doubt_address(resolver, site, page, path, is_html)
    if path.startswith("/"):
        return OTHER_APPLICATION
    if site.kind == "jekyll":
        return "" if ext in MARKDOWN_EXTENSIONS else site.open_reason
    if site.kind == "mkdocs" and is_html and _leaves_site(site, page, path):
        return OUTSIDE_SITE
    if ext in LINKED_FILE_EXTENSIONS:
        return site.open_reason if site.kind == "mkdocs" else ""
    if site.kind == "mdbook" and ext == ".html":
        return _doubt_html(site, page, path)
    return "the address has no extension of a known file, so that a build may create it"


def _doubt_without_site(resolver: LinkResolver, path: str, ext: str) -> str:
    if resolver.has_other_build:
        if path.startswith("/") or ext not in LINKED_FILE_EXTENSIONS:
            return "no known generator builds this page, so its addresses are unknown"
        return ""
    return "" if ext in LINKED_FILE_EXTENSIONS or not ext else UNKNOWN_BUILD


def _leaves_site(site: DocsSite, page: str, path: str) -> bool:
    """Returns whether a path leads out of the pages' folder. Raw HTML starts from the address, which may be deeper."""
    place = join_path(strip_extension(page), unquote(path))
    return place is None or not is_within(place, site.roots[0])


def _doubt_html(site: DocsSite, page: str, path: str) -> str:
    """Judges the address of a page of an mdBook, which does not check its links itself."""
    place = join_path(posixpath.dirname(page), unquote(path))
    if place is None or not is_within(place, site.roots[0]):
        return OUTSIDE_SITE
    name = place[len(site.roots[0]) :].strip("/")
    if posixpath.basename(place) in MDBOOK_GENERATED_NAMES or name in site.redirects:
        return "mdBook creates this page"
    return ""


def _is_found_otherwise(resolver: LinkResolver, page: str, path: str) -> bool:
    """Returns whether a path leads to a file from the page's folder, or from the page as if it were a folder."""
    site = resolver.site_by_page.get(page)
    if site is not None and site.kind == "docusaurus" and extension(path) not in LINKED_FILE_EXTENSIONS:
        return False  # the setting for slashes decides it
    places = (join_path(base, unquote(path)) for base in (posixpath.dirname(page), strip_extension(page)))
    return any(resolver.find_at(place) is not None for place in places)


def _doubt_address(resolver: LinkResolver, site: DocsSite, page: str, path: str, is_html: bool) -> str:
    ext = extension(path)
    is_absolute = path.startswith("/")
    if (
        is_absolute
        and ext in IMAGE_EXTENSIONS
        and (site.kind == "vitepress" or (site.kind == "docusaurus" and not is_html))
    ):
        return ""  # the build fails without the file
    if is_absolute and ext in LINKED_FILE_EXTENSIONS and ext not in MARKDOWN_EXTENSIONS:
        first_name = path.split("/")[1]
        has_folder = any(f"{asset}/{first_name}".strip("/") in resolver.folders for asset in site.asset_folders)
        return "" if has_folder else OTHER_APPLICATION
    if ext in LINKED_FILE_EXTENSIONS:
        return OTHER_APPLICATION if is_absolute and site.kind == "docusaurus" else ""
    if site.kind == "docusaurus" and not is_absolute and resolver.leaves_pages(page, path):
        return OUTSIDE_SITE
    if site.open_reason:
        return site.open_reason
    if ext and not ext[1:].isdigit() and ext != ".html":
        return UNKNOWN_BUILD
    return "" if not is_absolute else _doubt_own_address(resolver, site, path)


def _doubt_own_address(resolver: LinkResolver, site: DocsSite, path: str) -> str:
    """Judges whether an address belongs to this site, and not to another application on the same host."""
    names = [name for name in unquote(path).strip("/").split("/") if name]
    if any("/".join(names).startswith(prefix) for prefix in site.generated_prefixes):
        return "a build creates pages below this address"
    if site.kind == "mintlify" and names and names[0] == posixpath.basename(site.folder):
        return OTHER_APPLICATION  # the host may serve the site below the name of its folder
    if site.kind == "vitepress" or (site.kind == "mintlify" and names):
        return ""
    while names and names[0] in site.address_prefixes:
        names.pop(0)
    if names and any(f"{root}/{names[0]}".strip("/") in resolver.folders for root in site.roots):
        return ""
    return OTHER_APPLICATION
