"""Detects the site generator of each folder from its configuration, which is read as data and never run."""

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from copydesk.jobs.pages.site.paths import is_within


@dataclass(frozen=True)
class DocsSite:
    kind: str
    config_path: str
    """The configuration file that defines this site."""
    folder: str
    roots: tuple[str, ...]
    """Folders that contain pages, the main one first."""
    address_prefixes: frozenset[str] = frozenset()
    """First names of an address that match no folder: the base path, a route, a locale."""
    asset_folders: tuple[str, ...] = ()
    """Folders whose files are served from the root of the site."""
    redirects: tuple[str, ...] = ()
    generated_prefixes: tuple[str, ...] = ()
    """Prefixes of addresses below which a build creates pages."""
    has_custom_anchors: bool = False
    """True if the rules for anchors are unknown or changed by the configuration."""
    is_open_ended: bool = False
    """True if the site may have pages without a file, such as those that a plugin adds."""
    snippet_folders: tuple[str, ...] = ()
    """Folders in which MkDocs searches for snippets."""

    def __hash__(self) -> int:
        """Hashes only the kind and the path. A site may have very many redirects, and is looked up for each link."""
        return hash((self.kind, self.config_path))

    def find_root(self, path: str) -> str | None:
        """Returns the folder of pages that contains this page, or None if the page is outside the site."""
        if self.kind == "docusaurus":
            match = DOCUSAURUS_ROOT_PATTERN.match(path, len(self.folder) + 1 if self.folder else 0)
            for root in self.roots:
                if path.startswith(root + "/"):
                    return root
            return path[: match.end() - 1] if match and is_within(path, self.folder) else None
        return next((root for root in self.roots if is_within(path, root)), None)

    def list_roots(self, names: Sequence[str]) -> Iterator[str]:
        """Yields the folders in which to search for an address, by the names before it: a locale, a version, a route.

        Only Docusaurus has several, and only there does the order matter."""
        if self.kind != "docusaurus":
            return
        versions = [f"version-{name}" for name in names]
        for locale in names:
            for route in dict.fromkeys((*names, "docs")):
                folder = _join(self.folder, f"i18n/{locale}/docusaurus-plugin-content-{route}")
                yield from (_join(folder, name) for name in (*versions, "current", ""))
        yield from (_join(self.folder, f"versioned_docs/{version}") for version in versions)
        yield from (_join(self.folder, name) for name in names or ["src/pages"])
        yield from self.roots


DOCUSAURUS_ROOT_PATTERN = re.compile(
    r"(?:i18n/[^/]+/docusaurus-plugin-content-[^/]+(?:/(?:current|version-[^/]+)(?=/))?"
    r"|[^/]*versioned_docs/version-[^/]+|src/pages|[^/]+)/"
)
BASE_URL_PATTERN = re.compile(r"\b(?:baseUrl|base)\s*:\s*[\"'`]/([^\"'`$]+?)/?[\"'`]")
ROUTE_BASE_PATTERN = re.compile(r"\brouteBasePath\s*:\s*[\"'`]/?([^\"'`]*)[\"'`]")
DOCS_PATH_PATTERN = re.compile(r"\bpath\s*:\s*[\"'`](?:\./)?([^\"'`]+?)/?[\"'`]")
SOURCE_FOLDER_PATTERN = re.compile(r"\bsrcDir\s*:\s*[\"'`](?:\./)?([^\"'`]+?)/?[\"'`]")
MKDOCS_PAGE_PLUGIN_PATTERN = re.compile(
    r"^[^\S\n]*+- *[\"']?(?:gen-files|monorepo|multirepo|i18n|api-autonav|mkdoxy|gallery|same-dir)\b|^hooks:", re.M
)
SPHINX_PAGE_EXTENSION_PATTERN = re.compile(
    r"autosummary|autoapi|apidoc|gallery|nbsphinx|exhale|breathe|sphinx_multiversion"
)
SPHINX_LABEL_EXTENSION_PATTERN = re.compile(r"intersphinx|autosectionlabel")
DOCUSAURUS_PAGE_PLUGIN_PATTERN = re.compile(r"typedoc|openapi-docs|remote-content|docgen|redocusaurus|graphql-markdown")


