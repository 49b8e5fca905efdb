"""Finds the references of Markdown and MDX pages, in CommonMark and in the syntax of each site generator."""

import re
from collections.abc import Iterator

from copydesk.jobs.pages.lines import Span, mask_text
from copydesk.jobs.pages.page_types import IMAGE_EXTENSIONS, extension
from copydesk.jobs.pages.parsing.front_matter import find_body_start
from copydesk.jobs.pages.parsing.js_tokens import mask_comments
from copydesk.jobs.pages.parsing.markdown import MarkdownScan
from copydesk.jobs.pages.parsing.references import Reference, find_toctree_entries

DESTINATION_PATTERN = re.compile(
    r"[ \t]*+(?:\n[ \t]*+)?+(?:<(?P<angle>[^<>\n]*)>|(?P<plain>[^\s<()\\][^\s()\\]*|(?=[(\\)])))"
)
BARE_DESTINATION_PATTERN = re.compile(r"([^\s<>()\\]+)\)")
LINK_END_PATTERN = re.compile(r"[ \t]*+(?:\n[ \t]*+)?+(?:\"[^\"]*\"|'[^']*'|\([^()]*\))?\s*+\)")
MAX_LINK_CHARS = 4000
MAX_PARENTHESES_DEPTH = 32  # the limit of CommonMark's reference implementation
DEFINITION_PATTERN = re.compile(r"^[ \t>]*\[(?!\^)[^\]\n]+\]:[ \t]*(?:\r?\n[ \t]*)?(?:<([^<>\n]*)>|([^\s<]\S*))", re.M)
DEFINITION_END_PATTERN = re.compile(r"[>]?[ \t]*(?:[\"'(][^\n]*)?(?:\r?\n|$)")
LINK_ATTRIBUTE_PATTERN = re.compile(
    r"(?<=[\s\"'])(?P<name>href|src|to|poster|image|img|link)\s*=\s*\{?(?:\"([^\"\n{}]*)\"|'([^'\n{}]*)')"
)
TAG_NAME_PATTERN = re.compile(r"[A-Za-z][\w.-]*")
LINK_COMPONENTS = ("Card", "Link", "LinkCard", "DocCard", "Image", "Img")
MYST_DOC_PATTERN = re.compile(r"\{doc\}`(?:[^`<\n]*<)?([^`<>\n]+)>?`")
MYST_REF_PATTERN = re.compile(r"\{(?:ref|numref)\}`(?:[^`<\n]*<)?([^`<>\n]+)>?`")
MYST_DIRECTIVE_PATTERN = re.compile(
    r"^[ \t]*(?:`{3,}|~{3,}|:{3,})\{(include|literalinclude|image|figure)\}[ \t]+(\S+)[ \t]*\r?$", re.M
)
MYST_DIRECTIVES = ("{include}", "{literalinclude}", "{image}", "{figure}")
MAX_OPENING_LINE_CHARS = 200
"""Characters of a fence's first line that are searched for a directive."""
STATIC_IMPORT = (
    r"(?:import|export)\s(?:[^\n\"'`;=(){}]{0,300}(?:\{[^{}\"'`;=()]{0,2000}\})?[^\n\"'`;=(){}]{0,300}?\bfrom\s+)?"
    r"[\"']([^\"'\n]+)[\"']"
)
IMPORT_PATTERN = re.compile(rf"^{STATIC_IMPORT}", re.M)
SCRIPT_PATTERN = re.compile(r"<script\b[^<>]*>([^<]*(?:<(?!/script)[^<]*)*)</script", re.I)
SCRIPT_IMPORT_PATTERN = re.compile(rf"^[ \t]*{STATIC_IMPORT}|\bimport\([ \t]*[\"']([^\"'\n]+)[\"']", re.M)
"""The imports of a script block: static ones, which may be indented, and dynamic ones."""
SNIPPET_PATTERN = re.compile(r"^[ \t>]*(?<!;)-{1,}8<-{1,}[ \t]+[\"']([^\"'\n]+)[\"'][ \t]*\r?$", re.M)
SNIPPET_BLOCK_PATTERN = re.compile(
    r"^[ \t]*-{1,}8<-{1,}[ \t]*\r?\n((?:[^\n]*\n){1,50}?)[ \t]*-{1,}8<-{1,}[ \t]*\r?$", re.M
)
LIQUID_INCLUDE_PATTERN = re.compile(
    r"\{%-?\s*(include|include_relative|include-markdown|content-ref|file)\s+(?:url=|src=)?[\"']?([^\s\"'%{}]+)"
)
VITEPRESS_INCLUDE_PATTERN = re.compile(
    r"<!--\s*@include:\s*([^\s{}#<>]{1,300})[^<>\n]{0,300}-->|^<<<[ \t]+([^\s{}#\[]+)", re.M
)
MDBOOK_INCLUDE_PATTERN = re.compile(r"(?<!\\)\{\{\s*#(?:include|rustdoc_include|playground)\s+([^\s:{}]+)")
SNIPPET_TAG_PATTERN = re.compile(r"<Snippet\s+file=[\"']([^\"'\n]+)[\"']")


