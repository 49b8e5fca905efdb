"""Checks that the targets of a page's links, anchors, images, includes and imports exist."""

import posixpath
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from copydesk.jobs.checks.findings import Finding, ReferenceProblem
from copydesk.jobs.checks.rules.includes import REFERENCE_CHECKS
from copydesk.jobs.pages.page_types import (
    IMAGE_EXTENSIONS,
    MARKDOWN_EXTENSIONS,
    MARKDOWN_NAV_FILES,
    PARTIAL_FOLDERS,
    extension,
)
from copydesk.jobs.pages.parsing.page_facts import PageFacts
from copydesk.jobs.pages.site.generators import DocsSite
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.paths import split_target

FILE_EXTENSIONS = frozenset(
    (".pdf", ".zip", ".py", ".ts", ".tsx", ".go", ".rs", ".java", ".sh", ".yml", ".yaml", ".toml", ".csv")
)
LINKED_FILE_EXTENSIONS = frozenset((*MARKDOWN_EXTENSIONS, *IMAGE_EXTENSIONS, *FILE_EXTENSIONS))
# These generators serve each page under one address and know all addresses, so an address without a page is broken.
ADDRESS_BASED_GENERATORS = ("mintlify", "docusaurus", "vitepress")


class PageFindings(NamedTuple):
    findings: tuple[Finding, ...]
    uncertain: Mapping[str, Finding]
    """Unresolved references that may still be valid, by target."""


NO_FINDINGS = PageFindings((), {})


def check_references(resolver: LinkResolver, page: str, facts: PageFacts) -> PageFindings:
    findings: list[Finding] = []
    uncertain: dict[str, Finding] = {}
    for line, kind, target in facts.references:
        problem = REFERENCE_CHECKS.get(kind, check_link)(resolver, page, kind, target)
        if problem is not None:
            finding = Finding(problem.rule, page, line, problem.message)
            if problem.is_sure:
                findings.append(finding)
            else:
                uncertain[target] = finding
    return PageFindings(tuple(findings), uncertain) if findings or uncertain else NO_FINDINGS


def check_link(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    if "?" in target:
        path, suffix = split_target(target)
        anchor = suffix.partition("#")[2]
    else:
        path, _, anchor = target.partition("#")
    file = resolver.resolve(page, path) if path else page
    if file is None:
        return None if resolver.may_exist(page, path) else _describe_broken_link(resolver, page, path, target)
    if not anchor or file not in resolver.pages or _has_anchor(resolver, page, file, anchor):
        return None
    page_name = "this page" if page == file else f"`{path}`"
    message = f"The link to `{target}` is broken: {page_name} has no anchor `{anchor}`."
    return ReferenceProblem("anchor", message, _are_anchors_known(resolver, page, file))


def _has_anchor(resolver: LinkResolver, page: str, file: str, anchor: str) -> bool:
    anchors = resolver.get_anchors(file)
    if anchors.has(anchor) or ("%" in anchor and anchors.has(unquote(anchor))):
        return True
    if any(anchor in labels for labels in resolver.labels.values()):
        return True  # Sphinx resolves labels across all pages, including pages from outside the site
    site = resolver.site_by_page.get(page)
    return site is not None and site.kind in ("sphinx", "mixed") and site.is_open_ended


def _are_anchors_known(resolver: LinkResolver, page: str, file: str) -> bool:
    """Returns whether all anchors that a link from `page` to `file` can use are known.

    MkDocs hooks may add anchors, and a partial may link to anchors of the pages that include it.
    """
    site = resolver.site_by_page.get(file)
    if site is not None and site.kind == "mkdocs" and site.is_open_ended:
        return False
    return page != file or not (posixpath.basename(page).startswith("_") or PARTIAL_FOLDERS & set(page.split("/")))


def _describe_broken_link(resolver: LinkResolver, page: str, path: str, target: str) -> ReferenceProblem:
    ext = extension(path)
    site = resolver.site_by_page.get(page)
    is_sure = _is_sure(resolver, site, path, ext)
    if ext in IMAGE_EXTENSIONS:
        return ReferenceProblem("image", f"The image `{target}` does not exist.", is_sure)
    if page.rpartition("/")[2] in MARKDOWN_NAV_FILES:
        return ReferenceProblem(
            "navigation", f"The navigation entry `{target}` points to a page that does not exist.", is_sure
        )
    return ReferenceProblem("link", f"The link to `{target}` is broken: the target does not exist.", is_sure)


def _is_sure(resolver: LinkResolver, site: DocsSite | None, path: str, ext: str) -> bool:
    """Returns whether the generator's own link checker would report this target.

    Any other target may be created by a build or served by another application.
    """
    is_absolute = path.startswith("/")
    if site is None or site.kind not in ADDRESS_BASED_GENERATORS:
        if site is not None and (site.kind in ("hugo", "mixed") or (site.is_open_ended and site.kind == "mkdocs")):
            return False
        return not is_absolute and (
            ext in MARKDOWN_EXTENSIONS if site is not None and site.kind == "jekyll" else ext in LINKED_FILE_EXTENSIONS
        )
    if is_absolute and ext in LINKED_FILE_EXTENSIONS and ext not in MARKDOWN_EXTENSIONS:
        return any(f"{asset}/{path.split('/')[1]}".strip("/") in resolver.folders for asset in site.asset_folders)
    if ext in LINKED_FILE_EXTENSIONS:
        return not is_absolute or site.kind != "docusaurus"
    if site.is_open_ended or (ext and not ext[1:].isdigit() and ext != ".html"):
        return False
    return not is_absolute or _is_own_address(resolver, site, path)


def _is_own_address(resolver: LinkResolver, site: DocsSite, path: str) -> bool:
    """Returns whether an address belongs to this site, and not to another application on the same host."""
    names = [name for name in unquote(path).strip("/").split("/") if name]
    if any("/".join(names).startswith(prefix) for prefix in site.generated_prefixes):
        return False
    if site.kind == "vitepress" or (site.kind == "mintlify" and names):
        return True
    while names and names[0] in site.address_prefixes:
        names.pop(0)
    return bool(names) and any(f"{root}/{names[0]}".strip("/") in resolver.folders for root in site.roots)
