"""Lines of a text with their positions. Only \\n ends a line; a lone \\r or a form feed is part of the line."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

NON_NEWLINE_PATTERN = re.compile(r"[^\r\n]")
Span = tuple[int, int]


class TextLine(NamedTuple):
    number: int
    start: int
    text: str
    """Text without the line ending."""
    ending: str

    @property
    def end(self) -> int:
        """Returns the position where the text ends and the line ending starts."""
        return self.start + len(self.text)

    @property
    def next_start(self) -> int:
        return self.end + len(self.ending)

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip(" \t"))


def split_lines(body: str) -> list[TextLine]:
    return list(iter_lines(body, 0))


def iter_lines(body: str, start: int) -> Iterator[TextLine]:
    """Yields the lines from a position on. The first one has number 1."""
    number = 1
    while start < len(body):
        newline = body.find("\n", start)
        next_start = len(body) if newline < 0 else newline + 1
        end = next_start if newline < 0 else newline - (newline > start and body[newline - 1] == "\r")
        yield TextLine(number, start, body[start:end], body[end:next_start])
        start = next_start
        number += 1


def line_at(lines: list[TextLine], position: int) -> TextLine:
    return lines[bisect_right(lines, position, key=lambda line: line.start) - 1]


def mask_text(text: str) -> str:
    """Replaces all characters except line endings with spaces."""
    if "\r" in text:
        return NON_NEWLINE_PATTERN.sub(" ", text)
    return "\n".join([" " * len(line) for line in text.split("\n")])


def mask_spans(body: str, spans: list[Span]) -> str:
    """Replaces the spans with spaces. Length and lines stay the same."""
    pieces = []
    position = 0
    for start, end in sorted(spans):
        start = max(start, position)
        if end > start:
            pieces += [body[position:start], mask_text(body[start:end])]
            position = end
    return "".join(pieces) + body[position:]


def apply_edits(body: str, edits: list[tuple[int, int, str]]) -> str:
    """Replaces each span with its text. Spans must not overlap."""
    pieces = []
    position = 0
    for start, end, replacement in sorted(edits):
        pieces += [body[position:start], replacement]
        position = end
    return "".join(pieces) + body[position:]
