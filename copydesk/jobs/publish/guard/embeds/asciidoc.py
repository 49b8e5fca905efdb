"""Finds content that an AsciiDoc page loads or runs, with a small line parser.

Only blocks that are certainly code are skipped; in AsciiDoc, macros work inside backticks.
"""

import re
from collections.abc import Iterator

from copydesk.jobs.publish.guard.embeds.html import find_in_html
from copydesk.jobs.publish.guard.embeds.urls import Embed, find_host, find_urls, runs_code, shorten

DELIMITER_PATTERN = re.compile(r"(-{4,}|\.{4,}|/{4,}|`{3,}[\w,+-]*)[ \t]*")
CONDITION_PATTERN = re.compile(r"^\\?(?:ifdef|ifndef|ifeval|endif)::", re.M)
ATTRIBUTE_DEFINITION_PATTERN = re.compile(r":(!?[\w-]+!?):[ \t]*(.*)")
ATTRIBUTE_REFERENCE_PATTERN = re.compile(r"\{([\w-]{1,80})\}")
MACRO_RUN_PATTERN = re.compile(r"(?<![^\s\[\]])[^\s\[\]]+\[")
"""Characters up to a bracket: a macro and the text right before it."""
MACRO_NAME_PATTERN = re.compile(r"(?<![\w-])([A-Za-z_][\w-]{0,40})::?(?=.)")
LINK_MACROS = {"link", "xref", "mailto", "footnote", "http", "https", "ftp", "irc", "term", "indexterm"}
ASSET_ATTRIBUTE_PATTERN = re.compile(
    r"(?:\w+dir|stylesheet|favicon|docinfo\w*|webfonts|\w*-?server-url|mathjax\w*|highlightjs\w*)\Z", re.I
)
BUILT_IN_ATTRIBUTE_PATTERN = re.compile(r"(?:\w*dir|docname|doctitle|page-[\w-]+|empty|sp|nbsp|site-url)\Z")
MAX_EXPANSION_FACTOR = 20
MAX_MACRO_NAMES = 20
BLOCK_START_PREFIXES = ("[", ".", "+", "====", "****", "--")


def find_in_asciidoc(text: str) -> Iterator[Embed]:
    """Yields the embeds and links of the page with their lines."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    code_lines = frozenset[int]() if CONDITION_PATTERN.search(text) else _find_code_lines(lines)
    attributes: dict[str, str] = {}
    for number, line in enumerate(lines):
        if number not in code_lines:
            yield from (Embed(embed.kind, embed.url, number + 1) for embed in _read_line(line, attributes))
    if (unclosed := _find_unclosed(lines)) is not None:
        yield Embed("script", "a block that is not closed", unclosed + 1)
    prose = "\n".join(" " if number in code_lines else line for number, line in enumerate(lines))
    yield from find_in_html(prose)


def _find_code_lines(lines: list[str]) -> frozenset[int]:
    """Returns the lines of listings and literal blocks that start clearly and end with their opening delimiter.

    A line of dashes below a short line may underline a title or open a listing. Only lines that are code in both
    readings are returned.
    """
    return _list_code_lines(lines, underlines=True) & _list_code_lines(lines, underlines=False)


def _list_code_lines(lines: list[str], underlines: bool) -> frozenset[int]:
    code_lines: set[int] = set()
    for start, end in _find_blocks(lines, underlines):
        previous_line = lines[start - 1].strip() if start else ""
        if (
            end is not None
            and (not previous_line or previous_line.startswith(BLOCK_START_PREFIXES))
            and "subs" not in previous_line
        ):
            code_lines.update(range(start, end + 1))
    return frozenset(code_lines)


def _find_unclosed(lines: list[str]) -> int | None:
    """Returns the first line of an unclosed block, or None.

    An unclosed block would change the meaning of a page that includes this one.
    """
    for underlines in (True, False):
        unclosed = [start for start, end in _find_blocks(lines, underlines) if end is None]
        if not unclosed:
            return None
    return unclosed[0]


def _find_blocks(lines: list[str], underlines: bool) -> Iterator[tuple[int, int | None]]:
    """Yields the first and last line of each block; the last is None if unclosed. Ignores delimiters inside blocks."""
    start = 0
    delimiter = ""
    for number, line in enumerate(lines):
        mark = DELIMITER_PATTERN.fullmatch(line)
        if mark is None:
            continue
        if delimiter:
            if _normalize_delimiter(mark[1]) == delimiter:
                yield start, number
                delimiter = ""
        elif not (underlines and number and _is_underline(mark[1], lines[number - 1].strip())):
            start = number
            delimiter = _normalize_delimiter(mark[1])
    if delimiter:
        yield start, None


def _is_underline(mark: str, title: str) -> bool:
    return bool(title) and mark[0] == "-" and abs(len(title) - len(mark)) <= 1


def _normalize_delimiter(mark: str) -> str:
    return "```" if mark.startswith("`") else mark


def _read_line(line: str, attributes: dict[str, str]) -> Iterator[Embed]:
    definition = ATTRIBUTE_DEFINITION_PATTERN.match(line)
    if definition:
        name = definition[1].strip("!").lower()
        value = _expand_attributes(definition[2].strip(), attributes)
        attributes[name] = value
        if ASSET_ATTRIBUTE_PATTERN.match(name) and (find_host(value) or "{" in value):
            yield Embed("style", value)
        yield from (Embed("link", url) for url in find_urls(value))
        return
    expanded = _expand_attributes(line, attributes)
    yield from _read_macros(expanded)
    yield from (Embed("link", url) for url in find_urls(expanded))
    if expanded != line and "<" in expanded:
        yield from find_in_html(expanded)


def _expand_attributes(text: str, attributes: dict[str, str]) -> str:
    """Replaces attribute references by their values. Returns the text unchanged if it would grow too much."""
    if "{" not in text:
        return text
    expanded = ATTRIBUTE_REFERENCE_PATTERN.sub(lambda use: attributes.get(use[1].lower(), use[0]), text)
    return expanded if len(expanded) <= max(2000, MAX_EXPANSION_FACTOR * len(text)) else text


def _read_macros(line: str) -> Iterator[Embed]:
    for run in MACRO_RUN_PATTERN.finditer(line):
        for count, name in enumerate(MACRO_NAME_PATTERN.finditer(run.group())):
            if count == MAX_MACRO_NAMES:
                yield Embed("image", shorten(run.group()))
                break
            target = run.group()[name.end() : -1]
            if name[1].lower() in LINK_MACROS:
                if runs_code(target):
                    yield Embed("script", shorten(target))
                break
            if runs_code(target):
                yield Embed("script", shorten(target))
            elif find_host(target):
                yield Embed("image", target)
            elif (
                name[1].lower() != "include"
                and (use := ATTRIBUTE_REFERENCE_PATTERN.match(target))
                and not BUILT_IN_ATTRIBUTE_PATTERN.match(use[1])
            ):
                yield Embed("image", use[0])
            if "::" in name.group():
                break
