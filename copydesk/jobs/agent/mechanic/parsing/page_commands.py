"""Parses the commands that delete a page, add it to the navigation, or add redirects for missing pages."""

import re
from collections.abc import Sequence

from copydesk.jobs.agent.mechanic.instructions import AddRedirects, AddToNavigation, DeletePage
from copydesk.jobs.agent.mechanic.parsing.clauses import PLACEHOLDER_PATTERN, Quotations, is_placeholder

NAME = rf"(?:{PLACEHOLDER_PATTERN}|[\w./-]+)"
PAGE_NOUN = r"(?:page|file|document|doc|article|guide|chapter)"
MENU = (
    r"(?:navigation|nav|side\s?bar|menu|toc|table\s+of\s+contents|toctree|summary|SUMMARY\.md|mkdocs\.ya?ml|docs\.json"
    r"|sidebars\.(?:js|ts|json))"
)
GROUP_NOUN = r"(?:\s+(?:group|section|category|part|heading))?"
DELETE_PATTERN = re.compile(
    rf"(?:delete|remove|drop|get\s+rid\s+of)\s+(?:the\s+)?(?P<noun>{PAGE_NOUN}\s+)?(?:(?:called|named|at)\s+)?(?P<page>{NAME})"
    rf"(?P<after>\s+{PAGE_NOUN})?(?:\s+from\s+the\s+(?:docs|documentation|site|book|repository))?"
    rf"(?:,?\s+(?:and\s+)?(?:redirect(?:ing)?|with\s+a\s+redirect|forward(?:ing)?)\s+(?:(?:it|its\s+(?:address|url)|readers|visitors)\s+)?to\s+"
    rf"(?:the\s+)?(?:page\s+)?(?P<to>{NAME}))?",
    re.I,
)
ADD_PATTERN = re.compile(
    rf"(?:(?:add|insert|put|include)\s+(?:an?\s+(?:navigation\s+)?entry\s+for\s+)?|list\s+|add\s+a\s+link\s+to\s+)(?:the\s+)?(?:{PAGE_NOUN}\s+)?"
    rf"(?P<page>{NAME})(?:\s+{PAGE_NOUN})?(?:\s+as\s+(?P<title>{PLACEHOLDER_PATTERN}))?\s+(?:to|in|into)\s+"
    rf"(?:the\s+)?(?:(?P<group>{NAME}(?:\s+[\w-]+)??){GROUP_NOUN}\s+(?:of|in)\s+the\s+)?{MENU}(?:\s+in\s+{MENU})?"
    rf"(?:\s+as\s+(?P<title2>{PLACEHOLDER_PATTERN}))?"
    rf"(?:,?\s+(?:(?:right|directly|just)\s+)?(?:(?P<below>after|behind|below\s+the\s+page)|(?P<in>under|below|in|inside|within))\s+"
    rf"(?:the\s+)?(?:{PAGE_NOUN}\s+)?(?P<place>{NAME}(?:\s+[\w-]+){{0,3}}?){GROUP_NOUN}(?:\s+{PAGE_NOUN})?)?",
    re.I,
)
ADDRESS = rf"(?:{PLACEHOLDER_PATTERN}|/[\w./~-]+)"
REDIRECTS_PATTERN = re.compile(
    rf"(?:add|create|insert)\s+(?:an?\s+)?redirects?\s+(?:for|from)\s+(?:the\s+)?(?:missing\s+)?(?:pages?|addresse?s?|paths?|urls?)"
    rf"(?P<addresses>(?:\s+{ADDRESS})(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+){ADDRESS})*)?",
    re.I,
)


def parse_redirects(clause: str, quotations: Quotations, reader_lines: Sequence[str]) -> AddRedirects | None:
    """Parses a command that names missing addresses, or none: then they are those of the lines from readers."""
    match = REDIRECTS_PATTERN.fullmatch(clause)
    if match is None:
        return None
    named = [quotations.resolve(text) for text in re.findall(ADDRESS, match["addresses"] or "")]
    addresses = named or [line.partition(" ")[0] for line in reader_lines]
    return AddRedirects(tuple(addresses)) if addresses else None


def parse_deletion(clause: str, quotations: Quotations) -> DeletePage | None:
    match = DELETE_PATTERN.fullmatch(clause)
    if match is None:
        return None
    page = quotations.resolve(match["page"]).strip("/")
    if not page or not (
        match["noun"] or match["after"] or "/" in page or re.search(r"\.(?:mdx?|rst|markdown|adoc)$", page)
    ):
        return None
    if not is_placeholder(match["page"]) and page.lower() in ("the", "all", "every", "this", "that", "old", "unused"):
        return None
    return DeletePage(page, quotations.resolve(match["to"]) if match["to"] else "")


def parse_nav_entry(clause: str, quotations: Quotations) -> AddToNavigation | None:
    match = ADD_PATTERN.fullmatch(clause)
    if match is None:
        return None
    page = quotations.resolve(match["page"]).strip("/")
    title = match["title"] or match["title2"]
    place = quotations.resolve(match["place"]) if match["place"] else ""
    group = quotations.resolve(match["group"]) if match["group"] else ""
    if not page or page.lower() in ("the", "all", "every", "each", "missing", "it", "them", "a", "new"):
        return None
    return AddToNavigation(
        page,
        after=place if match["below"] else "",
        under=group or ("" if match["below"] else place),
        title=quotations.resolve(title) if title else "",
    )