def _join(folder: str, name: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, name))
    return "" if path == "." else path


def _parse_mintlify(path: str, text: str) -> DocsSite | None:
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
    has_api_spec = re.search(r"\"(?:openapi|asyncapi)\"\s*:", text)
    api_folders = re.findall(r"\"directory\"\s*:\s*\"/?([^\"/]+)", text)
    return DocsSite(
        "mintlify",
        path,
        folder,
        (folder,),
        asset_folders=(folder,),
        redirects=tuple(source.strip("/") for source in sources if isinstance(source, str)),
        generated_prefixes=("api-reference", "api", "reference", *api_folders) if has_api_spec else (),
        has_custom_anchors=True,
        is_open_ended='"$ref"' in text,
    )


def _parse_docusaurus(path: str, text: str) -> DocsSite:
    folder = posixpath.dirname(path)
    routes = [name for route in ROUTE_BASE_PATTERN.findall(text) for name in route.split("/")[:1] if name]
    names = list(dict.fromkeys(["docs", *DOCS_PATH_PATTERN.findall(text)]))[:MAX_ROOTS]
    roots = [_join(folder, name) for name in names if "*" not in name]
    base_names = [name for found in BASE_URL_PATTERN.findall(text) for name in found.split("/")]
    locales = re.findall(r"[\"']([a-z]{2}(?:-[A-Za-z]{2,4})?)[\"']", text)
    return DocsSite(
        "docusaurus",
        path,
        folder,
        tuple(roots),
        address_prefixes=frozenset(["docs", "blog", "next", *routes, *base_names, *locales]),
        asset_folders=(_join(folder, "static"),),
        generated_prefixes=(
            "category",
            "tags",
            "search",
            "blog/tags",
            "blog/archive",
            "blog/authors",
            "docs/tags",
            "assets",
        ),
        is_open_ended=DOCUSAURUS_PAGE_PLUGIN_PATTERN.search(text) is not None,
    )


def _parse_mkdocs(path: str, text: str) -> DocsSite:
    folder = posixpath.dirname(path)
    declared = re.search(r"^docs_dir:[ \t]*[\"']?([^\s\"'#]+)", text, re.M)
    root = _join(folder, declared[1] if declared else "docs")
    base_path_start = text.find("base_path")
    snippets = (
        re.findall(r"(?:base_path:|-)[ \t]*\[?[\"']?([\w./-]+)", text[base_path_start : base_path_start + 200])
        if base_path_start >= 0
        else []
    )
    return DocsSite(
        "mkdocs",
        path,
        folder,
        (root,),
        asset_folders=(root,),
        has_custom_anchors="slugify" in text,
        is_open_ended=MKDOCS_PAGE_PLUGIN_PATTERN.search(text) is not None,
        snippet_folders=tuple(dict.fromkeys([folder, root, "", *(_join(folder, name) for name in snippets)])),
    )


def _parse_vitepress(path: str, text: str) -> DocsSite:
    folder = path[: path.index(".vitepress/")].rstrip("/")
    declared = SOURCE_FOLDER_PATTERN.search(text)
    root = _join(folder, declared[1]) if declared else folder
    return DocsSite(
        "vitepress",
        path,
        folder,
        (root,),
        address_prefixes=frozenset(name for found in BASE_URL_PATTERN.findall(text) for name in found.split("/")),
        asset_folders=(_join(root, "public"),),
        has_custom_anchors=re.search(r"slugify|anchor\s*:", text) is not None,
        is_open_ended=re.search(r"rewrites|ignoreDeadLinks|srcExclude|transformPageData", text) is not None,
    )


def _parse_sphinx(path: str, text: str) -> DocsSite | None:
    if not re.search(r"^(?:extensions|html_theme|project|master_doc|root_doc)\b", text, re.M):
        return None
    folder = posixpath.dirname(path)
    return DocsSite(
        "sphinx",
        path,
        folder,
        (folder,),
        asset_folders=(folder,),
        has_custom_anchors=True,
        generated_prefixes=("",) if SPHINX_PAGE_EXTENSION_PATTERN.search(text) else (),
        is_open_ended=bool(SPHINX_PAGE_EXTENSION_PATTERN.search(text) or SPHINX_LABEL_EXTENSION_PATTERN.search(text)),
    )


