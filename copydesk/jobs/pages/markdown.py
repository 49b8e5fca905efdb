"""Which characters of a Markdown page are prose: not front matter, code, comments or raw HTML blocks."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from copydesk.jobs.pages import frontmatter
from copydesk.jobs.pages.lines import Line, Span, blanked, lines_of

# A fence may stand in a quotation or right after a list marker; in a list it may be indented by any amount.
FENCE = re.compile(r"(?P<prefix>[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(?P<mark>`{3,}(?=[^`]*$)|~{3,})")
ENCLOSED = {
    "<!--": "-->",
    "{/*": "*/}",
    "<pre": "</pre>",
    "<script": "</script>",
    "<style": "</style>",
    "<code": "</code>",
}
OPENS = re.compile(r"<!--|\{/\*|<(?:pre|script|style|code)(?=[\s>])")
TICKS = re.compile(r"\\`|`+")
# What an indented block may belong to instead of being code: a list, an admonition, a tab, a definition, HTML.
CONTAINER = re.compile(r"[-*+]\s|\d+[.)]\s|!!!|\?\?\?|===|:|\[\^|<|\{|>")


@dataclass(frozen=True)
class Scanned:
    prose: str
    """The body with spaces for all that is not prose; positions and lines are the body's."""
    fenced: frozenset[int]
    """Numbers of the lines that are fenced code, fences included."""


def scan(body: str, indented_code: bool = True) -> Scanned:
    """MDX has no indented code: pass False for it."""
    lines = lines_of(body)
    matter = frontmatter.find(body)
    spans: list[Span] = [(0, matter.stop)] if matter else []
    rest = [line for line in lines if line.start >= (matter.stop if matter else 0)]
    fenced = _fenced(rest)
    spans += [(line.start, line.end) for line in rest if line.number in fenced]
    open_lines = [line for line in rest if line.number not in fenced]
    if indented_code:
        spans += _indented(open_lines)
    text = blanked(body, spans)
    spans += _inline(text)
    text = blanked(body, spans)
    return Scanned(blanked(text, _enclosed(text)), fenced)


def _fenced(lines: list[Line]) -> frozenset[int]:
    """Fences, except where an HTML comment hides them."""
    numbers: set[int] = set()
    fence: re.Match[str] | None = None
    comment = ""
    for line in lines:
        if fence:
            left_quotation = ">" in fence["prefix"] and not line.text.lstrip().startswith(">")
            if not left_quotation:
                numbers.add(line.number)
            if left_quotation or _closes(line.text, fence["mark"]):
                fence = None
            if not left_quotation:
                continue
        if comment:
            comment = "" if comment in line.text else comment
            continue
        fence = FENCE.match(line.text)
        if fence:
            numbers.add(line.number)
        else:
            comment = _left_open(line.text)
    return frozenset(numbers)


def _closes(text: str, mark: str) -> bool:
    inner = text.lstrip(" \t>").rstrip()
    return len(inner) >= len(mark) and not inner.strip(mark[0])


def _left_open(text: str) -> str:
    """What ends the comment or raw block that this line begins and does not end."""
    if not OPENS.search(text):
        return ""
    text = blanked(text, list(_inline(text)))
    position = 0
    while match := OPENS.search(text, position):
        closer = ENCLOSED[match.group()]
        end = text.find(closer, match.end())
        if end < 0:
            return closer if closer != "</code>" else ""
        position = end + len(closer)
    return ""


def _enclosed(text: str) -> list[Span]:
    spans, position = [], 0
    while match := OPENS.search(text, position):
        end = text.find(ENCLOSED[match.group()], match.end())
        if end < 0:
            position = match.end()
            continue
        position = end + len(ENCLOSED[match.group()])
        spans.append((match.start(), position))
    return spans


def _indented(lines: list[Line]) -> Iterator[Span]:
    """Four spaces after an empty line, below something that is no list or other container."""
    after_blank, in_code, contained = True, False, False
    for line in lines:
        if line.is_blank:
            after_blank = True
            continue
        deep = line.text.startswith(("    ", "\t"))
        if not line.text[0].isspace():
            contained = CONTAINER.match(line.text) is not None
        in_code = deep and not contained and (after_blank or in_code)
        after_blank = False
        if in_code:
            yield line.start, line.end


def _inline(text: str) -> Iterator[Span]:
    """Code spans: a run of backticks up to the next run of the same length in the same paragraph."""
    for paragraph in re.finditer(r"(?:[^\n]*\S[^\n]*(?:\n|$))+", text):
        if "`" in paragraph.group():
            yield from _code_spans(paragraph.group(), paragraph.start())


def _code_spans(paragraph: str, offset: int) -> Iterator[Span]:
    runs = list(TICKS.finditer(paragraph))
    later: dict[int, deque[int]] = {}
    for index, run in enumerate(runs):
        # Inside a span a backslash means nothing, so an escaped backtick can close one.
        later.setdefault(len(run.group().lstrip("\\")), deque()).append(index)
    position = 0
    for index, run in enumerate(runs):
        if run.start() < position or run.group().startswith("\\"):
            continue
        same = later[len(run.group())]
        while same and same[0] <= index:
            same.popleft()
        if same:
            position = runs[same[0]].end()
            yield offset + run.start(), offset + position
