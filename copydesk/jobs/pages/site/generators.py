"""Detects the site generator of each folder from its configuration, which is read as data and never run."""

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from copydesk.jobs.pages.site.paths import is_within


class ConfigPart(NamedTuple):
    """Another file that a site's configuration consists of."""

    path: str
    role: str
    """`mintlify` for a file that `$ref` names, `sidebars` and `vitepress` for menus, `versions` for Docusaurus."""
    keys: tuple[str, ...] = ()
    """The keys above the reference in the configuration of a Mintlify site."""
    root: str = ""
    """The folder of pages that a Docusaurus sidebar lists."""


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
    open_reason: str = ""
    """Why the site may have pages without a file, such as those that a plugin adds; empty if it has none."""
    label_reason: str = ""
    """Why a Sphinx site may have labels that no page of the repository defines; empty if it has none."""
    has_unread_settings: bool = False
    """True if another file of the site has settings that are not read."""
    has_autosummary: bool = False
    """True if Sphinx's autosummary may create pages."""
    hooks: str = ""
    """The hooks of a MkDocs site, which may add anchors; empty if it has none."""
    snippet_folders: tuple[str, ...] = ()
    """Folders in which MkDocs searches for snippets: those of the site and of the repository, then declared ones."""
    parts: tuple[ConfigPart, ...] = ()
    """Other files of the configuration, also missing ones."""
    versions: tuple[str, ...] | None = None
    """The versions that Docusaurus builds, each as its folder of pages; None for other generators."""
    last_version: str = ""
    """The version that Docusaurus serves without its name in the address; empty if it is the current one."""
    slashes: Literal["always", "index", "never", "unknown"] = "index"
    """Which addresses end with a slash, so that relative links start from the page as from a folder: those of all
    pages, of index pages, or of none."""

    def __hash__(self) -> int:
        """Hashes only the kind and the path. A site may have very many redirects, and is looked up for each link."""
        return hash((self.kind, self.config_path))

    def is_snippet(self, path: str) -> bool:
        """Returns whether a file is in a folder that only has snippets, whose links start from the including pages."""
        folders = self.snippet_folders[SHARED_SNIPPET_FOLDERS:]
        return any(is_within(path, folder) and not is_within(self.roots[0], folder) for folder in folders)

    def is_unbuilt(self, path: str) -> bool:
        """Returns whether a page belongs to a version that Docusaurus does not build: it is not in versions.json."""
        if self.versions is None or not is_within(path, self.folder):
            return False
        version = VERSION_FOLDER_PATTERN.match(path, len(self.folder) + 1 if self.folder else 0)
        return version is not None and version.group() not in self.versions

    def find_root(self, path: str) -> str | None:
        """Returns the folder of pages that contains this page, or None if the page is outside the site."""
        if self.kind == "docusaurus":
            match = DOCUSAURUS_ROOT_PATTERN.match(path, len(self.folder) + 1 if self.folder else 0)
            for root in self.roots:
                if path.startswith(root + "/"):
                    return root
            return path[: match.end() - 1] if match and is_within(path, self.folder) else None
        return next((root for root in self.roots if is_within(path, root)), None)

    def shows(self, path: str) -> bool:
        """Returns whether a page is surely in a folder of pages, and not in another folder of the same repository."""
        root = self.find_root(path)
        if root is None or self.kind != "docusaurus":
            return root is not None
        name = root[len(self.folder) :].strip("/")
        return root in self.roots or name in ("blog", "src/pages") or "/" in name

    def add_last_version(self, names: Sequence[str]) -> Sequence[str]:
        """Returns the names before an address, with the version that Docusaurus serves if they name none."""
        has_version = "next" in names or any(
            f"versioned_docs/version-{name}" in (self.versions or ()) for name in names
        )
        return names if has_version or not self.last_version else [*names, self.last_version]

    def list_roots(self, names: Sequence[str]) -> Iterator[str]:
        """Yields the folders in which to search for an address, by the names before it: a locale, a version, a route.

        Only Docusaurus has several, and only there does the order matter."""
        if self.kind != "docusaurus":
            return
        versions = [name if name.startswith("version-") else f"version-{name}" for name in names]
        for locale in names:
            for route in dict.fromkeys((*names, "docs")):
                folder = _join(self.folder, f"i18n/{locale}/docusaurus-plugin-content-{route}")
                yield from (_join(folder, name) for name in (*versions, "current", ""))
        yield from (_join(self.folder, f"versioned_docs/{version}") for version in versions)
        for route in names:
            yield from (_join(self.folder, f"{route}_versioned_docs/{version}") for version in versions)
        yield from (_join(self.folder, name) for name in names or ["src/pages"])
        yield from self.roots


