"""Checks the files that a page includes, imports or lists, in the syntax of each generator."""

from collections.abc import Callable

from copydesk.jobs.checks.findings import ReferenceProblem
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.include_paths import (
    INCLUDE_PARSERS,
    SPHINX_GENERATED_NAMES,
    may_exist,
    parse_include,
)
from copydesk.jobs.pages.site.link_resolver import LinkResolver

ReferenceCheck = Callable[[LinkResolver, str, str, str], ReferenceProblem | None]
"""A function of the resolver, the page, the kind of the reference and its target."""


def check_include(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    include = parse_include(resolver, page, kind, target)
    if include is None or may_exist(resolver, include):
        return None
    site = resolver.site_by_page.get(page)
    is_sphinx = site is not None and site.kind == "sphinx"
    if kind == "toctree":
        message = f"The table of contents lists `{target}`, which does not exist."
        return ReferenceProblem("navigation", message, is_sphinx and site is not None and not site.generated_prefixes)
    if kind == "doc":
        message = f"The link to `{target}` is broken: the target does not exist."
        return ReferenceProblem("link", message, is_sphinx and site is not None and not site.is_open_ended)
    if kind in ("image", "figure"):
        return ReferenceProblem("image", f"The image `{target}` does not exist.", site is None or is_sphinx)
    noun = "imported" if kind == "import" else "included"
    return ReferenceProblem("include", f"The {noun} file `{target}` does not exist.", _is_sure(site, kind, target))


def _is_sure(site: DocsSite | None, kind: str, target: str) -> bool:
    """Returns whether the build would fail. A Jekyll theme may provide files, but not those relative to the page."""
    if kind == "snippet":
        return site is None or not site.is_open_ended
    if kind.startswith("liquid "):
        is_relative = kind != "liquid include" or target.startswith((".", "/"))
        return is_relative and site is not None and site.kind in ("jekyll", "mkdocs", "gitbook")
    if kind in ("include", "literalinclude", "download"):
        return site is None or site.kind == "sphinx"
    return True


def check_label(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    label = " ".join(target.lower().split())
    site = resolver.site_by_page.get(page)
    if label in SPHINX_GENERATED_NAMES or any(label in known for known in resolver.labels.values()):
        return None
    is_sure = site is not None and site.kind == "sphinx" and not site.is_open_ended
    return ReferenceProblem("anchor", f"The label `{target}` is not defined.", is_sure)


REFERENCE_CHECKS: dict[str, ReferenceCheck] = {"ref": check_label, **dict.fromkeys(INCLUDE_PARSERS, check_include)}
