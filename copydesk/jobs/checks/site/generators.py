"""Which generator makes a site of which folder, told from its configuration; nothing of it is ever run."""

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from copydesk.jobs.pages.front_matter import compose


@dataclass(frozen=True)
class Site:
    kind: str
    config: str
    """The file that says so."""
    folder: str
    roots: tuple[str, ...]
    """Folders of pages, the main one first."""
    prefixes: frozenset[str] = frozenset()
    """First names of an address that no folder has: the base path, a route, a locale."""
    assets: tuple[str, ...] = ()
    """Folders whose files are served from the top."""
    redirects: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()
    """Beginnings of addresses below which a build makes pages."""
    own_anchors: bool = False
    """Anchors are made in a way that the configuration changes."""
    open_ended: bool = False
    """A plugin adds pages that no file stands for."""
    snippets: tuple[str, ...] = ()
    """Where MkDocs looks for snippets."""

    def __hash__(self) -> int:
        """By what names it alone: a site may have very many redirects, and is a key for each link."""
        return hash((self.kind, self.config))

    def root_of(self, path: str) -> str | None:
        """The folder of pages that this page is in; None where it is outside the site."""
        if self.kind == "docusaurus":
            found = DOCUSAURUS_ROOT.match(path, len(self.folder) + 1 if self.folder else 0)
            for root in self.roots:
                if path.startswith(root + "/"):
                    return root
            return path[: found.end() - 1] if found and _within(path, self.folder) else None
        return next((root for root in self.roots if _within(path, root)), None)


DOCUSAURUS_ROOT = re.compile(
    r"(?:i18n/[^/]+/docusaurus-plugin-content-[^/]+(?:/(?:current|version-[^/]+)(?=/))?"
    r"|[^/]*versioned_docs/version-[^/]+|src/pages|[^/]+)/"
)
BASE_URL = re.compile(r"\b(?:baseUrl|base)\s*:\s*[\"'`]/([^\"'`$]+?)/?[\"'`]")
ROUTE = re.compile(r"\brouteBasePath\s*:\s*[\"'`]/?([^\"'`]*)[\"'`]")
DOCS_PATH = re.compile(r"\bpath\s*:\s*[\"'`](?:\./)?([^\"'`]+?)/?[\"'`]")
SOURCE = re.compile(r"\bsrcDir\s*:\s*[\"'`](?:\./)?([^\"'`]+?)/?[\"'`]")
MKDOCS_GENERATORS = re.compile(
    r"^[^\S\n]*+- *[\"']?(?:gen-files|monorepo|multirepo|i18n|api-autonav|mkdoxy|gallery|same-dir)\b|^hooks:", re.M
)
SPHINX_GENERATORS = re.compile(r"autosummary|autoapi|apidoc|gallery|nbsphinx|exhale|breathe|sphinx_multiversion")
SPHINX_ELSEWHERE = re.compile(r"intersphinx|autosectionlabel")
DOCUSAURUS_GENERATORS = re.compile(r"typedoc|openapi-docs|remote-content|docgen|redocusaurus|graphql-markdown")


def _within(path: str, folder: str) -> bool:
    return not folder or path.startswith(folder + "/")


def _joined(folder: str, name: str) -> str:
    joined = posixpath.normpath(posixpath.join(folder, name))
    return "" if joined == "." else joined


def _mintlify(path: str, text: str) -> Site | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or "navigation" not in data:
        return None
    folder = posixpath.dirname(path)
    redirects = data.get("redirects")
    sources = (
        [each.get("source") for each in redirects if isinstance(each, dict)] if isinstance(redirects, list) else []
    )
    described = re.search(r"\"(?:openapi|asyncapi)\"\s*:", text)
    folders = re.findall(r"\"directory\"\s*:\s*\"/?([^\"/]+)", text)
    return Site(
        "mintlify",
        path,
        folder,
        (folder,),
        assets=(folder,),
        redirects=tuple(source.strip("/") for source in sources if isinstance(source, str)),
        generated=("api-reference", "api", "reference", *folders) if described else (),
        own_anchors=True,
        open_ended='"$ref"' in text,
    )


def _docusaurus(path: str, text: str) -> Site:
    folder = posixpath.dirname(path)
    routes = [name for route in ROUTE.findall(text) for name in route.split("/")[:1] if name]
    names = list(dict.fromkeys(["docs", *DOCS_PATH.findall(text)]))[:MAX_ROOTS]
    roots = [_joined(folder, name) for name in names if "*" not in name]
    base = [name for found in BASE_URL.findall(text) for name in found.split("/")]
    locales = re.findall(r"[\"']([a-z]{2}(?:-[A-Za-z]{2,4})?)[\"']", text)
    return Site(
        "docusaurus",
        path,
        folder,
        tuple(roots),
        prefixes=frozenset(["docs", "blog", "next", *routes, *base, *locales]),
        assets=(_joined(folder, "static"),),
        generated=("category", "tags", "search", "blog/tags", "blog/archive", "blog/authors", "docs/tags", "assets"),
        open_ended=DOCUSAURUS_GENERATORS.search(text) is not None,
    )


def _mkdocs(path: str, text: str) -> Site:
    folder = posixpath.dirname(path)
    declared = re.search(r"^docs_dir:[ \t]*[\"']?([^\s\"'#]+)", text, re.M)
    root = _joined(folder, declared[1] if declared else "docs")
    at = text.find("base_path")
    snippets = re.findall(r"(?:base_path:|-)[ \t]*\[?[\"']?([\w./-]+)", text[at : at + 200]) if at >= 0 else []
    return Site(
        "mkdocs",
        path,
        folder,
        (root,),
        assets=(root,),
        own_anchors="slugify" in text,
        open_ended=MKDOCS_GENERATORS.search(text) is not None,
        snippets=tuple(dict.fromkeys([folder, root, "", *(_joined(folder, name) for name in snippets)])),
    )