DOCUSAURUS_ROOT_PATTERN = re.compile(
    r"(?:i18n/[^/]+/docusaurus-plugin-content-[^/]+(?:/(?:current|version-[^/]+)(?=/))?"
    r"|[^/]*versioned_docs/version-[^/]+|src/pages|[^/]+)/"
)
VERSION_FOLDER_PATTERN = re.compile(r"[^/]*versioned_docs/version-[^/]+")
BASE_URL_PATTERN = re.compile(r"\b(?:baseUrl|base)\s*:\s*[\"'`]/([^\"'`$]+?)/?[\"'`]")
ROUTE_BASE_PATTERN = re.compile(r"\brouteBasePath\s*:\s*[\"'`]/?([^\"'`]*)[\"'`]")
DOCS_PATH_PATTERN = re.compile(r"\bpath\s*:\s*[\"'`](?:\./)?([^\"'`]+?)/?[\"'`]")
SOURCE_FOLDER_PATTERN = re.compile(r"\bsrcDir\s*:\s*[\"'`](?:\./)?([^\"'`]+?)/?[\"'`]")
MKDOCS_PAGE_PLUGIN_PATTERN = re.compile(
    r"^[^\S\n]*+- *[\"']?(gen-files|monorepo|multirepo|i18n|api-autonav|mkdoxy|gallery|same-dir)\b", re.M
)
SPHINX_PAGE_EXTENSION_PATTERN = re.compile(
    r"autoapi\b|ext\.apidoc|sphinxcontrib\.apidoc|run_apidoc|sphinx_gallery|exhale|sphinx_multiversion"
)
SPHINX_LABEL_EXTENSION_PATTERN = re.compile(r"intersphinx|autosectionlabel")
PYTHON_COMMENT_PATTERN = re.compile(r"^[ \t]*#.*$", re.M)
DOCUSAURUS_ASSETS_PATTERN = re.compile(r"\bstaticDirectories\s*:\s*\[([^\]]*)\]")
TRAILING_SLASH_PATTERN = re.compile(r"\btrailingSlash\s*:\s*([\w$.]+)")
DOCUSAURUS_PAGE_PLUGIN_PATTERN = re.compile(r"typedoc|openapi-docs|remote-content|docgen|redocusaurus|graphql-markdown")


def _join(folder: str, name: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, name))
    return "" if path == "." else path


def _parse_mintlify(path: str, text: str) -> DocsSite | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or ("navigation" not in data and "$ref" not in data):
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
        asset_folders=_list_static_folders(folder, text),
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
        open_reason=_explain_plugin(path, DOCUSAURUS_PAGE_PLUGIN_PATTERN.search(text)),
        slashes=_find_slashes(text),
    )


def _list_static_folders(folder: str, text: str) -> tuple[str, ...]:
    declared = DOCUSAURUS_ASSETS_PATTERN.search(text)
    names = re.findall(r"[\"'`]([^\"'`]+)[\"'`]", declared[1]) if declared else []
    return tuple(_join(folder, name) for name in names[:MAX_ROOTS] or ["static"])


