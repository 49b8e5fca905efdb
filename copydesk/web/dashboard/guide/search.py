"""Searches the guide: sections that contain every word, those with a word in their heading first."""

import re
from functools import cache
from typing import NamedTuple

from copydesk.web.dashboard.guide.chapters import GUIDE_URL, list_chapters, list_files
from copydesk.web.dashboard.guide.page_html import make_anchor

MAX_RESULTS = 30
MAX_QUERY_CHARS = 200
MAX_WORDS = 8
EXCERPT_CHARS = 160
HEADING_PATTERN = re.compile(r"^#{1,6} (.+)$", re.M)
FENCE_PATTERN = re.compile(r"^```.*?^```$", re.M | re.S)
LINK_PATTERN = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
MARKS_PATTERN = re.compile(r"[`*|]|^#+ |^---.*$", re.M)


class Section(NamedTuple):
    url: str
    chapter: str
    heading: str
    text: str
    folded: str
    """The heading and the text in lower case."""


class SearchResult(NamedTuple):
    url: str
    chapter: str
    heading: str
    excerpt: str


def search_guide(query: str) -> list[SearchResult]:
    words = query[:MAX_QUERY_CHARS].casefold().split()[:MAX_WORDS]
    if not words:
        return []
    matches = [section for section in _list_sections() if all(word in section.folded for word in words)]
    matches.sort(key=lambda section: -sum(word in section.heading.casefold() for word in words))
    return [
        SearchResult(section.url, section.chapter, section.heading, _cut_excerpt(section.text, words))
        for section in matches[:MAX_RESULTS]
    ]


def _cut_excerpt(text: str, words: list[str]) -> str:
    at = max(0, min((found for word in words if (found := text.casefold().find(word)) >= 0), default=0) - 40)
    end = at + EXCERPT_CHARS
    return f"{'… ' if at else ''}{text[at:end].strip()}{' …' if end < len(text) else ''}"


@cache
def _list_sections() -> list[Section]:
    return [
        section
        for chapters in list_chapters().values()
        for chapter in chapters
        for section in _split_sections(chapter.name, chapter.title)
    ]


def _split_sections(name: str, title: str) -> list[Section]:
    """Splits a page at its headings. Lines of code that begin with `#` are not headings."""
    page = list_files()[name].read_text("utf-8")
    code = [fence.span() for fence in FENCE_PATTERN.finditer(page)]
    found = [
        heading
        for heading in HEADING_PATTERN.finditer(page)
        if not any(start <= heading.start() < end for start, end in code)
    ]
    ends = [heading.start() for heading in found[1:]] + [len(page)]
    sections = []
    for number, (heading, end) in enumerate(zip(found, ends, strict=True)):
        text = " ".join(MARKS_PATTERN.sub("", LINK_PATTERN.sub(r"\1", page[heading.end() : end])).split())
        words = MARKS_PATTERN.sub("", LINK_PATTERN.sub(r"\1", heading[1]))
        anchor = f"#{make_anchor(words)}" if number else ""
        folded = f"{words} {text}".casefold()
        sections.append(Section(f"{GUIDE_URL}/{name}{anchor}", title, words, text, folded))
    return sections
