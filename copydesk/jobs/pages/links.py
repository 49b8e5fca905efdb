"""Finds references to files: Markdown links, images and definitions, HTML and JSX attributes, directives."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from copydesk.jobs.pages.lines import Span, iter_lines
from copydesk.jobs.pages.page_types import MARKDOWN_EXTENSIONS, extension
from copydesk.jobs.pages.prose import mask_code_blocks, mask_non_prose

DESTINATION_PATTERN = re.compile(
    r"[ \t]*+(?:\n[ \t]*+)?+(?:<(?P<angle>[^<>\n]*)>|(?P<plain>[^\s<()\\][^\s()\\]*|(?=[(\\)])))"
)
BARE_DESTINATION_PATTERN = re.compile(r"([^\s<>()\\]+)\)")
LINK_END_PATTERN = re.compile(r"[ \t]*+(?:\n[ \t]*+)?+(?:\"[^\"]*\"|'[^']*'|\([^()]*\))?\s*+\)")
DEFINITION_PATTERN = re.compile(r"^[ \t>]*\[(?!\^)[^\]\n]+\]:[ \t]*(?:\r?\n[ \t]*)?(?:<([^<>\n]*)>|([^\s<]\S*))", re.M)
LINK_ATTRIBUTE_PATTERN = re.compile(
    r"(?<=[\s\"'])(?:href|src|to|poster|image|img|link)\s*=\s*\{?(?:\"([^\"\n{}]*)\"|'([^'\n{}]*)'|`([^`\n${}]*)`)"
)
# Other names, such as @theme/Tabs, are packages or aliases, not paths.
IMPORT_PATTERN = re.compile(r"^(?:import|export)\s(?:[^\"'\n;]*\sfrom\s+)?[\"'](\.{0,2}/[^\"'\n]+)[\"']", re.M)
RST_LINK_PATTERN = re.compile(
    r":doc:`(?:[^`<\n]*<)?([^`<>\n]+)>?`"
    r"|^[ \t]*\.\. (?:\|[^|\n]+\|[ ])?(?:image|figure|include|literalinclude)::[ \t]+(\S+)"
    r"|`[^`<]*<([^`<>\n]+)>`__?"
    r"|^[ \t]*\.\. _[^:\n]+:[ \t]+(\S+)",
    re.M,
)
# Consumes a target without a following bracket whole, without a group: a match inside it would fail at the same point.
ADOC_LINK_PATTERN = re.compile(r"(?:link|xref|include|image):{1,2}(?:([^\s\[\]:][^\s\[\]]*+)\[|[^\s\[\]:][^\s\[\]]*+)")
ADOC_REFERENCE_PATTERN = re.compile(r"<<([^\s<>,#]+\.adoc)")
MYST_DOC_PATTERN = re.compile(r"\{doc\}`(?:[^`<\n]*<)?([^`<>\n]+)>?`")
TOCTREE_PATTERN = re.compile(r"^(?P<indent>[ \t]*)(?:\.\. toctree::|(?P<fence>[`:~]{3,})\{toctree\}).*$", re.M)
TOCTREE_ENTRY_PATTERN = re.compile(
    r"[ \t]*(?!:[\w-]+:|---|[`:~]{3,})(?:[^\s<>][^<>\n]*<([^<>\n]+)>|([^\s<>:][^\s<>]*))[ \t]*$"
)
MAX_LINK_CHARS = 4000
MAX_PARENTHESES_DEPTH = 32  # the limit of CommonMark's reference implementation
PLACEHOLDER_PATTERN = re.compile(r"[{}$*\\]|@/")
NON_FILE_TARGET_PATTERN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\?|$")


@dataclass(frozen=True)
class Link:
    """A link. `target` is body[start:end], as written."""

    start: int
    end: int
    target: str

    @property
    def is_internal(self) -> bool:
        """Returns whether the link names a file of this site: no external URL, bare anchor or template placeholder."""
        return not NON_FILE_TARGET_PATTERN.match(self.target) and not PLACEHOLDER_PATTERN.search(self.target)


def find_links(path: str, body: str, page_prose: str | None = None) -> list[Link]:
    """Returns every link outside code, in order. `page_prose` is the page's prose, if the caller already has it."""
    text = mask_non_prose(path, body) if page_prose is None else page_prose
    spans = set(_find_link_spans(extension(path), body, text))
    links: list[Link] = []
    for start, end in sorted(spans):
        if not links or start >= links[-1].end:
            links.append(Link(start, end, body[start:end]))
    return links


def _find_link_spans(ext: str, body: str, page_prose: str) -> Iterator[Span]:
    if ext == ".rst":
        outside_code = mask_code_blocks(".rst", body)
        yield from _find_group_spans(RST_LINK_PATTERN, outside_code)
        yield from find_toctree_entries(outside_code)
        return
    if ext == ".adoc":
        yield from _find_group_spans(ADOC_LINK_PATTERN, page_prose)
        yield from _find_group_spans(ADOC_REFERENCE_PATTERN, page_prose)
        return
    if ext not in MARKDOWN_EXTENSIONS:
        return
    yield from find_inline_links(page_prose)
    if "]:" in page_prose:
        yield from _find_group_spans(DEFINITION_PATTERN, page_prose)
    if "<" in page_prose and "=" in page_prose:
        yield from _find_group_spans(LINK_ATTRIBUTE_PATTERN, page_prose)
    if "{doc}`" in body or "{toctree}" in body:
        yield from _find_group_spans(MYST_DOC_PATTERN, mask_code_blocks(ext, body))
        yield from find_toctree_entries(body)
    if ext == ".mdx":
        yield from _find_group_spans(IMPORT_PATTERN, page_prose)


def _find_group_spans(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    for match in pattern.finditer(text):
        if match.lastindex is not None and match.group(match.lastindex).strip():
            yield match.span(match.lastindex)


def find_toctree_entries(body: str) -> Iterator[Span]:
    """Yields the entries of Sphinx tables of contents: `path` or `Title <path>`."""
    table_end = 0
    for table in TOCTREE_PATTERN.finditer(body):
        if not table["fence"] and table.start() < table_end:
            continue  # nested in another table, which has yielded its entries already
        for line in islice(iter_lines(body, table.end()), 1, None):
            if table["fence"] and line.text.strip().startswith(table["fence"]):
                break
            if not table["fence"]:
                if not line.is_blank and line.indent <= len(table["indent"]):
                    break
                table_end = line.next_start
            entry = TOCTREE_ENTRY_PATTERN.match(line.text)
            if entry and entry.lastindex:
                start, end = entry.span(entry.lastindex)
                yield line.start + start, line.start + end


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
    depth, limit = 0, min(len(text), position + MAX_LINK_CHARS)
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
