"""Edits of lists: elements of JSON and JavaScript arrays, and items that take a line each in YAML, Markdown and RST."""

from typing import NamedTuple

from copydesk.jobs.pages.lines import Span, TextLine
from copydesk.jobs.pages.parsing.js_tokens import tokenize

Edit = tuple[int, int, str]


class Element(NamedTuple):
    """An element of an array, without the comma after it."""

    start: int
    end: int
    has_items: bool
    """True if the element is an object with an array in it, such as a group of pages."""


def find_element(text: str, position: int) -> Element | None:
    """Returns the innermost array element that contains a position; None if it is in no array."""
    stack: list[tuple[str, int, list[Span], int]] = []
    candidates: list[tuple[int, int, list[Span]]] = []
    closed: list[tuple[int, int, list[Span]]] = []
    item_start: int | None = None
    last_end = 0
    for start, end in tokenize(text):
        lexeme = text[start:end]
        if lexeme.startswith(("//", "/*")):
            continue
        if lexeme in ("[", "{"):
            if item_start is None:
                item_start = start
            stack.append((lexeme, start, [], item_start))
            item_start = None
        elif lexeme in ("]", "}") and stack:
            bracket, opened, spans, outer_start = stack.pop()
            if item_start is not None:
                spans.append((item_start, last_end))
            if bracket == "[":
                closed.append((opened, end, spans))
            item_start = outer_start
        elif lexeme == ",":
            if item_start is not None and stack:
                stack[-1][2].append((item_start, last_end))
            item_start = None
        elif item_start is None:
            item_start = start
        last_end = end
    for opened, end, spans in closed:
        if opened < position < end:
            candidates.append((end - opened, opened, spans))
    for _, _, spans in sorted(candidates):
        for start, end in spans:
            if start <= position < end:
                return Element(start, end, "[" in text[start:end])
    return None


def remove_element(text: str, element: Element) -> Edit:
    """Returns the edit that removes an element with one comma and, if it has its own lines, with these lines."""
    start, end = element.start, element.end
    rest = text[end:]
    comma = len(rest) - len(rest.lstrip(" \t\r\n"))
    if rest[comma : comma + 1] == ",":
        end += comma + 1
    else:
        before = text[:start].rstrip(" \t\r\n")
        if before.endswith(","):
            return len(before) - 1, end, ""
    line_start = text.rfind("\n", 0, start) + 1
    if not text[line_start:start].strip():
        line_end = text.find("\n", end)
        if line_end >= 0 and not text[end:line_end].strip():
            return line_start, line_end + 1, ""
    after = text[end:]
    return start, end + len(after) - len(after.lstrip(" \t")), ""


def insert_after_element(text: str, element: Element, value: str) -> Edit:
    """Returns the edit that adds an element after another: on a line of its own if the other one has one."""
    line_start = text.rfind("\n", 0, element.start) + 1
    indent = text[line_start : element.start]
    separator = f"\n{indent}" if not indent.strip() and line_start else " "
    return element.end, element.end, f",{separator}{value}"


def find_subtree_end(lines: list[TextLine], index: int) -> int:
    """Returns the index after a list item and everything that is indented deeper than it."""
    end = index + 1
    for number in range(index + 1, len(lines)):
        line = lines[number]
        if line.is_blank:
            continue
        if line.indent <= lines[index].indent:
            break
        end = number + 1
    return end


def remove_lines(lines: list[TextLine], first: int, end: int, body: str) -> Edit:
    """Returns the edit that removes these lines with their line breaks."""
    stop = lines[end].start if end < len(lines) else len(body)
    return lines[first].start, stop, ""


def insert_line(lines: list[TextLine], end: int, body: str, text: str) -> Edit:
    """Returns the edit that adds a line before the line with this index, in the file's line endings."""
    newline = "\r\n" if "\r\n" in body else "\n"
    if end < len(lines):
        return lines[end].start, lines[end].start, text + newline
    lead = "" if not body or body.endswith("\n") else newline
    return len(body), len(body), lead + text + newline
