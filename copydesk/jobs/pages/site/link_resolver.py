"""Resolves references as the generator of their page does, and in every possible way where that is not known."""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from urllib.parse import unquote

from copydesk.jobs.pages.page_types import (
    INDEX_NAMES,
    MARKDOWN_EXTENSIONS,
    PAGE_EXTENSIONS,
    extension,
    strip_extension,
)
from copydesk.jobs.pages.parsing.headings import SLUGIFIERS, Slugify, slugify_github
from copydesk.jobs.pages.parsing.page_facts import PageFacts
from copydesk.jobs.pages.site.anchors import PageAnchors
from copydesk.jobs.pages.site.generators import SHARED_SNIPPET_FOLDERS, DocsSite, resolve_overlaps
from copydesk.jobs.pages.site.link_bases import LinkBases, find_link_bases, is_file_of_site, list_address_bases
from copydesk.jobs.pages.site.page_addresses import NUMBER_PREFIX_PATTERN, list_addresses
from copydesk.jobs.pages.site.paths import collect_folders, join_path, list_parent_folders, strip_folder

ASSET_FOLDERS = ("public", "static")
LINKABLE_EXTENSIONS = (".md", ".mdx", ".rst", ".markdown", ".html")
IMPLIED_ENDINGS = (
    *LINKABLE_EXTENSIONS,
    ".ipynb",
    *(f"/{name}{kind}" for kind in LINKABLE_EXTENSIONS for name in INDEX_NAMES),
)
IMPLIED_ENDINGS_WITHOUT_SITE = (".adoc", ".txt", *(f"/{name}.adoc" for name in INDEX_NAMES))
"""Endings that a link may also leave out where no site is known. The known generators have no such pages."""
# Files of site generators that are not supported, and of programs that may build a site.
OTHER_BUILD_PATTERN = re.compile(
    r"package\.json|[\w.-]+\.config\.[cm]?[jt]s|antora\.ya?ml|_quarto\.ya?ml|myst\.ya?ml|docfx\.json|zensical\.toml"
    r"|\.eleventy\.[cm]?js|gatsby-[\w-]+\.[jt]s|_sidebar\.md|index\.html?|_config\.ya?ml|config\.toml|Doxyfile|Gemfile"
)
PREFIX_PATTERN = re.compile(r"(?:version-|v)?\d+(\.[\dx]+)*|[a-z]{2}(-[A-Za-z]{2,4})?")
"""Names before an address that may be a version or a language."""
HOSTING_NAMES = frozenset({"docs", "doc", "documentation", "latest", "stable", "main", "master", "next", "current"})
"""Names before an address that a host adds without a word in the site's configuration."""
MAX_HOSTING_NAMES = 3
FOLDER_MARK = "/"
"""Appended to the path when `find_at` returns a folder."""


