"""What a page of AsciiDoc loads or runs, by a small parser of lines.

Only blocks that are certainly code are left out; backticks do not keep macros from working in AsciiDoc.
"""

import re
from collections.abc import Iterator

from copydesk.jobs.publish.guard.embeds.html import find_in_html
from copydesk.jobs.publish.guard.embeds.urls import Embed, find_host, find_urls, runs_code, shorten

DELIMITER = re.compile(r"(-{4,}|\.{4,}|/{4,}|`{3,}[\w,+-]*)[ \t]*")
CONDITION = re.compile(r"^\\?(?:ifdef|ifndef|ifeval|endif)::", re.M)
DEFINITION = re.compile(r":(!?[\w-]+!?):[ \t]*(.*)")
USE = re.compile(r"\{([\w-]{1,80})\}")
RUN = re.compile(r"(?<![^\s\[\]])[^\s\[\]]+\[")
"""Characters up to a bracket: a macro, with whatever stands right before it."""
NAME = re.compile(r"(?<![\w-])([A-Za-z_][\w-]{0,40})::?(?=.)")
LINKS = {"link", "xref", "mailto", "footnote", "http", "https", "ftp", "irc", "term", "indexterm"}
ASSETS = re.compile(
    r"(?:\w+dir|stylesheet|favicon|docinfo\w*|webfonts|\w*-?server-url|mathjax\w*|highlightjs\w*)\Z", re.I
)
BUILT_IN = re.compile(r"(?:\w*dir|docname|doctitle|page-[\w-]+|empty|sp|nbsp|site-url)\Z")
MAX_EXPANSION = 20
MAX_NAMES = 20
STARTS = ("[", ".", "+", "====", "****", "--")


def find_in_asciidoc(text: str) -> Iterator[Embed]:
    """Yields what the page refers to, with the line where it stands."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    code = frozenset[int]() if CONDITION.search(text) else _find_code(lines)
    values: dict[str, str] = {}
    for number, line in enumerate(lines):
        if number not in code:
            yield from (Embed(one.kind, one.url, number + 1) for one in _read_line(line, values))
    if (opened := _find_unclosed(lines)) is not None:
        yield Embed("script", "a block that is not closed", opened + 1)
    prose = "\n".join(" " if number in code else line for number, line in enumerate(lines))
    yield from find_in_html(prose)


def _find_code(lines: list[str]) -> frozenset[int]:
    """Returns the lines of listings and literal blocks that begin plainly and end with the mark they began with.

    A line of dashes below a short line may be the underline of a title or begin a listing. What is code must be code
    either way."""
    return _list_code(lines, underlines=True) & _list_code(lines, underlines=False)


def _list_code(lines: list[str], underlines: bool) -> frozenset[int]:
    code: set[int] = set()
    for start, end in _find_blocks(lines, underlines):
        before = lines[start - 1].strip() if start else ""
        if end is not None and (not before or before.startswith(STARTS)) and "subs" not in before:
            code.update(range(start, end + 1))
    return frozenset(code)


def _find_unclosed(lines: list[str]) -> int | None:
    """Returns the line of a block without an end: a page that includes this one would be misread."""
    for underlines in (True, False):
        opened = [start for start, end in _find_blocks(lines, underlines) if end is None]
        if not opened:
            return None
    return opened[0]


def _find_blocks(lines: list[str], underlines: bool) -> Iterator[tuple[int, int | None]]:
    """Yields the first and last line of each block; None for one that has no end. Marks within a block are its text."""
    start, opened = 0, ""
    for number, line in enumerate(lines):
        mark = DELIMITER.fullmatch(line)
        if mark is None:
            continue
        if opened:
            if _mark(mark[1]) == opened:
                yield start, number
                opened = ""
        elif not (underlines and number and _is_underline(mark[1], lines[number - 1].strip())):
            start, opened = number, _mark(mark[1])
    if opened:
        yield start, None


def _is_underline(mark: str, title: str) -> bool:
    return bool(title) and mark[0] == "-" and abs(len(title) - len(mark)) <= 1


def _mark(mark: str) -> str:
    return "```" if mark.startswith("`") else mark


def _read_line(line: str, values: dict[str, str]) -> Iterator[Embed]:
    definition = DEFINITION.match(line)
    if definition:
        name, value = definition[1].strip("!").lower(), _expand(definition[2].strip(), values)
        values[name] = value
        if ASSETS.match(name) and (find_host(value) or "{" in value):
            yield Embed("style", value)
        yield from (Embed("link", url) for url in find_urls(value))
        return
    expanded = _expand(line, values)
    yield from _read_macros(expanded)
    yield from (Embed("link", url) for url in find_urls(expanded))
    if expanded != line and "<" in expanded:
        yield from find_in_html(expanded)


def _expand(text: str, values: dict[str, str]) -> str:
    """Returns the text with the page's attributes in place; what grows beyond all measure stays as it is."""
    if "{" not in text:
        return text
    expanded = USE.sub(lambda use: values.get(use[1].lower(), use[0]), text)
    return expanded if len(expanded) <= max(2000, MAX_EXPANSION * len(text)) else text


def _read_macros(line: str) -> Iterator[Embed]:
    for run in RUN.finditer(line):
        for count, name in enumerate(NAME.finditer(run.group())):
            if count == MAX_NAMES:
                yield Embed("image", shorten(run.group()))
                break
            target = run.group()[name.end() : -1]
            if name[1].lower() in LINKS:
                if runs_code(target):
                    yield Embed("script", shorten(target))
                break
            if runs_code(target):
                yield Embed("script", shorten(target))
            elif find_host(target):
                yield Embed("image", target)
            elif name[1].lower() != "include" and (use := USE.match(target)) and not BUILT_IN.match(use[1]):
                yield Embed("image", use[0])
            if "::" in name.group():
                break