def _find_slashes(text: str) -> Literal["always", "index", "never", "unknown"]:
    """Returns the setting of a Docusaurus site; `unknown` if it is computed or set in several places."""
    values = set(TRAILING_SLASH_PATTERN.findall(text))
    if "trailingSlash" not in text or values == {"undefined"}:
        return "index"
    return "always" if values == {"true"} else "never" if values == {"false"} else "unknown"


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
        open_reason=_explain_plugin(path, MKDOCS_PAGE_PLUGIN_PATTERN.search(text)),
        hooks=f"hooks in {posixpath.basename(path)}" if re.search(r"^hooks:", text, re.M) else "",
        slashes="index" if re.search(r"^use_directory_urls:[ \t]*(?:false|no|off)\b", text, re.M | re.I) else "always",
        snippet_folders=(folder, root, "", *(_join(folder, name) for name in snippets)),
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
        open_reason="`rewrites` in the VitePress configuration give pages other addresses"
        if "rewrites" in text
        else "",
    )


def _parse_sphinx(path: str, text: str) -> DocsSite | None:
    if not re.search(r"^(?:extensions|html_theme|project|master_doc|root_doc)\b", text, re.M):
        return None
    folder = posixpath.dirname(path)
    text = PYTHON_COMMENT_PATTERN.sub("", text)
    page_reason = _explain_plugin(path, SPHINX_PAGE_EXTENSION_PATTERN.search(text))
    labels = SPHINX_LABEL_EXTENSION_PATTERN.search(text)
    label_reason = f"{labels.group()} in conf.py adds labels that are not read" if labels else ""
    document_reason = ""
    if "intersphinx_disabled_reftypes" in text and "std:doc" not in text:
        document_reason = "intersphinx in conf.py also searches for documents of other projects"
    return DocsSite(
        "sphinx",
        path,
        folder,
        (folder,),
        asset_folders=(folder,),
        has_custom_anchors=True,
        generated_prefixes=("",) if page_reason else (),
        open_reason=page_reason or document_reason,
        label_reason=page_reason or label_reason,
        has_autosummary="autosummary" in text and not re.search(r"^autosummary_generate\s*=\s*False", text, re.M),
    )


def _parse_toc(path: str, text: str) -> DocsSite:
    folder = posixpath.dirname(path)
    reason = "the configuration of a Jupyter Book is not read"
    return DocsSite(
        "sphinx",
        path,
        folder,
        (folder,),
        has_unread_settings=True,
        asset_folders=(folder,),
        has_custom_anchors=True,
        open_reason=reason,
        label_reason=reason,
    )


def _parse_mdbook(path: str, text: str) -> DocsSite:
    folder = posixpath.dirname(path)
    declared = re.search(r"^src\s*=\s*[\"']([^\"']+)", text, re.M)
    root = _join(folder, declared[1] if declared else "src")
    redirects = tuple(source.strip("/") for source in _read_mdbook_redirects(text))
    return DocsSite(
        "mdbook", path, folder, (root,), asset_folders=(root,), redirects=redirects, has_custom_anchors=True
    )


def _read_mdbook_redirects(text: str) -> Iterator[str]:
    """Yields the redirected addresses. Reads lines, because parsing all of TOML takes long on crafted text."""
    in_redirects = False
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            in_redirects = line.strip().replace(" ", "") == "[output.html.redirect]"
        elif in_redirects and (source := re.match(r"\s*[\"']([^\"']+)[\"']\s*=", line)):
            yield source[1]


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
        open_reason=f"templates of {kind.capitalize()} may add pages",
    )


def _explain_plugin(path: str, plugin: re.Match[str] | None) -> str:
    return f"{plugin[plugin.lastindex or 0]} in {posixpath.basename(path)} adds pages" if plugin else ""


MAX_SITES = 200
"""Limits the sites of a repository to those nearest to its top, because each page is searched for in each site."""
MAX_ROOTS = 50
SHARED_SNIPPET_FOLDERS = 3
"""How many of a MkDocs site's snippet folders are its own folders and the repository's, which also have pages."""
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
    if len(group) == 1:
        return group[0]
    reason = f"several generators share the folder: {', '.join(sorted(kinds))}"
    return replace(group[0], kind="mixed", has_custom_anchors=True, open_reason=reason, label_reason=reason)
