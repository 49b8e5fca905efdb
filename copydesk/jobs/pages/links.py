"""Where a page names another file: Markdown links and images, definitions, HTML and JSX attributes, directives."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from copydesk.jobs.pages.lines import Span, lines_from
from copydesk.jobs.pages.page_types import MARKDOWN, extension
from copydesk.jobs.pages.prose import prose, without_blocks

DESTINATION = re.compile(r"[ \t]*+(?:\n[ \t]*+)?+(?:<(?P<angle>[^<>\n]*)>|(?P<plain>[^\s<()\\][^\s()\\]*|(?=[(\\)])))")
BARE = re.compile(r"([^\s<>()\\]+)\)")
AFTER = re.compile(r"[ \t]*+(?:\n[ \t]*+)?+(?:\"[^\"]*\"|'[^']*'|\([^()]*\))?\s*+\)")
DEFINITION = re.compile(r"^[ \t>]*\[(?!\^)[^\]\n]+\]:[ \t]*(?:\r?\n[ \t]*)?(?:<([^<>\n]*)>|([^\s<]\S*))", re.M)
ATTRIBUTE = re.compile(
    r"(?<=[\s\"'])(?:href|src|to|poster|image|img|link)\s*=\s*\{?(?:\"([^\"\n{}]*)\"|'([^'\n{}]*)'|`([^`\n${}]*)`)"
)
IMPORT = re.compile(r"^(?:import|export)\s(?:[^\"'\n;]*\sfrom\s+)?[\"']([^\"'\n]+)[\"']", re.M)
RST = re.compile(
    r":doc:`(?:[^`<\n]*<)?([^`<>\n]+)>?`"
    r"|^[ \t]*\.\. (?:\|[^|\n]+\|[ ])?(?:image|figure|include|literalinclude)::[ \t]+(\S+)"
    r"|`[^`<]*<([^`<>\n]+)>`__?"
    r"|^[ \t]*\.\. _[^:\n]+:[ \t]+(\S+)",
    re.M,
)
# A target that no bracket follows is taken as a whole, without a group: the names in it lead to the same place.
ADOC = re.compile(r"(?:link|xref|include|image):{1,2}(?:([^\s\[\]:][^\s\[\]]*+)\[|[^\s\[\]:][^\s\[\]]*+)")
ADOC_REFERENCE = re.compile(r"<<([^\s<>,#]+\.adoc)")
MYST = re.compile(r"\{doc\}`(?:[^`<\n]*<)?([^`<>\n]+)>?`")
TOCTREE = re.compile(r"^(?P<indent>[ \t]*)(?:\.\. toctree::|(?P<fence>[`:~]{3,})\{toctree\}).*$", re.M)
TOCTREE_ENTRY = re.compile(r"[ \t]*(?!:[\w-]+:|---|[`:~]{3,})(?:[^\s<>][^<>\n]*<([^<>\n]+)>|([^\s<>:][^\s<>]*))[ \t]*$")
LONGEST_TEXT = 4000
DEEPEST = 32  # pairs of parentheses, as CommonMark's own program has it
FILLED_IN = re.compile(r"[{}$*\\]|@/")
EXTERNAL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\?|$")


@dataclass(frozen=True)
class Link:
    """`target` stands at body[start:end], as it was written."""

    start: int
    end: int
    target: str

    @property
    def is_internal(self) -> bool:
        """It names a file of this site: no address elsewhere, no mere anchor, nothing that a template fills in."""
        return not EXTERNAL.match(self.target) and not FILLED_IN.search(self.target)


def links(path: str, body: str, shown: str | None = None) -> list[Link]:
    """Every link outside code, in order. `shown` is the page's prose, where the caller has it already."""
    text = prose(path, body) if shown is None else shown
    spans = set(_found(extension(path), body, text))
    ordered: list[Link] = []
    for start, end in sorted(spans):
        if not ordered or start >= ordered[-1].end:
            ordered.append(Link(start, end, body[start:end]))
    return ordered


def _found(kind: str, body: str, text: str) -> Iterator[Span]:
    if kind == ".rst":
        outside_code = without_blocks(".rst", body)
        yield from _groups(RST, outside_code)
        yield from toctree(outside_code)
        return
    if kind == ".adoc":
        yield from _groups(ADOC, text)
        yield from _groups(ADOC_REFERENCE, text)
        return
    if kind not in MARKDOWN:
        return
    yield from inline(text)
    if "]:" in text:
        yield from _groups(DEFINITION, text)
    if "<" in text and "=" in text:
        yield from _groups(ATTRIBUTE, text)
    if "{doc}`" in body or "{toctree}" in body:
        yield from _groups(MYST, without_blocks(".md", body))
        yield from toctree(body)
    if kind == ".mdx":
        yield from _groups(IMPORT, text)


def _groups(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    for match in pattern.finditer(text):
        if match.lastindex is not None and match.group(match.lastindex).strip():
            yield match.span(match.lastindex)


def toctree(body: str) -> Iterator[Span]:
    """The entries of Sphinx tables of contents: `path` or `Title <path>`."""
    stop = 0
    for table in TOCTREE.finditer(body):
        if not table["fence"] and table.start() < stop:
            continue  # it stands in another table, whose entries its own are as well
        for line in islice(lines_from(body, table.end()), 1, None):
            if table["fence"] and line.text.strip().startswith(table["fence"]):
                break
            if not table["fence"]:
                if not line.is_blank and line.indent <= len(table["indent"]):
                    break
                stop = line.stop
            entry = TOCTREE_ENTRY.match(line.text)
            if entry and entry.lastindex:
                start, end = entry.span(entry.lastindex)
                yield line.start + start, line.start + end


def inline(text: str) -> Iterator[Span]:
    """[text](destination "title"), images as well."""
    position = 0
    while (bracket := text.find("](", position)) >= 0:
        position = bracket + 2
        opener = text.rfind("[", max(0, bracket - LONGEST_TEXT), bracket)
        if opener < 0 or text[bracket - 1] == "\\" or (text[opener - 1] == "\\" and opener):
            continue
        if "\n" in (words := text[opener:bracket]) and ("\n\n" in words or "\n\r\n" in words):
            continue  # the bracket was opened in another paragraph
        bare = BARE.match(text, position)
        span = bare.span(1) if bare else _destination(text, position)
        if span:
            yield span
            position = span[1]


def _destination(text: str, position: int) -> Span | None:
    match = DESTINATION.match(text, position)
    if match is None:
        return None
    start, end = match.span("angle" if match["angle"] is not None else "plain")
    if match["angle"] is None:
        end = _balanced(text, end)
        after = end
    else:
        after = match.end()
    return (start, end) if end > start and AFTER.match(text, after) else None


def _balanced(text: str, position: int) -> int:
    """Where a bare destination ends: parentheses may stand in it in pairs."""
    depth, last = 0, min(len(text), position + LONGEST_TEXT)
    while position < last and not text[position].isspace():
        character = text[position]
        if character == "\\":
            position += 1
        elif character == "(":
            depth += 1
            if depth > DEEPEST:
                break
        elif character == ")":
            if not depth:
                break
            depth -= 1
        position += 1
    return min(position, len(text))
