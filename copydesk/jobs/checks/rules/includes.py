"""Checks the files that a page includes, imports or lists, in the syntax of each generator."""

import posixpath
import re
from collections.abc import Callable, Iterator

from copydesk.jobs.checks.findings import ReferenceProblem
from copydesk.jobs.checks.site.link_resolver import MODULE_ENDINGS, LinkResolver, join_path, list_parent_folders
from copydesk.jobs.pages.link_targets import split_target

ReferenceCheck = Callable[[LinkResolver, str, str, str], ReferenceProblem | None]
"""A function of the resolver, the page, the kind of the reference and its target."""
LINE_RANGE_PATTERN = re.compile(r"(?::[\w.-]*){1,2}$")
SPHINX_GENERATED_NAMES = ("genindex", "modindex", "py-modindex", "search", "self")
DOCUMENT_EXTENSIONS = ("", ".rst", ".md", ".ipynb", ".txt", ".markdown", ".myst")


def _may_exist_in(resolver: LinkResolver, path: str, bases: Iterator[str] | list[str]) -> bool:
    """Returns whether the path exists in one of these folders, or may exist in one whose content is unknown."""
    for base in bases:
        file = join_path(base, path.lstrip("/"))
        if file is None or file in resolver.files or file in resolver.folders or resolver.is_unverifiable(file):
            return True
    return False


def _missing_include(path: str, is_sure: bool = True) -> ReferenceProblem:
    return ReferenceProblem("include", f"The included file `{path}` does not exist.", is_sure)


def _check_snippet(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    site = resolver.site_by_page.get(page)
    if site is None or site.kind != "mkdocs":
        return None
    path = target
    bases = [*site.snippet_folders, *list_parent_folders(page)]
    if _may_exist_in(resolver, path, bases) or _may_exist_in(resolver, LINE_RANGE_PATTERN.sub("", path), bases):
        return None
    return _missing_include(path, not site.is_open_ended)


def _check_liquid(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    """Checks a Liquid include.

    A Jekyll theme may provide included files, but not those that are named by a path relative to the page.
    """
    path = target
    bases = [
        base
        for above in list_parent_folders(page)
        for base in (above, *(join_path(above, n) or n for n in ("_includes", "includes")))
    ]
    tag = kind.removeprefix("liquid ")
    is_relative = tag != "include" or path.startswith((".", "/"))
    site = resolver.site_by_page.get(page)
    is_known_site = site is not None and site.kind in ("jekyll", "mkdocs", "gitbook")
    return None if _may_exist_in(resolver, path, bases) else _missing_include(path, is_relative and is_known_site)


def _check_vitepress(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    site = resolver.site_by_page.get(page)
    if site is None or site.kind != "vitepress":
        return None
    path = target
    bases = [site.roots[0], site.folder] if path.startswith("@/") else [posixpath.dirname(page), site.roots[0]]
    return None if _may_exist_in(resolver, path.removeprefix("@/"), bases) else _missing_include(path)


def _check_mdbook(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    site = resolver.site_by_page.get(page)
    if site is None or site.kind != "mdbook" or _may_exist_in(resolver, target, [posixpath.dirname(page)]):
        return None
    return _missing_include(target)


def _check_snippet_tag(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    site = resolver.site_by_page.get(page)
    if site is None or site.kind != "mintlify":
        return None
    bases = [join_path(site.folder, name) or name for name in ("snippets", "_snippets", "")]
    return None if _may_exist_in(resolver, target, bases) else _missing_include(target)


def _check_import(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    """Checks imports of repository files. Packages and aliases are skipped, because only the build can resolve them."""
    path = split_target(target.rpartition("!")[2])[0]
    site = resolver.site_by_page.get(page)
    if path.startswith("."):
        base: str = posixpath.dirname(page)
    elif path.startswith("@site/") and site is not None and site.kind == "docusaurus":
        base, path = site.folder, path.removeprefix("@site/")
    elif path.startswith("/") and site is not None and site.kind == "mintlify":
        base = site.folder
    else:
        return None
    if any(_may_exist_in(resolver, path + ending, [base]) for ending in MODULE_ENDINGS):
        return None
    return ReferenceProblem("include", f"The imported file `{target}` does not exist.", is_sure=True)


def _check_file(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    """Checks the file of a Sphinx directive. A leading slash means the folder of the Sphinx configuration."""
    path, site = target, resolver.site_by_page.get(page)
    root_bases = [site.folder] if site else list_parent_folders(page)
    bases = root_bases if path.startswith("/") else [posixpath.dirname(page)]
    if _may_exist_in(resolver, path, bases):
        return None
    is_sure = site is None or site.kind == "sphinx"
    if kind in ("image", "figure"):
        return ReferenceProblem("image", f"The image `{path}` does not exist.", is_sure)
    return _missing_include(path, is_sure)


def _check_document(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    path, site = target.strip(), resolver.site_by_page.get(page)
    if path in SPHINX_GENERATED_NAMES or "*" in path or "://" in path:
        return None
    base = (site.folder if site else "") if path.startswith("/") else posixpath.dirname(page)
    if any(_may_exist_in(resolver, path + ending, [base]) for ending in DOCUMENT_EXTENSIONS):
        return None
    is_sphinx = site is not None and site.kind == "sphinx"
    if kind == "toctree":
        message = f"The table of contents lists `{path}`, which does not exist."
        return ReferenceProblem("navigation", message, is_sphinx and site is not None and not site.generated_prefixes)
    return ReferenceProblem(
        "link",
        f"The link to `{path}` is broken: the target does not exist.",
        is_sphinx and site is not None and not site.is_open_ended,
    )


def _check_label(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    label, site = " ".join(target.lower().split()), resolver.site_by_page.get(page)
    if label in SPHINX_GENERATED_NAMES or any(label in known for known in resolver.labels.values()):
        return None
    is_sure = site is not None and site.kind == "sphinx" and not site.is_open_ended
    return ReferenceProblem("anchor", f"The label `{target}` is not defined.", is_sure)


REFERENCE_CHECKS: dict[str, ReferenceCheck] = {
    "snippet": _check_snippet,
    "vitepress": _check_vitepress,
    "mdbook": _check_mdbook,
    "tag": _check_snippet_tag,
    "import": _check_import,
    "doc": _check_document,
    "toctree": _check_document,
    "ref": _check_label,
    **dict.fromkeys(("include", "literalinclude", "image", "figure", "download"), _check_file),
    **{
        f"liquid {way}": _check_liquid
        for way in ("include", "include_relative", "include-markdown", "content-ref", "file")
    },
}
