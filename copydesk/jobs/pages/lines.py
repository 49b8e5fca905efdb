"""A body as lines that know where they begin. Only \\n ends a line; a lone \\r or a form feed is part of it."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

VISIBLE = re.compile(r"[^\r\n]")
Span = tuple[int, int]


class Line(NamedTuple):
    number: int
    start: int
    text: str
    """Without its ending."""
    ending: str

    @property
    def end(self) -> int:
        """Where the text ends and the ending begins."""
        return self.start + len(self.text)

    @property
    def stop(self) -> int:
        return self.end + len(self.ending)

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip(" \t"))


def lines_of(body: str) -> list[Line]:
    return list(lines_from(body, 0))


def lines_from(body: str, start: int) -> Iterator[Line]:
    """The lines from a position on, of which the first is number 1."""
    number = 1
    while start < len(body):
        newline = body.find("\n", start)
        stop = len(body) if newline < 0 else newline + 1
        end = stop if newline < 0 else newline - (newline > start and body[newline - 1] == "\r")
        yield Line(number, start, body[start:end], body[end:stop])
        start, number = stop, number + 1


def line_at(lines: list[Line], position: int) -> Line:
    return lines[bisect_right(lines, position, key=lambda line: line.start) - 1]


def blank(text: str) -> str:
    """Spaces for all but line endings."""
    if "\r" in text:
        return VISIBLE.sub(" ", text)
    return "\n".join([" " * len(line) for line in text.split("\n")])


def blanked(body: str, spans: list[Span]) -> str:
    """The same length and the same lines, with spaces where the spans were."""
    pieces, position = [], 0
    for start, end in sorted(spans):
        start = max(start, position)
        if end > start:
            pieces += [body[position:start], blank(body[start:end])]
            position = end
    return "".join(pieces) + body[position:]


def spliced(body: str, edits: list[tuple[int, int, str]]) -> str:
    """Each span replaced by its text; spans do not overlap."""
    pieces, position = [], 0
    for start, end, new in sorted(edits):
        pieces += [body[position:start], new]
        position = end
    return "".join(pieces) + body[position:]
