"""Which characters of a Markdown page are prose: not front matter, code, comments or raw HTML blocks."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from copydesk.jobs.pages import front_matter as frontmatter
from copydesk.jobs.pages.lines import Span, blank, blanked

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
PAIR = re.compile(r"`[^`\n]*(?:\n(?![ \t\r\f\v]*\n)[^`\n]*)*`")
# What an indented block may belong to instead of being code: a list, an admonition, a tab, a definition, HTML.
CONTAINER = re.compile(r"[-*+]\s|\d+[.)]\s|!!!|\?\?\?|===|:|\[\^|<|\{|>")
CONTAINS = frozenset("-*+0123456789!?=:[<{>")
PARAGRAPH = re.compile(r"\n[ \t\r\f\v]*(?=\n)")


@dataclass(frozen=True)
class Scanned:
    prose: str
    """The body with spaces for all that is not prose; positions and lines are the body's."""
    fenced: frozenset[int]
    """Numbers of the lines that are fenced code, fences included."""
    unclosed: int | None = None
    """The line of a fence that runs to the end of the page."""


def scan(body: str, indented_code: bool = True) -> Scanned:
    """MDX has no indented code: pass False for it."""
    head = body[: frontmatter.stop_of(body)]
    text = body[len(head) :]
    lines = text.split("\n")
    first = head.count("\n") + 1
    fenced, unclosed = _fenced(text, lines, indented_code)
    hidden = fenced | _indented(lines, fenced) if indented_code and ("\t" in body or "\n    " in body) else fenced
    for index in hidden:
        lines[index] = blank(lines[index])
    text = (blank(head) if head else "") + "\n".join(lines)
    if "`" in text:
        text = _without_code_spans(text)
    if "<" in text or ("{" in text and "{/*" in text):
        text = blanked(text, _enclosed(text))
    numbers = frozenset(first + index for index in fenced if lines[index] or index + 1 < len(lines))
    return Scanned(text, numbers, None if unclosed is None else first + unclosed)


def _fenced(text: str, lines: list[str], indented_code: bool) -> tuple[set[int], int | None]:
    """The lines in fences, except where a comment or indented code hides them; and a fence that nothing ends."""
    found: set[int] = set()
    inside: set[int] = set()
    unclosed = None
    position = looked = 0
    contained = False
    marks = [mark for mark in ("```", "~~~", "<", "{/*") if mark[0] in text and mark in text]
    if not marks or marks[0][0] not in "`~":
        return found, None
    # A fence or a comment begins on a few of many lines.
    for index in sorted({index for mark in marks for index, line in enumerate(lines) if mark in line}):
        if index < position:
            continue  # in a fence or a comment
        line = lines[index]
        fence = FENCE.match(line.rstrip("\r")) if "```" in line or "~~~" in line else None
        if fence and indented_code and line.startswith(("    ", "\t")):
            contained, looked = _is_contained(lines, looked, index, inside, contained), index
            fence = fence if contained else None
        if fence:
            last, position = _end(lines, index, fence)
            found.update(range(index, position))
            inside.update(range(index + 1, last + 1))
            unclosed = index if last == len(lines) and ">" not in fence["prefix"] else None
        elif comment := _left_open(line):
            ends = (number + 1 for number in range(index + 1, len(lines)) if comment in lines[number])
            position = next(ends, len(lines))
    return found, unclosed


def _end(lines: list[str], opened: int, fence: re.Match[str]) -> tuple[int, int]:
    """The line that ends a fence, and the first after it: the same one where it ends with its quotation."""
    mark, quoted = fence["mark"], ">" in fence["prefix"]
    for index in range(opened + 1, len(lines)):
        line = lines[index]
        if quoted and not line.lstrip().startswith(">"):
            return index, index
        if mark in line and _closes(line, fence):
            return index, index + 1
    return len(lines), len(lines)


def _is_contained(lines: list[str], start: int, stop: int, inside: set[int], before: bool) -> bool:
    """Whether what is indented here may belong to the last line that is not: code in a fence does not count."""
    for index in range(stop - 1, start - 1, -1):
        text = lines[index]
        if text and not text[0].isspace() and index not in inside:
            return text[0] in CONTAINS and CONTAINER.match(text) is not None
    return before


def _closes(text: str, fence: re.Match[str]) -> bool:
    """The same mark, at least as long, and not indented so far that it is code itself."""
    mark = fence["mark"]
    inner = text.lstrip(" \t>").rstrip()
    if len(inner) < len(mark) or inner.strip(mark[0]):
        return False
    lead = text[: text.index(mark[0])]
    return len(lead) < len(fence["prefix"]) + 4 or "\t" in lead or ">" in lead


def _left_open(text: str) -> str:
    """What ends the comment or raw block that this line begins and does not end."""
    if not OPENS.search(text):
        return ""
    text = _without_code_spans(text)
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
    absent: set[str] = set()
    while match := OPENS.search(text, position):
        closer = ENCLOSED[match.group()]
        end = -1 if closer in absent else text.find(closer, match.end())
        if end < 0:
            absent.add(closer)
            position = match.end()
            continue
        position = end + len(closer)
        spans.append((match.start(), position))
    return spans


def _indented(lines: list[str], fenced: set[int]) -> set[int]:
    """Four spaces after an empty line, below something that is no list or other container."""
    found: set[int] = set()
    after_blank, in_code, contained = True, False, False
    for index, text in enumerate(lines):
        if index in fenced:
            continue
        if not text or text.isspace():
            after_blank = True
            continue
        deep = text.startswith(("    ", "\t"))
        if not text[0].isspace():
            contained = text[0] in CONTAINS and CONTAINER.match(text) is not None
        in_code = deep and not contained and (after_blank or in_code)
        after_blank = False
        if in_code:
            found.add(index)
    return found


def _without_code_spans(text: str) -> str:
    """Code spans: a run of backticks up to the next run of the same length in the same paragraph."""
    pieces = text.split("`")
    if "" in pieces[1:-1] or ("\\" in text and "\\`" in text):
        return blanked(text, list(_inline(text)))
    code = pieces[1::2]
    if len(pieces) % 2 and not any("\n" in piece or "\r" in piece for piece in code):
        pieces[1::2] = [" " * (len(piece) + 2) for piece in code]
        return "".join(pieces)
    return PAIR.sub(lambda pair: blank(pair.group()), text)


def _inline(text: str) -> Iterator[Span]:
    start = 0
    for gap in PARAGRAPH.finditer(text):
        if text.find("`", start, gap.start()) >= 0:
            yield from _code_spans(text[start : gap.start()], start)
        start = gap.end()
    yield from _code_spans(text[start:], start)


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
