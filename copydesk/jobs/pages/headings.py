"""Headings of a Markdown page and the anchors they make."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from copydesk.jobs.pages.lines import Line

ATX = re.compile(r" {0,3}(?P<marks>#{1,6})(?=[ \t]|$)")
# By the prose, which tells what is outside code; the text of a heading is the body's.
# It begins with the end of the line before, which is sought much faster than `^`.
MARK = re.compile(r"\n(?:[ \t]*(?P<marks>#)| {0,3}(?:=+|-+)[ \t]*\r?$)", re.M)
EXPLICIT = re.compile(r"\{(?P<inner>[^{}]*+)\}\s*+$")
ID = re.compile(r"#([\w.:-]+)")
NOT_PARAGRAPH = re.compile(r"\s*(?:[-*+>|]\s|\d+[.)]\s|#|<|\||:::|!!!|[-*_]{3,}\s*$)")
IDS = re.compile(r"<[A-Za-z][^<>]*?\s(?:id|name)\s*=\s*[\"']([^\"'<>]+)[\"']")
LONGEST = 1000  # characters; the patterns here are not made for more
EMPHASIS, EMPHASIS_END = re.compile(r"(?<!\w)_(.+?)_(?!\w)"), re.compile(r"_(?!\w)")
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
    line: Line | None = None
    for mark in MARK.finditer("\n" + prose):
        line = _line(body, mark.start(), line)
        if len(line.text) > LONGEST:
            continue
        if mark["marks"]:
            atx = ATX.match(line.text)
            if atx is None:
                continue
            found.append(_titled(len(atx["marks"]), _without_closing(line.text[atx.end() :]), line, None))
        else:
            above = _paragraph_above(body, prose, line, taken)
            if above is None:
                continue
            found.append(_titled(1 if "=" in mark.group() else 2, above.text.strip(), above, line))
        taken = line.stop
    return found


def _titled(level: int, text: str, line: Line, underline: Line | None) -> Titled:
    explicit = EXPLICIT.search(text) if text.rstrip().endswith("}") else None
    ids = ID.findall(explicit["inner"]) if explicit else []
    if explicit and ids:
        return Titled(level, text[: explicit.start()].rstrip(), ids[-1], line, underline)
    return Titled(level, text, None, line, underline)


def _without_closing(text: str) -> str:
    """Drops the marks that may close a heading, and the spaces around what is left."""
    text = text.strip(" \t")
    opened = text.rstrip("#")
    return opened.rstrip(" \t") if opened.endswith((" ", "\t")) else text


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
    text = INLINE_MARKS.sub("", _without_links(text)).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(body: str, prose: str) -> set[str]:
    """Everything that a `#…` can lead to."""
    return {heading.anchor for heading in headings(body, prose)} | set(IDS.findall(prose))


def plain_text(markdown: str) -> str:
    """A heading or sentence without its marks."""
    text = INLINE_MARKS.sub("", _without_links(markdown))
    last = max((mark.end() for mark in EMPHASIS_END.finditer(text)), default=0)  # what opens behind it closes nowhere
    return " ".join((EMPHASIS.sub(r"\1", text[:last]) + text[last:]).split())


def _without_links(text: str) -> str:
    """Replaces links and images by their text. A plain scan: a pattern would look for each end again and again."""
    pieces, position = [], 0
    closers = {"(": ")", "[": "]"}
    while (opener := text.find("[", position)) >= 0 and (end := text.find("]", opener)) >= 0:
        start = opener - (opener > position and text[opener - 1] == "!")
        pieces += [text[position:start], text[opener + 1 : end]]
        position = end + 1
        following = text[position : position + 1]
        if following in closers:
            stop = text.find(closers[following], position + 1)
            if stop < 0:
                del closers[following]  # nor will there be one later on
            else:
                position = stop + 1
    return "".join(pieces) + text[position:]
