"""Where a reference leads: every way in which a generator might look for it, since a doubt is no finding."""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from urllib.parse import unquote

from copydesk.jobs.checks.parsing.page_facts import Facts
from copydesk.jobs.checks.site.anchors import Anchors
from copydesk.jobs.checks.site.generators import Site, settled
from copydesk.jobs.pages.link_targets import ASSETS
from copydesk.jobs.pages.page_types import PAGES, extension, without_extension

INDEXES = ("index", "README", "readme", "_index", "Readme", "Index")
KINDS = (".md", ".mdx", ".rst", ".markdown", ".html")
ADDED = (*KINDS, ".ipynb", *(f"/{name}{kind}" for kind in KINDS for name in INDEXES))
SCRIPTS = (".js", ".jsx", ".ts", ".tsx", ".mdx", ".md", ".json", ".mjs", ".vue")
MODULES = ("", *SCRIPTS, *(f"/index{kind}" for kind in SCRIPTS))
NUMBERED = re.compile(r"(^|/)\d+[ \t]*[-_.]+[ \t]*(?=[^-_.\s\d/])")
DATED = re.compile(r"(^|/)(\d{4})[-/](\d\d)[-/](\d\d)[-/](?=[^/]+$)")
MAX_FOLDERS = 40
FOLDER = "/"
"""What `find` answers for a folder, after its path."""


class Places:
    """The repository's files and the sites that are made of them."""

    def __init__(
        self,
        files: Mapping[str, object],
        pages: Mapping[str, Facts],
        sites: Iterable[Site],
        is_hidden: Callable[[str], bool] = lambda path: False,
    ) -> None:
        """`is_hidden`: whether a path may exist though it is no file here: a link, a submodule, the work of a build."""
        self.files, self.pages, self.is_hidden = files, pages, is_hidden
        self.sites = settled(sites)
        self.folders = _folders(files)
        self.site_of: dict[str, Site | None] = {}
        self._redirects = {site: Redirects(site.redirects) for site in self.sites}
        self.addresses: dict[Site, dict[str, str]] = {site: {} for site in self.sites}
        self.labels: dict[Site | None, set[str]] = {}
        self._found: dict[tuple[str, str], str | None] = {}
        self._anchors: dict[str, Anchors] = {}
        for path, facts in pages.items():
            self._enter(path, facts)

    def with_pages(
        self,
        files: Mapping[str, object],
        pages: Mapping[str, Facts],
        changed: Iterable[str],
        is_hidden: Callable[[str], bool],
    ) -> "Places":
        """The same places after a change within pages, which moved none of them and gave none another address."""
        new = copy(self)
        new.files, new.pages, new.is_hidden = files, pages, is_hidden
        new._anchors = dict(self._anchors)
        for path in changed:
            new._anchors.pop(path, None)
        return new

    def _enter(self, path: str, facts: Facts) -> None:
        site = root = None
        for site in self.sites:
            root = site.root_of(path)
            if root is not None:
                break
        self.site_of[path] = site = site if root is not None else None
        if facts.labels:
            self.labels.setdefault(site, set()).update(facts.labels)
        if site is not None and root is not None:
            known = self.addresses[site]
            for address in addresses(site.kind, path[len(root) + 1 if root else 0 :], facts):
                known[address] = min(path, known.get(address, path))

    def find(self, page: str, target: str) -> str | None:
        """The file that a link of this page leads to, or a folder; None where there is neither."""
        path = unquote(target) if "%" in target else target
        folder = page[: page.rfind("/")] if "/" in page else ""
        key = (folder, path)
        found = self._found.get(key)
        if found is None and key not in self._found:
            site = self.site_of.get(page)
            found = self._absolute(site, page, path) if path[:1] == "/" else self.at(joined(folder, path))
            self._found[key] = found
        return found or (self._otherwise(page, path) if path[:1] != "/" else None)

    def _otherwise(self, page: str, path: str) -> str | None:
        """Ways to look for a relative path that are rarer than from the page's folder."""
        site = self.site_of.get(page)
        if path.startswith("@site/"):
            return self.at(joined(site.folder if site else "", path[6:]))
        found = self.at(joined(without_extension(page), path))
        return found if found or site is None else self._below(site, page, path)

    def anchors_of(self, page: str) -> Anchors:
        if page not in self._anchors:
            site = self.site_of.get(page)
            kind = None if site is None or site.own_anchors else site.kind
            self._anchors[page] = Anchors(kind, self.pages[page])
        return self._anchors[page]

    def may_exist(self, page: str, path: str) -> bool:
        path = unquote(path)
        site = self.site_of.get(page)
        bases: tuple[str, ...] = (posixpath.dirname(page), without_extension(page))
        if path.startswith("/"):
            bases = ("", *site.assets, *site.roots, site.folder) if site else ("", *bases)
            path = path.lstrip("/")
        tried = [joined(base, path) for base in bases]
        return any(each is None or self.is_hidden(each) for each in tried)

    def at(self, path: str | None) -> str | None:
        """By its path, or as an address: without extension, as a folder with an index, or as the HTML of a page."""
        if path is None:
            return None
        if path in self.files:
            return path
        for added in ADDED:
            if (file := (path + added).lstrip("/")) in self.files:
                return file
        if path.endswith(".html"):
            for kind in PAGES:
                if (file := path[:-5] + kind) in self.files:
                    return file
            if path.endswith("/index.html"):
                return self.at(path[:-11])
        return path + FOLDER if path in self.folders else None

    def _absolute(self, site: Site | None, page: str, path: str) -> str | None:
        path = posixpath.normpath(path).lstrip("/")
        if site:
            found = self._address(site, path)
            if found:
                return found
            for folder in (*site.assets, *site.roots, site.folder):
                if found := self.at(joined(folder, path)):
                    return found
        for folder in folders_above(page):
            for base in (folder, *(joined(folder, name) or name for name in (*ASSETS, "_static", "docs"))):
                if found := self.at(joined(base, path)):
                    return found
        return None

    def _address(self, site: Site, path: str) -> str | None:
        """By the address that its page has; a base path, a route or a locale may stand before it."""
        known = self.addresses[site]
        path = path.removesuffix(".html").removesuffix(".md").removesuffix("/index")
        for _ in range(4):
            if path in known:
                return known[path]
            if path and self._redirects[site].lead_from(path):
                return path
            for asset in site.assets:
                if (file := joined(asset, path)) in self.files:
                    return file
            first, _, rest = path.partition("/")
            if first not in site.prefixes and not re.fullmatch(r"v?\d+(\.[\dx]+)*|[a-z]{2}(-[A-Za-z]{2,4})?", first):
                return None
            path = rest
        return None

    def _below(self, site: Site, page: str, path: str) -> str | None:
        """Relative to the page's address, or to a folder of pages: a translation links to what is not translated."""
        root = site.root_of(page) or ""
        inside = page[len(root) + 1 if root else 0 :]
        own = addresses(site.kind, inside, self.pages[page]) if page in self.pages else []
        for base in dict.fromkeys((posixpath.dirname(inside), *own, *map(posixpath.dirname, own))):
            place = joined(base, path)
            if place is None:
                continue
            plain = NUMBERED.sub(r"\1", place.removesuffix(".html"))
            if plain in self.addresses[site] and extension(path) not in (".md", ".mdx"):
                return self.addresses[site][plain]
            for other in site.roots:
                if found := self.at(joined(other, place)):
                    return found
        if site.kind == "docusaurus":
            for base in (*site.roots, site.folder):
                if (file := joined(base, path)) in self.files:
                    return file
        return None