def _parse_toc(path: str, text: str) -> DocsSite:
    folder = posixpath.dirname(path)
    return DocsSite(
        "sphinx", path, folder, (folder,), asset_folders=(folder,), has_custom_anchors=True, is_open_ended=True
    )


def _parse_mdbook(path: str, text: str) -> DocsSite:
    folder = posixpath.dirname(path)
    declared = re.search(r"^src\s*=\s*[\"']([^\"']+)", text, re.M)
    root = _join(folder, declared[1] if declared else "src")
    return DocsSite("mdbook", path, folder, (root,), asset_folders=(root,), has_custom_anchors=True)


def _parse_gitbook(path: str, text: str) -> DocsSite:
    folder = posixpath.dirname(path)
    declared = re.search(r"^root:[ \t]*[\"']?([^\s\"'#]+)", text, re.M)
    root = _join(folder, declared[1]) if declared else folder
    return DocsSite("gitbook", path, folder, (root,), has_custom_anchors=True)


def _build_open_ended_parser(kind: str) -> Callable[[str, str], DocsSite]:
    return lambda path, text: DocsSite(
        kind,
        path,
        posixpath.dirname(path),
        (posixpath.dirname(path),),
        has_custom_anchors=True,
        is_open_ended=True,
    )


MAX_SITES = 200
"""Limits the sites of a repository to those nearest to its top, because each page is searched for in each site."""
MAX_ROOTS = 50
VITEPRESS_CONFIG_PATTERN = re.compile(r"(?:^|/)\.vitepress/config(?:/index)?\.[cm]?[jt]s$")
CONFIG_PARSERS: dict[str, Callable[[str, str], DocsSite | None]] = {
    "docs.json": _parse_mintlify,
    "mint.json": _parse_mintlify,
    **{f"docusaurus.config.{kind}": _parse_docusaurus for kind in ("js", "ts", "mjs", "cjs", "mts")},
    "mkdocs.yml": _parse_mkdocs,
    "mkdocs.yaml": _parse_mkdocs,
    "conf.py": _parse_sphinx,
    "_toc.yml": _parse_toc,
    "book.toml": _parse_mdbook,
    ".gitbook.yaml": _parse_gitbook,
    "_config.yml": _build_open_ended_parser("jekyll"),
    "hugo.toml": _build_open_ended_parser("hugo"),
    "hugo.yaml": _build_open_ended_parser("hugo"),
}


def find_config_parser(path: str) -> Callable[[str, str], DocsSite | None] | None:
    if ".vitepress/" in path:
        return _parse_vitepress if VITEPRESS_CONFIG_PATTERN.search(path) else None
    return CONFIG_PARSERS.get(path[path.rfind("/") + 1 :])


def resolve_overlaps(sites: Iterable[DocsSite]) -> list[DocsSite]:
    """Returns one site per folder, the deepest first. If two generators share a folder, neither's rules are certain.

    The result does not depend on the order of `sites`, because a change may add any of them last."""
    by_root: dict[str, list[DocsSite]] = {}
    nearest = sorted(sites, key=lambda site: (site.config_path.count("/"), site.config_path))[:MAX_SITES]
    for site in sorted(nearest, key=lambda site: site.config_path):
        by_root.setdefault(site.roots[0], []).append(site)
    resolved = [_pick_from_group(group) for group in by_root.values()]
    return sorted(resolved, key=lambda site: -len(site.roots[0] if site.kind != "docusaurus" else site.folder))


def _pick_from_group(group: list[DocsSite]) -> DocsSite:
    kinds = {site.kind for site in group}
    if "mintlify" in kinds and len(kinds) == 1:  # docs.json replaces mint.json
        return min(group, key=lambda site: site.config_path)
    if kinds == {"sphinx"}:  # a Jupyter Book has a _toc.yml next to its configuration
        return max(group, key=lambda site: site.config_path.endswith("_toc.yml"))
    if len(kinds - {"jekyll"}) == 1:  # GitHub Pages adds a _config.yml
        return next(site for site in group if site.kind != "jekyll")
    return group[0] if len(group) == 1 else replace(group[0], kind="mixed", has_custom_anchors=True, is_open_ended=True)
