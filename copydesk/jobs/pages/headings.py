"""Headings of a Markdown page and the anchors they make."""

import re
from dataclasses import dataclass

from copydesk.jobs.pages.lines import Line, lines_of

ATX = re.compile(r" {0,3}(?P<marks>#{1,6})(?:[ \t]+(?P<text>.*?))?(?:[ \t]+#+)?[ \t]*$")
UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
EXPLICIT = re.compile(r"\s*\{[^{}]*#(?P<id>[\w.:-]+)[^{}]*\}\s*$")
NOT_PARAGRAPH = re.compile(r"\s*(?:[-*+>|]\s|\d+[.)]\s|#|<|\||:::|!!!|[-*_]{3,}\s*$)")
IDS = re.compile(r"<[A-Za-z][^<>]*?\s(?:id|name)\s*=\s*[\"']([^\"'<>]+)[\"']")
LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])?")
INLINE_MARKS = re.compile(r"[`*~]|<[^<>]*>|\\(?=\W)")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    """As written, without marks and explicit id."""
    anchor: str
    line: Line
    underline: Line | None = None


def headings(body: str, prose: str) -> list[Heading]:
    """`prose` tells which lines are outside code; the text is the body's, since code belongs to a heading's text."""
    found: list[Heading] = []
    seen: dict[str, int] = {}
    before: Line | None = None
    for line, shown in zip(lines_of(body), lines_of(prose), strict=True):
        atx = ATX.match(line.text) if shown.text.lstrip().startswith("#") else None
        underline = UNDERLINE.match(shown.text)
        if atx:
            text, level, at = atx["text"] or "", len(atx["marks"]), line
        elif underline and before is not None:
            text, level, at = before.text.strip(), 1 if underline[1][0] == "=" else 2, before
        else:
            before = None if shown.is_blank or NOT_PARAGRAPH.match(shown.text) or shown.indent > 3 else line
            continue
        found.append(_heading(level, text, at, None if atx else line, seen))
        before = None
    return found


def _heading(level: int, text: str, line: Line, underline: Line | None, seen: dict[str, int]) -> Heading:
    explicit = EXPLICIT.search(text)
    if explicit:
        return Heading(level, text[: explicit.start()], explicit["id"], line, underline)
    plain = slug(text)
    count = seen.get(plain, 0)
    seen[plain] = count + 1
    return Heading(level, text, f"{plain}-{count}" if count else plain, line, underline)


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
