"""Finds the headings of a Markdown page and generates their anchors, which each site generator does differently."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from copydesk.core.text.normal_forms import normalize
from copydesk.jobs.pages.lines import TextLine

Slugify = Callable[[str], str]
"""A function that returns the anchor of a heading."""

ATX_HEADING_PATTERN = re.compile(r" {0,3}(?P<marks>#{1,6})(?=[ \t]|$)")
# Matches in the prose, which leaves out code; the text of a heading is taken from the body.
# Begins with the end of the previous line, because searching for it is much faster than for `^`.
HEADING_MARK_PATTERN = re.compile(r"\n(?:[ \t]*(?P<marks>#)| {0,3}(?:=+|-+)[ \t]*\r?$)", re.M)
HEADING_ATTRIBUTES_PATTERN = re.compile(r"\{(?P<inner>[^{}]*+)\}\s*+$")
ID_ATTRIBUTE_PATTERN = re.compile(r"#([\w.:-]+)")
NOT_PARAGRAPH_PATTERN = re.compile(r"\s*(?:[-*+>|]\s|\d+[.)]\s|#|<|\||:::|!!!|[-*_]{3,}\s*$)")
MAX_HEADING_CHARS = 1000  # the patterns here would be slow on longer lines
EMPHASIS_PATTERN, EMPHASIS_END_PATTERN = re.compile(r"(?<!\w)_(.+?)_(?!\w)"), re.compile(r"_(?!\w)")
VITEPRESS_SEPARATOR_PATTERN = re.compile(r"[\s~`!@#$%^&*()\-_+=\[\]{}|\\;:\"'“”‘’<>,.?/]+")
INLINE_MARKUP_PATTERN = re.compile(r"[`*~]|<[^<>]*>|\\(?=\W)")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    """The text as written, without heading marks and explicit ID."""
    anchor: str
    line: TextLine
    underline: TextLine | None = None


class RawHeading(NamedTuple):
    """A heading without its generated anchor."""

    level: int
    text: str
    explicit_id: str | None
    line: TextLine
    underline: TextLine | None


def find_headings(body: str, prose: str, slugify: Slugify | None = None) -> list[Heading]:
    """Returns the headings with their anchors, by default those that GitHub generates.

    `prose` decides which lines are outside code; texts come from the body, because a heading may contain code.
    """
    headings: list[Heading] = []
    slug_counts: dict[str, int] = {}
    for level, text, explicit_id, line, underline in find_raw_headings(body, prose):
        anchor = explicit_id
        if anchor is None:
            slug = (slugify or slugify_github)(text)
            count = slug_counts.get(slug, 0)
            slug_counts[slug] = count + 1
            anchor = f"{slug}{find_repeat_separator(slugify)}{count}" if count else slug
        headings.append(Heading(level, text, anchor, line, underline))
    return headings


def find_raw_headings(body: str, prose: str) -> list[RawHeading]:
    headings: list[RawHeading] = []
    last_heading_end = 0
    line: TextLine | None = None
    for mark in HEADING_MARK_PATTERN.finditer("\n" + prose):
        line = _build_line(body, mark.start(), line)
        if len(line.text) > MAX_HEADING_CHARS:
            continue
        if mark["marks"]:
            atx = ATX_HEADING_PATTERN.match(line.text)
            if atx is None:
                continue
            headings.append(
                _build_raw_heading(len(atx["marks"]), _strip_closing_marks(line.text[atx.end() :]), line, None)
            )
        else:
            title_line = _find_underlined_line(body, prose, line, last_heading_end)
            if title_line is None:
                continue
            headings.append(
                _build_raw_heading(1 if "=" in mark.group() else 2, title_line.text.strip(), title_line, line)
            )
        last_heading_end = line.next_start
    return headings


def _build_raw_heading(level: int, text: str, line: TextLine, underline: TextLine | None) -> RawHeading:
    attributes = HEADING_ATTRIBUTES_PATTERN.search(text) if text.rstrip().endswith("}") else None
    ids = ID_ATTRIBUTE_PATTERN.findall(attributes["inner"]) if attributes else []
    if attributes and ids:
        return RawHeading(level, text[: attributes.start()].rstrip(), ids[-1], line, underline)
    return RawHeading(level, text, None, line, underline)


def _strip_closing_marks(text: str) -> str:
    """Removes the closing marks of a heading, and the spaces around its text."""
    text = text.strip(" \t")
    without_marks = text.rstrip("#")
    return without_marks.rstrip(" \t") if without_marks.endswith((" ", "\t")) else text


def _build_line(body: str, start: int, previous: TextLine | None) -> TextLine:
    """Returns the line that starts here. Counts from `previous`, so that the lines of a page are counted only once."""
    previous_number, previous_start = (previous.number, previous.start) if previous else (1, 0)
    newline = body.find("\n", start)
    next_start = len(body) if newline < 0 else newline + 1
    end = next_start if newline < 0 else newline - (newline > start and body[newline - 1] == "\r")
    return TextLine(
        previous_number + body.count("\n", previous_start, start), start, body[start:end], body[end:next_start]
    )


def _find_underlined_line(body: str, prose: str, line: TextLine, last_heading_end: int) -> TextLine | None:
    """Returns the line that this one underlines, or None if that is not text or is already a heading."""
    if line.start <= last_heading_end:
        return None
    start = body.rfind("\n", 0, line.start - 1) + 1
    visible = prose[start : line.start].rstrip("\r\n")
    indent = len(visible) - len(visible.lstrip(" \t"))
    if len(visible) > MAX_HEADING_CHARS or not visible.strip() or NOT_PARAGRAPH_PATTERN.match(visible) or indent > 3:
        return None
    text = body[start : line.start].removesuffix("\n").removesuffix("\r")
    return TextLine(line.number - 1, start, text, body[start + len(text) : line.start])


def strip_markup(markdown: str) -> str:
    """Returns a heading or sentence without its markup, and with whitespace collapsed."""
    return " ".join(_remove_markup(markdown).split())


def _remove_markup(markdown: str) -> str:
    text = INLINE_MARKUP_PATTERN.sub("", _unwrap_links(markdown))
    last_emphasis_end = max(
        (mark.end() for mark in EMPHASIS_END_PATTERN.finditer(text)), default=0
    )  # emphasis that opens after it is never closed
    return EMPHASIS_PATTERN.sub(r"\1", text[:last_emphasis_end]) + text[last_emphasis_end:]


def _unwrap_links(text: str) -> str:
    """Replaces links and images with their text. Scans once; a pattern would search for each end again and again."""
    pieces = []
    position = 0
    closers = {"(": ")", "[": "]"}
    while (opener := text.find("[", position)) >= 0 and (end := text.find("]", opener)) >= 0:
        start = opener - (opener > position and text[opener - 1] == "!")
        pieces += [text[position:start], text[opener + 1 : end]]
        position = end + 1
        next_char = text[position : position + 1]
        if next_char in closers:
            closer = text.find(closers[next_char], position + 1)
            if closer < 0:
                del closers[next_char]  # the rest of the text has none either
            else:
                position = closer + 1
    return "".join(pieces) + text[position:]


def slugify_github(text: str) -> str:
    """Returns the anchor of a heading as GitHub and Docusaurus generate it. Repeated spaces stay repeated."""
    return re.sub(r"[^\w\- ]", "", _remove_markup(text).strip().lower()).replace(" ", "-")


def slugify_mkdocs(text: str) -> str:
    text = normalize("NFKD", strip_markup(text)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def slugify_vitepress(text: str) -> str:
    text = VITEPRESS_SEPARATOR_PATTERN.sub("-", normalize("NFKD", strip_markup(text)))
    text = re.sub(r"^-+|-+$", "", re.sub(r"-{2,}", "-", text)).lower()
    return f"_{text}" if text[:1].isdigit() else text


SLUGIFIERS: dict[str, Slugify] = {
    "github": slugify_github,
    "docusaurus": slugify_github,
    "mkdocs": slugify_mkdocs,
    "vitepress": slugify_vitepress,
}
"""The rules for anchors by the site's generator."""


def find_repeat_separator(slugify: Slugify | None) -> str:
    """Returns what stands before the number in the anchors of repeated headings."""
    return "_" if slugify is slugify_mkdocs else "-"


def normalize_letters(text: str) -> str:
    """Returns the letters and digits without accents and case: the part of a text that every generator keeps."""
    if text.isascii():
        return "".join(c for c in text.lower() if c.isalnum())
    return "".join(c for c in normalize("NFKD", text).casefold() if c.isalnum())
