"""Finds directives, whose arguments and options programs read, and the underlines of reStructuredText titles."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from unicodedata import east_asian_width

from copydesk.jobs.pages.lines import Span, TextLine, apply_edits, iter_lines, split_lines
from copydesk.jobs.pages.page_types import extension

RST_DIRECTIVE_PATTERN = re.compile(r"(?P<indent>[ \t]*)\.\. (?:\|[^|\n]+\|[ ])?(?P<name>[\w:.+-]+)::")
OPTION_PATTERN = re.compile(r"[ \t]+:(?P<name>[\w -]+):(?=\s|$)")
FIELD_PATTERN = re.compile(r"[ \t]*:[\w][^:\n]*:(?=\s|$)")
RST_NAME_PATTERN = re.compile(r"`[^`<>\n]+`_{0,2}|\|[^|\s][^|\n]*\|_{0,2}")
VERSION_PATTERN = re.compile(r"\s*\S+")
MARKDOWN_BLOCK_PATTERN = re.compile(r"^[ \t]*(?:(?:!!!|\?\?\?\+?)\s*\w+|:{3,}\s*(?P<name>\w[\w.]*))", re.M)
MYST_LABEL_PATTERN = re.compile(r"^[ \t]*\([^()\n]+\)=[ \t]*$", re.M)
UNDERLINE_PATTERN = re.compile(r"([!-/:-@\[-`{-~])\1+")
# Directives whose argument is a sentence or a title that people read.
TEXT_DIRECTIVES = {
    *("admonition", "attention", "caution", "danger", "error", "hint", "important", "note", "seealso", "tip", "todo"),
    *("warning", "topic", "sidebar", "rubric", "centered", "glossary", "epigraph", "highlights", "pull-quote"),
    *("list-table", "table", "csv-table", "card", "dropdown", "tab-item", "grid-item-card"),
}
VERSION_DIRECTIVES = {"versionadded", "versionchanged", "deprecated", "versionremoved"}
"""Directives whose argument is a version, followed by text."""
TEXT_OPTIONS = ("alt", "caption", "title")
CONTAINERS = {
    *("tip", "info", "warning", "danger", "details", "note", "caution", "important", "success", "secondary", "error"),
    *("question", "abstract", "example", "quote", "bug", "failure", "hint", "code", "raw", "v", "tabs", "tab", "card"),
}
"""Names of containers in Markdown, `::: tip Title`. Any other name is an identifier, `::: package.module`."""


def find_directive_spans(path: str, prose: str) -> list[Span]:
    """Returns the parts of directives that programs read. `prose` is the page's text without code."""
    if extension(path) != ".rst":
        return list(_find_markdown_spans(prose))
    names = (match.span() for match in RST_NAME_PATTERN.finditer(prose))
    return [*_find_rst_spans(split_lines(prose)), *names]


def _find_markdown_spans(prose: str) -> Iterator[Span]:
    """Yields the marks of admonitions and containers, labels, and lines that insert the documentation of a name."""
    for match in MARKDOWN_BLOCK_PATTERN.finditer(prose):
        name = match["name"]
        end = match.end()
        if name is not None and name.lower() not in CONTAINERS:
            end = _find_block_end(prose, match.start())
        yield match.start(), end
    yield from (match.span() for match in re.finditer(r"^[ \t]*:[\w-]+:", prose, re.M))
    yield from (match.span() for match in MYST_LABEL_PATTERN.finditer(prose))


def _find_block_end(prose: str, start: int) -> int:
    """Returns where a block ends that consists of a line and the options below it, which are indented."""
    block = iter_lines(prose, start)
    first = next(block)
    end = first.end
    for line in block:
        if line.is_blank or line.indent <= first.indent:
            break
        end = line.end
    return end


def _find_rst_spans(lines: list[TextLine]) -> Iterator[Span]:
    in_options = False
    for line in lines:
        directive = RST_DIRECTIVE_PATTERN.match(line.text)
        option = OPTION_PATTERN.match(line.text) if in_options else None
        field = FIELD_PATTERN.match(line.text)
        if directive:
            yield line.start, line.start + _find_argument_end(line, directive)
            in_options = True
        elif option:
            is_text = option["name"].strip() in TEXT_OPTIONS
            yield line.start, line.start + option.end() if is_text else line.end
        else:
            in_options = in_options and not line.is_blank and line.indent > 0
            if field:
                yield line.start, line.start + field.end()


def _find_argument_end(line: TextLine, directive: re.Match[str]) -> int:
    """Returns where the part of a directive's line ends that programs read: its end, unless the argument is text."""
    name = directive["name"].lower()
    if name in TEXT_DIRECTIVES:
        return directive.end()
    if name in VERSION_DIRECTIVES:
        version = VERSION_PATTERN.match(line.text, directive.end())
        return version.end() if version else directive.end()
    return len(line.text)


def find_underline_edits(body: str, edits: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Returns the edits of the lines under and over the titles that `edits` change, so that they are as long.

    A line that was longer than its title before stays as it is, unless the title outgrows it.
    """
    lines = split_lines(body)
    edits_by_line: dict[int, list[tuple[int, int, str]]] = {}
    starts = [line.start for line in lines]
    for start, end, new in edits:
        number = bisect_right(starts, start) - 1
        edits_by_line.setdefault(number, []).append((start, end, new))
    result = []
    for number, line_edits in edits_by_line.items():
        line = lines[number]
        shifted = [(start - line.start, min(end, line.end) - line.start, new) for start, end, new in line_edits]
        new_text = apply_edits(line.text, shifted)
        for adornment in _find_adornments(lines, number):
            length = _fit_length(len(adornment.text.rstrip()), _measure_width(line.text), _measure_width(new_text))
            result.append((adornment.start, adornment.end, adornment.text[0] * length))
    return [edit for edit in result if body[edit[0] : edit[1]] != edit[2]]


def _find_adornments(lines: list[TextLine], number: int) -> list[TextLine]:
    """Returns the line under a title, and the line over it if there is one; nothing if the line is no title."""
    under = lines[number + 1] if number + 1 < len(lines) else None
    if under is None or not UNDERLINE_PATTERN.fullmatch(under.text.rstrip()) or lines[number].is_blank:
        return []
    over = lines[number - 1] if number else None
    if over is not None and over.text.rstrip() == under.text.rstrip():
        return [over, under]
    is_title = over is None or over.is_blank
    return [under] if is_title and lines[number].indent == 0 else []


def _fit_length(length: int, old_width: int, new_width: int) -> int:
    return new_width if length == old_width else max(length, new_width)


def _measure_width(text: str) -> int:
    """Returns the columns of a title, as docutils counts them."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text.rstrip())
