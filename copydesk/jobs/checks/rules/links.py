"""Checks that the targets of a page's links, anchors, images, includes and imports exist."""

import posixpath
from typing import NamedTuple
from urllib.parse import unquote

from copydesk.jobs.checks.findings import BrokenReference, Finding, ReferenceProblem, Unjudged
from copydesk.jobs.checks.rules.anchors import find_anchor_doubt, has_anchor
from copydesk.jobs.checks.rules.includes import REFERENCE_CHECKS
from copydesk.jobs.checks.rules.link_doubts import find_link_doubt
from copydesk.jobs.pages.page_types import IMAGE_EXTENSIONS, MARKDOWN_NAV_FILES, extension
from copydesk.jobs.pages.parsing.page_facts import PageFacts
from copydesk.jobs.pages.site.link_resolver import LinkResolver
from copydesk.jobs.pages.site.paths import join_path, split_target


class PageFindings(NamedTuple):
    findings: tuple[Finding, ...] = ()
    """Problems of the page apart from its references."""
    broken: tuple[BrokenReference, ...] = ()
    """References that did not resolve, surely broken or not."""
    unjudged: tuple[Unjudged, ...] = ()
    """Rules that cannot judge this page."""


UNBUILT_VERSION = "versions.json does not list this version, so that Docusaurus does not build it"
NO_FINDINGS = PageFindings()


def find_broken_references(resolver: LinkResolver, page: str, facts: PageFacts) -> tuple[BrokenReference, ...]:
    broken = []
    for line, kind, target in facts.references:
        problem = judge_reference(resolver, page, kind, target)
        if problem is not None:
            broken.append(BrokenReference(line, target, problem))
    return tuple(broken)


def judge_reference(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    """Returns the problem of a reference, or None if it is valid. Checks and the mechanic share this judgment."""
    problem = REFERENCE_CHECKS.get(kind, _judge_link)(resolver, page, kind, target)
    site = resolver.site_by_page.get(page)
    if problem is not None and site is not None and site.is_unbuilt(page):
        return problem._replace(doubt=UNBUILT_VERSION)
    return problem


def _judge_link(resolver: LinkResolver, page: str, kind: str, target: str) -> ReferenceProblem | None:
    if "?" in target:
        path, suffix = split_target(target)
        anchor = suffix.partition("#")[2]
    else:
        path, _, anchor = target.partition("#")
    if path and kind == "link" and resolver.is_label(page, path):
        return None
    file = resolver.resolve(page, path, is_html=kind == "html") if path else page
    if file is None:
        return _describe_broken_link(resolver, page, kind, path, target)
    site = resolver.site_by_page.get(page)
    if site is not None and site.is_unbuilt(file) and not site.is_unbuilt(page):
        message = f"The link to `{target}` is broken: its version is not built."
        return ReferenceProblem("link", message, file, UNBUILT_VERSION)
    if not anchor or file not in resolver.pages or has_anchor(resolver, file, anchor):
        return None
    page_name = "this page" if page == file else f"`{path}`"
    message = f"The link to `{target}` is broken: {page_name} has no anchor `{anchor}`."
    return ReferenceProblem("anchor", message, f"{file}#{anchor}", find_anchor_doubt(resolver, page, file))


def _describe_broken_link(resolver: LinkResolver, page: str, kind: str, path: str, target: str) -> ReferenceProblem:
    doubt = find_link_doubt(resolver, page, path, is_html=kind == "html")
    full_path = path if path.startswith("/") else join_path(posixpath.dirname(page), unquote(path)) or path
    identity = full_path + target[len(path) :]
    if extension(path) in IMAGE_EXTENSIONS:
        return ReferenceProblem("image", f"The image `{target}` does not exist.", identity, doubt)
    if page.rpartition("/")[2] in MARKDOWN_NAV_FILES:
        message = f"The navigation entry `{target}` points to a page that does not exist."
        return ReferenceProblem("navigation", message, identity, doubt)
    message = f"The link to `{target}` is broken: the target does not exist."
    return ReferenceProblem("link", message, identity, doubt)
