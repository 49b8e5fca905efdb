"""Checks the files that a page includes, imports or lists, in the syntax of each generator."""

import posixpath
from collections.abc import Callable

from copydesk.jobs.checks.findings import ReferenceProblem
from copydesk.jobs.pages.parsing.rst_references import normalize_name
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.include_paths import (
    INCLUDE_PARSERS,
    SPHINX_GENERATED_NAMES,
    IncludePath,
    exists,
    list_possible_files,
    may_exist,
    parse_include,
)
from copydesk.jobs.pages.site.link_resolver import LinkResolver

ReferenceCheck = Callable[[LinkResolver, str, str, str], ReferenceProblem | None]
"""A function of the resolver, the page, the kind of the reference and its target."""


def check_include(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    include = parse_include(resolver, page, kind, target)
    if include is None or exists(resolver, include):
        return None
    identity = next((path for path, _, _ in list_possible_files(include) if path), target)
    doubt = _find_doubt(resolver, page, kind, target, include)
    if kind == "toctree":
        message = f"The table of contents lists `{target}`, which does not exist."
        return ReferenceProblem("navigation", message, identity, doubt)
    if kind == "doc":
        message = f"The link to `{target}` is broken: the target does not exist."
        return ReferenceProblem("link", message, identity, doubt)
    if kind in ("image", "figure"):
        return ReferenceProblem("image", f"The image `{target}` does not exist.", identity, doubt)
    noun = "imported" if kind in ("import", "script") else "included"
    return ReferenceProblem("include", f"The {noun} file `{target}` does not exist.", identity, doubt)


def _find_doubt(resolver: LinkResolver, page: str, kind: str, target: str, include: IncludePath) -> str:
    """Returns why the build may find the file; "" if it would fail."""
    site = resolver.site_by_page.get(page)
    if may_exist(resolver, include):
        return "the file is not in the repository: git ignores it, or it is behind a symbolic link or a submodule"
    if kind in ("toctree", "doc"):
        return _doubt_document(resolver, site, include)
    if kind == "snippet":
        return site.open_reason if site is not None else ""
    if kind.startswith("liquid "):
        return _doubt_liquid(site, kind, target)
    if kind in ("image", "figure", "include", "literalinclude", "download"):
        return "" if site is None or site.kind == "sphinx" else f"the directive has no known meaning for {site.kind}"
    return ""


def _doubt_document(resolver: LinkResolver, site: DocsSite | None, include: IncludePath) -> str:
    if site is None or site.kind != "sphinx":
        return "no Sphinx configuration was found for this page"
    if site.has_autosummary:
        folders = {posixpath.dirname(path) for path, _, _ in list_possible_files(include) if path}
        if folders & resolver.stub_folders or not folders & resolver.folders:
            return "autosummary may create pages in this folder"
    return site.open_reason


def _doubt_liquid(site: DocsSite | None, kind: str, target: str) -> str:
    """Judges a Liquid include. A theme of Jekyll may provide files, but not those relative to the page."""
    if site is None or site.kind not in ("jekyll", "mkdocs", "gitbook"):
        return "no known generator of this page has this tag"
    is_relative = kind != "liquid include" or target.startswith((".", "/"))
    return "" if is_relative else "a theme may provide the file"


def check_label(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    label = " ".join(target.lower().split())
    site = resolver.site_by_page.get(page)
    if label in SPHINX_GENERATED_NAMES or any(label in known for known in resolver.labels.values()):
        return None
    doubt = "no Sphinx configuration was found for this page"
    if site is not None and site.kind in ("sphinx", "mixed"):
        doubt = site.label_reason
    return ReferenceProblem("anchor", f"The label `{target}` is not defined.", f"label {label}", doubt)


def check_name(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    """Checks a reference to a title or a target of the same reStructuredText page."""
    name = normalize_name(target)
    if page not in resolver.pages or name in resolver.pages[page].names:
        return None
    doubt = "conf.py or an included file may define the name"
    return ReferenceProblem("anchor", f"This page has no title or target `{target}`.", f"name {name}", doubt)


REFERENCE_CHECKS: dict[str, ReferenceCheck] = {
    "ref": check_label,
    "name": check_name,
    **dict.fromkeys(INCLUDE_PARSERS, check_include),
}
