"""Finds the file of a reference that is not a link: a document, an image, an include or an import.

Each syntax searches for its file in other folders, and may leave out other endings.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.paths import join_path, list_parent_folders, split_target

LINE_RANGE_PATTERN = re.compile(r"(?::[\w.-]*){1,2}$")
SPHINX_GENERATED_NAMES = ("genindex", "modindex", "py-modindex", "search", "self")
DOCUMENT_ENDINGS = ("", ".rst", ".md", ".ipynb", ".txt", ".markdown", ".myst")
SCRIPT_EXTENSIONS = (".js", ".jsx", ".ts", ".tsx", ".mdx", ".md", ".json", ".mjs", ".vue")
MODULE_ENDINGS = ("", *SCRIPT_EXTENSIONS, *(f"/index{kind}" for kind in SCRIPT_EXTENSIONS))


class IncludePath(NamedTuple):
    """Where the file of a reference is searched for. The target is `prefix`, `name` and `suffix` together."""

    name: str
    bases: tuple[str, ...]
    """Folders that the name is relative to."""
    endings: tuple[str, ...] = ("",)
    """Endings of the file's path that the name may leave out."""
    prefix: str = ""
    suffix: str = ""


class IncludedFile(NamedTuple):
    path: str
    base: str
    ending: str


def list_possible_files(include: IncludePath) -> Iterator[tuple[str | None, str, str]]:
    """Yields each path at which the file may be, with base and ending; None for one outside the repository."""
    name = include.name.lstrip("/")
    for base in include.bases:
        for ending in include.endings:
            yield join_path(base, name + ending), base, ending


def find_included_file(resolver: LinkResolver, include: IncludePath) -> IncludedFile | None:
    for path, base, ending in list_possible_files(include):
        if path is not None and path in resolver.files:
            return IncludedFile(path, base, ending)
    return None


def exists(resolver: LinkResolver, include: IncludePath) -> bool:
    """Returns whether the file or folder exists."""
    return any(path in resolver.files or path in resolver.folders for path, _, _ in list_possible_files(include))


def may_exist(resolver: LinkResolver, include: IncludePath) -> bool:
    """Returns whether the file may exist outside the repository or in a folder whose content is unknown."""
    return any(path is None or resolver.is_unverifiable(path) for path, _, _ in list_possible_files(include))


def parse_include(resolver: LinkResolver, page: str, kind: str, target: str) -> IncludePath | None:
    """Returns where a reference leads, or None if its syntax has no meaning on this page's site.

    `kind` must be one of INCLUDE_PARSERS."""
    return INCLUDE_PARSERS[kind](resolver, page, target)


def _has_kind(site: DocsSite | None, kind: str) -> bool:
    return site is not None and site.kind == kind


def _parse_snippet(resolver: LinkResolver, page: str, target: str) -> IncludePath | None:
    site = resolver.site_by_page.get(page)
    if site is None or site.kind != "mkdocs":
        return None
    include = IncludePath(target, (*site.snippet_folders, *list_parent_folders(page)))
    lines = LINE_RANGE_PATTERN.search(target)
    if lines is None or find_included_file(resolver, include):
        return include
    return include._replace(name=target[: lines.start()], suffix=lines.group())


def _parse_liquid(resolver: LinkResolver, page: str, target: str) -> IncludePath:
    bases = (
        base
        for folder in list_parent_folders(page)
        for base in (folder, *(join_path(folder, name) or name for name in ("_includes", "includes")))
    )
    return IncludePath(target, tuple(bases))


def _parse_vitepress(resolver: LinkResolver, page: str, target: str) -> IncludePath | None:
    site = resolver.site_by_page.get(page)
    if site is None or site.kind != "vitepress":
        return None
    if target.startswith("@/"):
        return IncludePath(target.removeprefix("@/"), (site.roots[0],), prefix="@/")
    return IncludePath(target, (posixpath.dirname(page),))


def _parse_mdbook(resolver: LinkResolver, page: str, target: str) -> IncludePath | None:
    is_mdbook = _has_kind(resolver.site_by_page.get(page), "mdbook")
    return IncludePath(target, (posixpath.dirname(page),)) if is_mdbook else None


def _parse_snippet_tag(resolver: LinkResolver, page: str, target: str) -> IncludePath | None:
    site = resolver.site_by_page.get(page)
    if site is None or site.kind != "mintlify":
        return None
    return IncludePath(target, tuple(join_path(site.folder, name) or name for name in ("snippets", "_snippets", "")))


def _parse_import(resolver: LinkResolver, page: str, target: str) -> IncludePath | None:
    """Parses an import of a repository file. Only the build can resolve packages and aliases."""
    loader, bang, request = target.rpartition("!")
    path, suffix = split_target(request)
    site = resolver.site_by_page.get(page)
    include = IncludePath(path, (posixpath.dirname(page),), MODULE_ENDINGS, loader + bang, suffix)
    if path.startswith("."):
        return include
    if site is not None and site.kind == "docusaurus" and path.startswith("@site/"):
        return include._replace(
            name=path.removeprefix("@site/"), bases=(site.folder,), prefix=f"{include.prefix}@site/"
        )
    if site is not None and site.kind == "mintlify" and path.startswith("/"):
        return include._replace(name=path[1:], bases=(site.folder,), prefix=f"{include.prefix}/")
    return None


def _parse_script(resolver: LinkResolver, page: str, target: str) -> IncludePath | None:
    """Parses an import in a script block, which VitePress compiles. Only the build can resolve packages and aliases."""
    path, suffix = split_target(target)
    is_relative = path.startswith(("./", "../"))
    if not is_relative or not _has_kind(resolver.site_by_page.get(page), "vitepress"):
        return None
    return IncludePath(path, (posixpath.dirname(page),), MODULE_ENDINGS, suffix=suffix)


def _parse_sphinx_file(resolver: LinkResolver, page: str, target: str) -> IncludePath:
    """Parses the file of a Sphinx directive. A leading slash means the folder of the Sphinx configuration."""
    site = resolver.site_by_page.get(page)
    if target.startswith("/"):
        bases = (site.folder,) if site else tuple(list_parent_folders(page))
        return IncludePath(target[1:], bases, prefix="/")
    return IncludePath(target, (posixpath.dirname(page),))


def _parse_document(resolver: LinkResolver, page: str, target: str) -> IncludePath | None:
    site = resolver.site_by_page.get(page)
    if target in SPHINX_GENERATED_NAMES or "*" in target or "://" in target:
        return None
    if target.startswith("/"):
        return IncludePath(target[1:], (site.folder if site else "",), DOCUMENT_ENDINGS, prefix="/")
    return IncludePath(target, (posixpath.dirname(page),), DOCUMENT_ENDINGS)


LIQUID_TAGS = ("include", "include_relative", "include-markdown", "content-ref", "file")
INCLUDE_PARSERS: dict[str, Callable[[LinkResolver, str, str], IncludePath | None]] = {
    "snippet": _parse_snippet,
    "vitepress": _parse_vitepress,
    "mdbook": _parse_mdbook,
    "tag": _parse_snippet_tag,
    "import": _parse_import,
    "script": _parse_script,
    "doc": _parse_document,
    "toctree": _parse_document,
    **dict.fromkeys(("include", "literalinclude", "image", "figure", "download"), _parse_sphinx_file),
    **{f"liquid {tag}": _parse_liquid for tag in LIQUID_TAGS},
}