MAX_HOME_CHARS = 2000
"""Where the layout of a page must be written for its links to be read."""
HOME_LAYOUT_PATTERN = re.compile(r"^layout:[ \t]*[\"']?home\b", re.M)
HOME_LINK_PATTERN = re.compile(r"^[ \t]+(?:-[ \t]+)?link:[ \t]*[\"']?(/(?!/)[^\s\"'#]*(?:#[^\s\"']*)?)", re.M)
"""The links of buttons and features in the front matter of a VitePress home page."""


def find_markdown_references(ext: str, body: str, scan: MarkdownScan) -> Iterator[Reference]:
    """Yields all references of a page, in no order.

    Searches for a single character before a longer string or a pattern, which is much faster on pages without it.
    """
    prose = scan.prose
    for start, end in find_inline_links(prose):
        yield Reference(start, end, "link", prose[start:end])
    if "]:" in prose:
        for match in DEFINITION_PATTERN.finditer(prose):
            yield _build_reference("link", match, is_sure=DEFINITION_END_PATTERN.match(prose, match.end()) is not None)
    if "<" in prose and "=" in prose:
        for match in LINK_ATTRIBUTE_PATTERN.finditer(prose):
            yield _build_reference("html", match, is_sure=_is_link_attribute(prose, match))
    if "<" in body:
        yield from _find_angle_includes(body, scan)
    if "{" in body:
        yield from _find_brace_includes(ext, body, scan)
    if body.startswith("---") and HOME_LAYOUT_PATTERN.search(body, 0, MAX_HOME_CHARS):
        for match in HOME_LINK_PATTERN.finditer(body, 0, max(body.find("\n---", 3), 0)):
            yield _build_reference("link", match)
    if ext == ".mdx" and ("import" in prose or "export" in prose):
        for match in IMPORT_PATTERN.finditer(prose):
            yield _build_reference("import", match)


def _build_reference(kind: str, match: re.Match[str], is_sure: bool = True) -> Reference:
    """Returns the reference whose target is the last group of the match."""
    group = match.lastindex or 0
    return Reference(match.start(group), match.end(group), kind, match[group], is_sure)


def _is_link_attribute(prose: str, attribute: re.Match[str]) -> bool:
    """Returns whether an attribute is surely a link. Attributes of unknown components may have any meaning."""
    position = attribute.start()
    name = attribute["name"]
    tag = TAG_NAME_PATTERN.match(prose, prose.rfind("<", max(0, position - 1000), position) + 1)
    if tag is None or not (tag.group().islower() or tag.group() in LINK_COMPONENTS):
        return False
    return name in ("href", "src", "to") or extension(attribute[attribute.lastindex or 0]) in IMAGE_EXTENSIONS


def _find_angle_includes(body: str, scan: MarkdownScan) -> Iterator[Reference]:
    """Yields includes written with angle brackets. Snippets are inserted before Markdown is parsed, also in code."""
    if "8<" in body:
        for match in SNIPPET_PATTERN.finditer(body):
            yield _build_reference("snippet", match)
        for match in SNIPPET_BLOCK_PATTERN.finditer(body):
            yield from _find_snippet_names(body, *match.span(1))
    if "@include:" in body or "<<<" in scan.prose:
        for match in VITEPRESS_INCLUDE_PATTERN.finditer(_mask_fences(body, scan)):
            yield _build_reference("vitepress", match)
    if "<script" in body:
        visible = _mask_fences(body, scan)
        for script in SCRIPT_PATTERN.finditer(visible):
            for match in SCRIPT_IMPORT_PATTERN.finditer(mask_comments(script[1])):
                reference = _build_reference("script", match)
                offset = script.start(1)
                yield reference._replace(start=reference.start + offset, end=reference.end + offset)
    if "<Snippet" in scan.prose:
        for match in SNIPPET_TAG_PATTERN.finditer(scan.prose):
            yield _build_reference("tag", match)