def _vitepress(path: str, text: str) -> Site:
    folder = path[: path.index(".vitepress/")].rstrip("/")
    declared = SOURCE.search(text)
    root = _joined(folder, declared[1]) if declared else folder
    return Site(
        "vitepress",
        path,
        folder,
        (root,),
        prefixes=frozenset(name for found in BASE_URL.findall(text) for name in found.split("/")),
        assets=(_joined(root, "public"),),
        own_anchors=re.search(r"slugify|anchor\s*:", text) is not None,
        open_ended=re.search(r"rewrites|ignoreDeadLinks|srcExclude|transformPageData", text) is not None,
    )


def _sphinx(path: str, text: str) -> Site | None:
    if not re.search(r"^(?:extensions|html_theme|project|master_doc|root_doc)\b", text, re.M):
        return None
    folder = posixpath.dirname(path)
    return Site(
        "sphinx",
        path,
        folder,
        (folder,),
        assets=(folder,),
        own_anchors=True,
        generated=("",) if SPHINX_GENERATORS.search(text) else (),
        open_ended=bool(SPHINX_GENERATORS.search(text) or SPHINX_ELSEWHERE.search(text)),
    )


def _toc(path: str, text: str) -> Site:
    folder = posixpath.dirname(path)
    return Site("sphinx", path, folder, (folder,), assets=(folder,), own_anchors=True, open_ended=True)


def _mdbook(path: str, text: str) -> Site:
    folder = posixpath.dirname(path)
    declared = re.search(r"^src\s*=\s*[\"']([^\"']+)", text, re.M)
    root = _joined(folder, declared[1] if declared else "src")
    return Site("mdbook", path, folder, (root,), assets=(root,), own_anchors=True)


def _gitbook(path: str, text: str) -> Site:
    folder = posixpath.dirname(path)
    declared = re.search(r"^root:[ \t]*[\"']?([^\s\"'#]+)", text, re.M)
    root = _joined(folder, declared[1]) if declared else folder
    return Site("gitbook", path, folder, (root,), own_anchors=True)


def _other(kind: str) -> Callable[[str, str], Site]:
    return lambda path, text: Site(
        kind,
        path,
        posixpath.dirname(path),
        (posixpath.dirname(path),),
        own_anchors=True,
        open_ended=True,
    )


MAX_SITES = 200
"""Limits the sites of one repository to those nearest its top: each page is looked for in each of them."""
MAX_ROOTS = 50
VITEPRESS = re.compile(r"(?:^|/)\.vitepress/config(?:/index)?\.[cm]?[jt]s$")
READERS: dict[str, Callable[[str, str], Site | None]] = {
    "docs.json": _mintlify,
    "mint.json": _mintlify,
    **{f"docusaurus.config.{kind}": _docusaurus for kind in ("js", "ts", "mjs", "cjs", "mts")},
    "mkdocs.yml": _mkdocs,
    "mkdocs.yaml": _mkdocs,
    "conf.py": _sphinx,
    "_toc.yml": _toc,
    "book.toml": _mdbook,
    ".gitbook.yaml": _gitbook,
    "_config.yml": _other("jekyll"),
    "hugo.toml": _other("hugo"),
    "hugo.yaml": _other("hugo"),
}


def reader_of(path: str) -> Callable[[str, str], Site | None] | None:
    if ".vitepress/" in path:
        return _vitepress if VITEPRESS.search(path) else None
    return READERS.get(path[path.rfind("/") + 1 :])


def settled(sites: Iterable[Site]) -> list[Site]:
    """The deepest first. Where two make a site of one folder, neither's rules are sure.

    The order in which they were read does not matter: a change may have brought any of them last."""
    by_root: dict[str, list[Site]] = {}
    nearest = sorted(sites, key=lambda site: (site.config.count("/"), site.config))[:MAX_SITES]
    for site in sorted(nearest, key=lambda site: site.config):
        by_root.setdefault(site.roots[0], []).append(site)
    found = [_only(group) for group in by_root.values()]
    return sorted(found, key=lambda site: -len(site.roots[0] if site.kind != "docusaurus" else site.folder))


def _only(group: list[Site]) -> Site:
    kinds = {site.kind for site in group}
    if "mintlify" in kinds and len(kinds) == 1:  # docs.json has taken the place of mint.json
        return min(group, key=lambda site: site.config)
    if kinds == {"sphinx"}:  # a Jupyter Book has a table of its own beside the configuration
        return max(group, key=lambda site: site.config.endswith("_toc.yml"))
    if len(kinds - {"jekyll"}) == 1:  # GitHub Pages makes a _config.yml of its own
        return next(site for site in group if site.kind != "jekyll")
    return group[0] if len(group) == 1 else replace(group[0], kind="mixed", own_anchors=True, open_ended=True)


def composed(text: str) -> yaml.Node | None:
    """The nodes of a YAML file, custom tags and all; nothing is constructed. YAMLError where it is none."""
    try:
        return compose(text)
    except (ValueError, RecursionError):
        return None


def scalars(node: yaml.Node, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], yaml.ScalarNode]]:
    """Every scalar with the keys it stands under."""
    todo: list[tuple[tuple[str, ...], Any]] = [(keys, node)]
    seen: set[int] = set()  # an alias is the same node once more, and may lead back to itself
    while todo:
        above, each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, yaml.ScalarNode):
            yield above, each
        elif isinstance(each, yaml.SequenceNode):
            todo += [(above, item) for item in reversed(each.value)]
        elif isinstance(each, yaml.MappingNode):
            todo += [((*above, str(key.value)), value) for key, value in reversed(each.value)]