class LinkResolver:
    """Resolves links to the repository's files and to the pages of its sites."""

    def __init__(
        self,
        files: Mapping[str, object],
        pages: Mapping[str, PageFacts],
        sites: Iterable[DocsSite],
        is_unverifiable: Callable[[str], bool] = lambda path: False,
    ) -> None:
        """Indexes the pages by address.

        `is_unverifiable` returns whether a path may exist although the repository has no such file: below a symbolic
        link or a submodule, or as build output.
        """
        self.files = files
        self.pages = pages
        self.is_unverifiable = is_unverifiable
        self.sites = resolve_overlaps(sites)
        self.folders = collect_folders(files)
        self.site_by_page: dict[str, DocsSite | None] = {}
        self._redirects = {site: Redirects(site.redirects) for site in self.sites}
        self.files_by_address: dict[DocsSite, dict[str, str]] = {site: {} for site in self.sites}
        # Versions, translations and the blog of a Docusaurus site have pages with the same addresses.
        self._files_by_root: dict[str, dict[str, str]] = {}
        self.labels: dict[DocsSite | None, set[str]] = {}
        self.stub_folders: set[str] = set()
        """Folders in which Sphinx's autosummary creates pages."""
        self._resolved: dict[tuple[str, str], str | None] = {}
        self._anchors_by_page: dict[str, PageAnchors] = {}
        for path, facts in pages.items():
            self._add_page(path, facts)

    def with_changed_pages(
        self,
        files: Mapping[str, object],
        pages: Mapping[str, PageFacts],
        changed: Iterable[str],
        is_unverifiable: Callable[[str], bool],
    ) -> "LinkResolver":
        """Returns a resolver for changed pages. The change must not have moved a page or changed its addresses."""
        new = copy(self)
        new.files = files
        new.pages = pages
        new.is_unverifiable = is_unverifiable
        new._anchors_by_page = dict(self._anchors_by_page)
        new.__dict__.pop("including_pages", None)
        for path in changed:
            new._anchors_by_page.pop(path, None)
        return new

    def with_move(self, old: str, new: str) -> "LinkResolver":
        """Returns a resolver for the repository after a file has moved."""
        files = {path: value for path, value in self.files.items() if path != old} | {new: self.files[old]}
        pages = {path: facts for path, facts in self.pages.items() if path != old}
        if old in self.pages:
            pages[new] = self.pages[old]
        return LinkResolver(files, pages, self.sites, self.is_unverifiable)

    def _add_page(self, path: str, facts: PageFacts) -> None:
        site = root = None
        for site in self.sites:
            root = site.find_root(path)
            if root is not None:
                break
        self.site_by_page[path] = site = site if root is not None else None
        if facts.labels:
            self.labels.setdefault(site, set()).update(facts.labels)
        for folder in facts.stub_folders:
            self.stub_folders.add(join_path(posixpath.dirname(path), folder.rstrip("/") or ".") or "")
        if site is not None and root is not None:
            indexes = [self.files_by_address[site]]
            if site.kind == "docusaurus":
                indexes.append(self._files_by_root.setdefault(root, {}))
            for address in list_addresses(site.kind, strip_folder(path, root), facts):
                for index in indexes:
                    index[address] = min(path, index.get(address, path))

    def resolve(self, page: str, target: str, is_html: bool = False) -> str | None:
        """Returns the file or folder that a link on this page leads to, or None if there is neither.

        `is_html` is whether the link is an attribute of raw HTML or of a component."""
        path = unquote(target) if "%" in target else target
        page = self.including_pages.get(page, page)
        folder = page[: page.rfind("/")] if "/" in page else ""
        site = self.site_by_page.get(page)
        if site is not None and site.kind == "mkdocs" and path[-1:] == "/" and _names_index(path[:-1]):
            return None  # a page named `index` in a folder has no folder of its own
        if path[:1] == "/":
            return self._resolve_once(folder, path, lambda: self._find_absolute(site, page, path))
        bases = self.find_bases(page, path, is_html)
        if bases.from_file:
            file = self._resolve_once(folder, path, lambda: self.find_at(join_path(folder, path)))
            if file is not None:
                return file
        elif not is_html and (file := join_path(folder, path)) in self.files:
            return file
        return self._find_otherwise(site, page, path, bases, is_html)

    def find_bases(self, page: str, path: str, is_html: bool) -> LinkBases:
        """Returns where a relative link of a page may start."""
        site = self.site_by_page.get(page)
        return find_link_bases(site, path, is_html, site is None and self.has_other_build)

    def starts_as_folder(self, page: str, path: str, is_html: bool) -> bool:
        """Returns whether a relative link can only start from the page as from a folder."""
        site = self.site_by_page.get(page)
        return site is not None and site.slashes == "always" and not self.find_bases(page, path, is_html).from_file

    def leaves_pages(self, page: str, path: str) -> bool:
        """Returns whether a relative address leads out of the addresses of the folder of pages."""
        site = self.site_by_page.get(page)
        root = site.find_root(page) if site is not None else None
        if site is None or root is None:
            return False
        bases = list_address_bases(site, strip_folder(page, root), self.pages.get(page))
        return any(posixpath.normpath(posixpath.join(base, unquote(path))).startswith("..") for base in bases)

    def _resolve_once(self, folder: str, path: str, find: Callable[[], str | None]) -> str | None:
        """Resolves a path of any page in a folder only once."""
        key = (folder, path)
        if key not in self._resolved:
            self._resolved[key] = find()
        return self._resolved[key]

    def _find_otherwise(
        self, site: DocsSite | None, page: str, path: str, bases: LinkBases, is_html: bool
    ) -> str | None:
        """Resolves a relative path in less common ways than from the page's folder."""
        if path.startswith("@site/"):
            return self.find_at(join_path(site.folder if site else "", path[6:]))
        if site is None:
            return self._find_without_site(page, path, bases)
        root = site.find_root(page) or ""
        path_in_root = strip_folder(page, root)
        if bases.from_address:
            if site.kind not in ("mkdocs", "docusaurus") and (
                file := self.find_at(join_path(strip_extension(page), path))
            ):
                return file
            for base in dict.fromkeys(list_address_bases(site, path_in_root, self.pages.get(page))):
                file = self._find_from_address(site, root, posixpath.normpath(posixpath.join(base, path)), is_html)
                if file is not None:
                    return file
        return self._find_from_folder(site, root, path_in_root, path) if bases.from_file else None

    def _find_without_site(self, page: str, path: str, bases: LinkBases) -> str | None:
        file = self.find_at(join_path(strip_extension(page), path)) if bases.from_address else None
        full_path = join_path(posixpath.dirname(page), path)
        if file is not None or not full_path:
            return file
        return next(
            (each for ending in IMPLIED_ENDINGS_WITHOUT_SITE if (each := f"{full_path}{ending}") in self.files), None
        )

    def _find_from_address(self, site: DocsSite, root: str, place: str, is_html: bool) -> str | None:
        """Finds what is served at an address, which is relative to the page's folder of pages."""
        place = "" if place == "." else place
        is_file = extension(place) not in ("", ".html") and not extension(place)[1:].isdigit()
        if place == ".." or place.startswith("../"):
            rest = re.sub(r"^(?:\.\./?)+", "", place)
            is_prefix = rest.partition("/")[0] in site.address_prefixes or (is_html and is_file)
            return self._find_by_address(site, rest) if site.kind == "docusaurus" and is_prefix else None
        if site.kind == "docusaurus" and (is_file or _names_index(place)):
            return None  # only the files of `static` have an address
        return self._find_place(site, root, place) or self._find_in(
            site.roots if site.kind not in ("mkdocs", "docusaurus") else (root,), place
        )

    def _find_place(self, site: DocsSite, root: str, place: str) -> str | None:
        """Finds the page with this address in a folder of pages, or in the others of the site."""
        if extension(place) in MARKDOWN_EXTENSIONS:
            return None
        is_docusaurus = site.kind == "docusaurus"
        address = NUMBER_PREFIX_PATTERN.sub(r"\1", place) if is_docusaurus else place.removesuffix(".html")
        if address not in self.files_by_address[site]:
            return None
        return self._files_by_root.get(root, {}).get(address, self.files_by_address[site][address])

    def _find_in(self, folders: Iterable[str], path: str) -> str | None:
        return next((file for folder in folders if (file := self.find_at(join_path(folder, path)))), None)

    def _find_from_folder(self, site: DocsSite, root: str, path_in_root: str, path: str) -> str | None:
        """Finds a path from the folder of its file, as an address or in other folders of pages.

        A translated page may link to a page that is not translated. Docusaurus searches for a source without leading
        dots in the content and in the folder of the site too."""
        place = join_path(posixpath.dirname(path_in_root), path)
        if site.kind != "docusaurus":
            found = self._find_place(site, root, place) if place is not None else None
            return found or (self._find_in(site.roots, place) if place is not None else None)
        if place is not None and root not in site.roots and (file := self._find_in(site.roots, place)):
            return file
        if path.startswith(("./", "../")) or extension(path) not in MARKDOWN_EXTENSIONS:
            return None
        folders = (root, *site.roots, site.folder)
        return next((file for folder in folders if (file := join_path(folder, path)) in self.files), None)

    @cached_property
    def including_pages(self) -> dict[str, str]:
        """The first page that includes each snippet of a MkDocs site. The links of a snippet start from that page."""
        sites = [site for site in self.sites if len(site.snippet_folders) > SHARED_SNIPPET_FOLDERS]
        pages: dict[str, str] = {}
        for page in sorted(self.pages) if sites else ():
            for kind, target in self.pages[page].text_includes:
                for site in sites if kind == "snippet" else ():
                    folders = site.snippet_folders[SHARED_SNIPPET_FOLDERS:]
                    files = (join_path(folder, target.partition(":")[0]) for folder in folders)
                    file = next((each for each in files if each in self.files), None)
                    if file is not None and site.is_snippet(file) and not site.is_snippet(page):
                        pages.setdefault(file, page)
        return pages

    @cached_property
    def has_other_build(self) -> bool:
        """Returns whether something other than the forge may display the pages that belong to no known site."""
        return (
            bool(self.sites)
            or ".gitignore" in self.files
            or any(OTHER_BUILD_PATTERN.fullmatch(path[path.rfind("/") + 1 :]) is not None for path in self.files)
        )

    def list_page_addresses(self, page: str) -> list[str]:
        """Returns the addresses of a page on its site; none if it belongs to no site."""
        site = self.site_by_page.get(page)
        facts = self.pages.get(page)
        if site is None or facts is None:
            return []
        return list_addresses(site.kind, strip_folder(page, site.find_root(page) or ""), facts)

    def is_label(self, page: str, target: str) -> bool:
        """Returns whether the target of a link is a label of MyST, `[text](a/label)`, and not a path."""
        site = self.site_by_page.get(page)
        if site is None or site.kind not in ("sphinx", "mixed") or extension(page) not in MARKDOWN_EXTENSIONS:
            return False
        is_known = any(target in labels or target.lower() in labels for labels in self.labels.values())
        return is_known and join_path(posixpath.dirname(page), target) not in self.files

    def find_page_at(self, address: str) -> str | None:
        """Returns the page that readers see at an address, as they see it; None if it is unknown.

        The address may begin with names that only the host knows. Without a site, it is the path of the page.
        """
        path = posixpath.normpath(f"/{address}").strip("/")
        for site in self.sites:
            has_folder_per_prefix = site.kind in ("mintlify", "vitepress")
            rest = path
            for _ in range(MAX_HOSTING_NAMES + 1):
                file = self._find_by_address(site, rest)
                if file in self.pages:
                    return file
                first, _, rest = rest.partition("/")
                may_be_prefix = not has_folder_per_prefix and PREFIX_PATTERN.fullmatch(first)
                if first not in HOSTING_NAMES and not may_be_prefix:
                    break
        if self.sites:
            return None
        candidates = (self.find_at(join_path(folder, path)) for folder in ("", "docs"))
        return next((file for file in candidates if file in self.pages), None)

    def find_any_page(self, site: DocsSite) -> str | None:
        """Returns one page of a site, from which its absolute addresses can be resolved; None if it has no page."""
        return next((page for page, each in self.site_by_page.items() if each is site), None)

    def get_anchors(self, page: str) -> PageAnchors:
        if page not in self._anchors_by_page:
            self._anchors_by_page[page] = PageAnchors(self._find_generator(page), self.pages[page])
        return self._anchors_by_page[page]

    def get_slugify(self, page: str) -> Slugify:
        """Returns the rule by which the anchors of a page are generated; GitHub's if it is unknown."""
        return SLUGIFIERS.get(self._find_generator(page) or "", slugify_github)

    def _find_generator(self, page: str) -> str | None:
        """Returns the generator whose rules for anchors apply to a page; None if they are unknown."""
        site = self.site_by_page.get(page)
        if site is None:
            return None if self.has_other_build else "github"
        return None if site.has_custom_anchors else site.kind

    def may_exist(self, page: str, path: str) -> bool:
        path = unquote(path)
        site = self.site_by_page.get(page)
        bases: tuple[str, ...] = (posixpath.dirname(page), strip_extension(page))
        if path.startswith("/"):
            bases = ("", *site.asset_folders, *site.roots, site.folder) if site else ("", *bases)
            path = path.lstrip("/")
        candidates = [join_path(base, path) for base in bases]
        if candidates[0] is None and site is not None and is_file_of_site(site, path):
            return False  # outside the repository, where a build finds nothing
        return any(each is None or self.is_unverifiable(each) for each in candidates)

    def find_at(self, path: str | None) -> str | None:
        """Finds a file by its path or its address.

        An address has no extension, is a folder with an index page, or names the HTML file of a page.
        """
        if path is None:
            return None
        if path in self.files:
            return path
        for ending in IMPLIED_ENDINGS:
            if (file := (path + ending).lstrip("/")) in self.files:
                return file
        if path.endswith(".html"):
            for ext in PAGE_EXTENSIONS:
                if (file := path[:-5] + ext) in self.files:
                    return file
            if path.endswith("/index.html"):
                return self.find_at(path[:-11])
        return path + FOLDER_MARK if path in self.folders else None

    def _find_absolute(self, site: DocsSite | None, page: str, path: str) -> str | None:
        path = posixpath.normpath(path).lstrip("/")
        if site:
            if site.kind == "docusaurus" and _names_index(path) and not self._redirects[site].matches(path):
                return None
            file = self._find_in_own_version(site, page, path) or self._find_by_address(site, path)
            if file:
                return file
            if site.kind == "docusaurus":
                is_asset = extension(path) not in ("", *MARKDOWN_EXTENSIONS)
                return self._find_in((*site.asset_folders, *(() if is_asset else (*site.roots, site.folder))), path)
            if site.kind not in ("hugo", "mixed"):
                return self._find_in((*site.asset_folders, *site.roots), path)
        for folder in list_parent_folders(page):
            for base in (folder, *(join_path(folder, name) or name for name in (*ASSET_FOLDERS, "_static", "docs"))):
                if file := self.find_at(join_path(base, path)):
                    return file
        return None

    def _find_in_own_version(self, site: DocsSite, page: str, path: str) -> str | None:
        """Finds a file of a Docusaurus site by its path, which starts from the pages of the same version."""
        if site.kind != "docusaurus" or extension(path) not in (".md", ".mdx"):
            return None
        root = site.find_root(page)
        file = join_path(root, path) if root else None
        return file if file in self.files else None

    def _find_by_address(self, site: DocsSite, path: str) -> str | None:
        """Finds a page by its address, which may begin with a base path, a route or a locale."""
        path = path.removesuffix(".html").removesuffix(".md").removesuffix("/index")
        names: list[str] = []
        for _ in range(4):
            if path in self.files_by_address[site]:
                return self.find_page(site, path, site.add_last_version(names))
            if path and self._redirects[site].matches(path):
                return path
            for asset in site.asset_folders:
                if (file := join_path(asset, path)) in self.files:
                    return file
            first, _, remainder = path.partition("/")
            # Mintlify and VitePress have a folder for each translation and version, and no page in another's place.
            may_be_prefix = site.kind not in ("mintlify", "vitepress") and PREFIX_PATTERN.fullmatch(first)
            if first not in site.address_prefixes and not may_be_prefix:
                return None
            names.append(first)
            path = remainder
        return None

    def find_page(self, site: DocsSite, address: str, names: Sequence[str]) -> str | None:
        """Finds the page with an address. If there are several, `names` decides: the names before the address."""
        file = self.files_by_address[site].get(address)
        for root in site.list_roots(names) if file is not None else ():
            if address in (files_by_address := self._files_by_root.get(root, {})):
                return files_by_address[address]
        return file


def _names_index(address: str) -> bool:
    """Returns whether an address names an index page as its file does, and not as its folder, where it is served."""
    return posixpath.basename(address) in INDEX_NAMES


class Redirects:
    """The sources of a site's redirects: `old/:slug*`, `old/*`, or a plain path.

    There may be very many, so a lookup does not go through all of them.
    """

    def __init__(self, sources: Iterable[str]) -> None:
        prefixes = {source: re.split(r"[:*(]", source, maxsplit=1)[0] for source in sources}
        self._exact_paths = {source for source, begin in prefixes.items() if source == begin}
        self._prefixes = {begin for source, begin in prefixes.items() if source != begin}
        self._prefix_lengths = sorted({len(begin) for begin in self._prefixes})

    def matches(self, path: str) -> bool:
        return path in self._exact_paths or any(path[:length] in self._prefixes for length in self._prefix_lengths)