def _find_snippet_names(body: str, start: int, end: int) -> Iterator[Reference]:
    """Yields the names in a block of snippets, one per line; a semicolon turns a line off."""
    for line in body[start:end].split("\n"):
        name = line.strip()
        if name and not name.startswith(";"):
            name_start = start + line.index(name)
            yield Reference(name_start, name_start + len(name), "snippet", name)
        start += len(line) + 1


def _find_brace_includes(ext: str, body: str, scan: MarkdownScan) -> Iterator[Reference]:
    if "{%" in scan.prose:
        for match in LIQUID_INCLUDE_PATTERN.finditer(scan.prose):
            yield _build_reference(f"liquid {match[1]}", match)
    if "{{" in body and "#" in body:
        for match in MDBOOK_INCLUDE_PATTERN.finditer(body):
            yield _build_reference("mdbook", match)
    if ext != ".mdx":
        yield from _find_myst_references(body, scan)


def _find_myst_references(body: str, scan: MarkdownScan) -> Iterator[Reference]:
    """Yields MyST references. Directives are written as fences; a directive inside another fence is only an example."""
    if "{toctree}" in body:
        openings = _find_block_openings(body, scan)
        for start, end in find_toctree_entries(body):
            if "{toctree}" in openings.get(body.rfind("\n", 0, start) + 1, "{toctree}"):
                yield Reference(start, end, "toctree", body[start:end])
    if "{doc}`" in body or "ref}`" in body:
        visible = _mask_fences(body, scan)
        for match in MYST_DOC_PATTERN.finditer(visible):
            yield _build_reference("doc", match)
        for match in MYST_REF_PATTERN.finditer(visible):
            yield _build_reference("ref", match)
    if any(directive in body for directive in MYST_DIRECTIVES):
        openings = _find_block_openings(body, scan)
        for match in MYST_DIRECTIVE_PATTERN.finditer(body):
            line_start = body.rfind("\n", 0, match.start(1)) + 1
            if match[1] in openings.get(line_start, match[1]):
                yield _build_reference(match[1], match)


def _find_block_openings(body: str, scan: MarkdownScan) -> dict[int, str]:
    """Maps the start of each line of fenced code to the first line of its block."""
    openings: dict[int, str] = {}
    opening = ""
    position = 0
    for number, line in enumerate(body.split("\n"), 1):
        if number in scan.fenced_lines:
            opening = opening or line[:MAX_OPENING_LINE_CHARS]
            openings[position] = opening
        else:
            opening = ""
        position += len(line) + 1
    return openings


def _mask_fences(body: str, scan: MarkdownScan) -> str:
    """Masks front matter and fenced code, but leaves code spans and comments, which contain roles and includes."""
    head = find_body_start(body)
    if scan.fenced_lines:
        lines = body.split("\n")
        body = "\n".join(" " * len(line) if n in scan.fenced_lines else line for n, line in enumerate(lines, 1))
    return mask_text(body[:head]) + body[head:] if head else body


def find_inline_links(text: str) -> Iterator[Span]:
    """Yields the destinations of links, `[text](destination "title")`, and of images."""
    position = 0
    while (bracket := text.find("](", position)) >= 0:
        position = bracket + 2
        opener = text.rfind("[", max(0, bracket - MAX_LINK_CHARS), bracket)
        if opener < 0 or text[bracket - 1] == "\\" or (text[opener - 1] == "\\" and opener):
            continue
        if "\n" in (link_text := text[opener:bracket]) and ("\n\n" in link_text or "\n\r\n" in link_text):
            continue  # the bracket was opened in another paragraph
        bare = BARE_DESTINATION_PATTERN.match(text, position)
        span = bare.span(1) if bare else _find_destination(text, position)
        if span:
            yield span
            position = span[1]


def _find_destination(text: str, position: int) -> Span | None:
    match = DESTINATION_PATTERN.match(text, position)
    if match is None:
        return None
    start, end = match.span("angle" if match["angle"] is not None else "plain")
    if match["angle"] is None:
        end = _find_destination_end(text, end)
        after = end
    else:
        after = match.end()
    return (start, end) if end > start and LINK_END_PATTERN.match(text, after) else None


def _find_destination_end(text: str, position: int) -> int:
    """Returns where a bare destination ends. It may contain balanced parentheses."""
    depth = 0
    limit = min(len(text), position + MAX_LINK_CHARS)
    while position < limit and not text[position].isspace():
        character = text[position]
        if character == "\\":
            position += 1
        elif character == "(":
            depth += 1
            if depth > MAX_PARENTHESES_DEPTH:
                break
        elif character == ")":
            if not depth:
                break
            depth -= 1
        position += 1
    return min(position, len(text))
