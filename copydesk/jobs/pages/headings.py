"""Headings of a Markdown page and the anchors they make."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from copydesk.jobs.pages.lines import Line

ATX = re.compile(r" {0,3}(?P<marks>#{1,6})(?:[ \t]+(?P<text>.*?))?(?:[ \t]+#+)?[ \t]*$")
# By the prose, which tells what is outside code; the text of a heading is the body's.
# It begins with the end of the line before, which is sought much faster than `^`.
MARK = re.compile(r"\n(?:[ \t]*(?P<marks>#)| {0,3}(?:=+|-+)[ \t]*\r?$)", re.M)
EXPLICIT = re.compile(r"\s*\{[^{}]*#(?P<id>[\w.:-]+)[^{}]*\}\s*$")
NOT_PARAGRAPH = re.compile(r"\s*(?:[-*+>|]\s|\d+[.)]\s|#|<|\||:::|!!!|[-*_]{3,}\s*$)")
IDS = re.compile(r"<[A-Za-z][^<>]*?\s(?:id|name)\s*=\s*[\"']([^\"'<>]+)[\"']")
LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])?")
LONGEST = 1000  # characters; the patterns here are not made for more
INLINE_MARKS = re.compile(r"[`*~]|<[^<>]*>|\\(?=\W)")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    """As written, without marks and explicit id."""
    anchor: str
    line: Line
    underline: Line | None = None


class Titled(NamedTuple):
    """A heading before its anchor is made."""

    level: int
    text: str
    explicit: str | None
    line: Line
    underline: Line | None


def headings(body: str, prose: str) -> list[Heading]:
    """`prose` tells which lines are outside code; the text is the body's, since code belongs to a heading's text."""
    found: list[Heading] = []
    seen: dict[str, int] = {}
    for level, text, explicit, line, underline in outline(body, prose):
        anchor = explicit
        if anchor is None:
            anchor = slug(text)
            count = seen.get(anchor, 0)
            seen[anchor] = count + 1
            anchor = f"{anchor}-{count}" if count else anchor
        found.append(Heading(level, text, anchor, line, underline))
    return found


def outline(body: str, prose: str) -> list[Titled]:
    found: list[Titled] = []
    taken = 0
    for mark in MARK.finditer("\n" + prose):
        line = _line(body, mark.start(), found[-1].line if found else None)
        if len(line.text) > LONGEST:
            continue
        if mark["marks"]:
            atx = ATX.match(line.text)
            if atx is None:
                continue
            found.append(_titled(len(atx["marks"]), atx["text"] or "", line, None))
        else:
            above = _paragraph_above(body, prose, line, taken)
            if above is None:
                continue
            found.append(_titled(1 if "=" in mark.group() else 2, above.text.strip(), above, line))
        taken = line.stop
    return found


def _titled(level: int, text: str, line: Line, underline: Line | None) -> Titled:
    explicit = EXPLICIT.search(text) if text.rstrip().endswith("}") else None
    if explicit:
        return Titled(level, text[: explicit.start()], explicit["id"], line, underline)
    return Titled(level, text, None, line, underline)


def _line(body: str, start: int, known: Line | None) -> Line:
    """The line that begins here; counted from one that is known, so that a page is counted through once."""
    number, since = (known.number, known.start) if known else (1, 0)
    newline = body.find("\n", start)
    stop = len(body) if newline < 0 else newline + 1
    end = stop if newline < 0 else newline - (newline > start and body[newline - 1] == "\r")
    return Line(number + body.count("\n", since, start), start, body[start:end], body[end:stop])


def _paragraph_above(body: str, prose: str, line: Line, taken: int) -> Line | None:
    """The line that this one underlines, where it is text and no heading itself."""
    if line.start <= taken:
        return None
    start = body.rfind("\n", 0, line.start - 1) + 1
    shown = prose[start : line.start].rstrip("\r\n")
    indent = len(shown) - len(shown.lstrip(" \t"))
    if len(shown) > LONGEST or not shown.strip() or NOT_PARAGRAPH.match(shown) or indent > 3:
        return None
    text = body[start : line.start].removesuffix("\n").removesuffix("\r")
    return Line(line.number - 1, start, text, body[start + len(text) : line.start])


def slug(text: str) -> str:
    """As GitHub and most site generators make it."""
    text = INLINE_MARKS.sub("", LINK.sub(r"\1", text)).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(body: str, prose: str) -> set[str]:
    """Everything that a `#…` can lead to."""
    return {heading.anchor for heading in headings(body, prose)} | set(IDS.findall(prose))


def plain_text(markdown: str) -> str:
    """A heading or sentence without its marks."""
    text = INLINE_MARKS.sub("", LINK.sub(r"\1", markdown))
    return " ".join(re.sub(r"(?<!\w)_(.+?)_(?!\w)", r"\1", text).split())