def addresses(kind: str, path: str, facts: Facts) -> list[str]:
    """All that a page may be called on its site, without slashes at the ends."""
    plain = without_extension(path)
    found = [plain]
    folder, _, name = plain.rpartition("/")
    if name in INDEXES:
        found.append(folder)
    if kind == "docusaurus":
        if (unnumbered := NUMBERED.sub(r"\1", plain)) != plain:
            found.append(unnumbered)
            plain, folder = unnumbered, unnumbered.rpartition("/")[0]
            if unnumbered.rpartition("/")[2] in INDEXES:
                found.append(folder)
        if folder and plain.rpartition("/")[2] == folder.rpartition("/")[2]:
            found.append(folder)
        dated = folder if name in INDEXES else plain
        if DATED.search(dated):
            found += [DATED.sub(r"\1\2/\3/\4/", dated), DATED.sub(r"\1", dated)]
    fields = facts.fields
    if fields:
        for key in ("slug", "id", "permalink", "url"):
            value = fields.get(key)
            if isinstance(value, str) and value:
                found.append(value.strip("/") if value.startswith("/") else f"{folder}/{value}".strip("/"))
                if key == "slug" and not value.startswith("/"):
                    found.append(value.strip("/"))
    return found


class Redirects:
    """The sources of a site's redirects: `old/:slug*`, `old/*`, or a plain path. There may be very many."""

    def __init__(self, sources: Iterable[str]) -> None:
        begins = {source: re.split(r"[:*(]", source, maxsplit=1)[0] for source in sources}
        self._paths = {source for source, begin in begins.items() if source == begin}
        self._begins = {begin for source, begin in begins.items() if source != begin}
        self._lengths = sorted({len(begin) for begin in self._begins})

    def lead_from(self, path: str) -> bool:
        return path in self._paths or any(path[:length] in self._begins for length in self._lengths)


def folders_above(page: str) -> list[str]:
    """The folders that a page lies in, innermost first; of very deep ones the outermost alone."""
    folders = [posixpath.dirname(page)]
    while folders[-1]:
        folders.append(posixpath.dirname(folders[-1]))
    return folders[-MAX_FOLDERS:]


def joined(folder: str, path: str) -> str | None:
    """None where it leaves the repository."""
    if not ("./" in path or "//" in path or path.endswith((".", "/"))):
        return f"{folder}/{path}" if folder else path
    place = posixpath.normpath(f"{folder}/{path}" if folder else path)
    if place.startswith(".."):
        return None
    return "" if place == "." else place


def _folders(files: Iterable[str]) -> frozenset[str]:
    todo = {path[: path.rfind("/")] for path in files if "/" in path}
    found: set[str] = {""}
    while todo:
        found |= todo
        todo = {path[: path.rfind("/")] for path in todo if "/" in path} - found
    return frozenset(found)
