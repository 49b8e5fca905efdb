"""Parses the unified diff of a file for display, unified or side by side. Parsing keeps every character."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from copydesk.jobs.workspace.bounded_matcher import BoundedMatcher

HUNK_HEADER_PATTERN = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: .*)?", re.DOTALL)
WORD_PATTERN = re.compile(r"\s*(?:\w+|[^\w\s]+)|\s+")
MAX_WORD_MATCHES = 1_500
"""The limit of pairs of equal words in two lines. The time to compare the lines grows with their number."""
MAX_STEPS_PER_LINE = 100_000
MIN_SIMILARITY = 0.4
"""Lines that are less similar than this count as rewritten, and no words in them are marked."""

LinePieces = tuple[tuple[str, bool], ...]
"""The text of a line in parts, each with whether it differs from the line on the other side."""


@dataclass(frozen=True)
class DiffLine:
    sign: str
    """`+`, `-`, a space, or an empty string: some programs omit the space of an empty line."""
    pieces: LinePieces
    old: int | None
    new: int | None
    note: str = ""
    """The line `\\ No newline at end of file` that follows this line, or an empty string."""

    @property
    def text(self) -> str:
        return "".join(part for part, _ in self.pieces)

    @property
    def kind(self) -> str:
        return {"+": "added", "-": "removed"}.get(self.sign, "same")


LinePair = tuple[DiffLine | None, DiffLine | None]


@dataclass(frozen=True)
class Hunk:
    opening: str
    lines: tuple[DiffLine, ...]

    @property
    def line_ranges(self) -> tuple[int, int, int, int]:
        """The first line and the number of lines in the old file, then the same for the new file."""
        match = HUNK_HEADER_PATTERN.fullmatch(self.opening)
        assert match is not None
        old_start, old_count, new_start, new_count = (1 if part is None else int(part) for part in match.groups())
        return old_start, old_count, new_start, new_count

    @property
    def pairs(self) -> list[LinePair]:
        """The lines side by side. A removed line is paired with the line that was added in its place."""
        line_pairs: list[LinePair] = []
        for is_same, group in groupby(self.lines, lambda line: line.kind == "same"):
            lines = list(group)
            if is_same:
                line_pairs += [(line, line) for line in lines]
            else:
                removed = [line for line in lines if line.sign == "-"]
                line_pairs += zip_longest(removed, [line for line in lines if line.sign == "+"])
        return line_pairs


@dataclass(frozen=True)
class Gap:
    """Unchanged lines that the diff leaves out. `lines` is empty if the old file is unavailable."""

    count: int
    lines: tuple[DiffLine, ...] = ()

    @property
    def pairs(self) -> list[LinePair]:
        return [(line, line) for line in self.lines]


@dataclass(frozen=True)
class Patch:
    """The parsed diff of one file."""

    header_lines: tuple[str, ...]
    hunks: tuple[Hunk, ...]
    trailing_lines: tuple[str, ...] = ()
    """Lines after the last hunk that are not part of a unified diff."""

    @property
    def is_binary(self) -> bool:
        return any(line.startswith(("Binary files ", "GIT binary patch")) for line in self.header_lines)

    @property
    def old_blob(self) -> str | None:
        """The abbreviated id of the old file's git blob, or None for a new file."""
        index_line = next((line for line in self.header_lines if line.startswith("index ")), "")
        match = re.match(r"index ([0-9a-f]{4,64})\.\.", index_line)
        return match[1] if match and match[1].strip("0") else None

    def to_text(self) -> str:
        """Returns the diff exactly as it was parsed."""
        return "\n".join(
            [*self.header_lines, *(line for hunk in self.hunks for line in _format_hunk(hunk)), *self.trailing_lines]
        )

    def build_blocks(self, old_text: str | None = None) -> list[Hunk | Gap]:
        """Returns the hunks and the gaps between them. Fills the gaps if the old text is given and fits the hunks."""
        old_lines = old_text.removesuffix("\n").split("\n") if old_text else None
        if old_lines is not None and not all(_matches_old_file(hunk, old_lines) for hunk in self.hunks):
            old_lines = None
        blocks: list[Hunk | Gap] = []
        old_line = 1
        new_line = 1
        for hunk in self.hunks:
            old_start, old_count, new_start, new_count = hunk.line_ranges
            first = old_start + (old_count == 0)  # a hunk that only adds lines gives the line before it
            if first > old_line:
                blocks.append(_build_gap(old_lines, old_line, first, new_line))
            blocks.append(hunk)
            old_line = first + old_count
            new_line = new_start + (new_count == 0) + new_count
        if old_lines is not None and self.hunks and old_line <= len(old_lines):
            blocks.append(_build_gap(old_lines, old_line, len(old_lines) + 1, new_line))
        return blocks


def parse_patch(text: str) -> Patch:
    """Parses any text. Lines that are not part of a diff become header or trailing lines."""
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if HUNK_HEADER_PATTERN.fullmatch(line)), len(lines))
    hunks: list[Hunk] = []
    position = start
    while position < len(lines) and HUNK_HEADER_PATTERN.fullmatch(lines[position]):
        hunk = _parse_hunk(lines[position], (lines[number] for number in range(position + 1, len(lines))))
        position += 1 + sum(1 + bool(line.note) for line in hunk.lines)
        hunks.append(hunk)
    return Patch(tuple(lines[:start]), tuple(hunks), tuple(lines[position:]))


def _parse_hunk(header: str, following_lines: Iterable[str]) -> Hunk:
    """Reads as many lines as the header counts, so that a line of the file may look like a diff header."""
    old, old_left, new, new_left = Hunk(header, ()).line_ranges
    lines: list[DiffLine] = []
    for text in following_lines:
        sign = text[:1]
        if sign == "\\" and lines and not lines[-1].note:
            lines[-1] = replace(lines[-1], note=text)
            continue
        takes_old = sign in ("", " ", "-")
        takes_new = sign in ("", " ", "+")
        if takes_old > old_left or takes_new > new_left or not (takes_old or takes_new):
            break
        lines.append(DiffLine(sign, ((text[1:], False),), old if takes_old else None, new if takes_new else None))
        old += takes_old
        new += takes_new
        old_left -= takes_old
        new_left -= takes_new
    return Hunk(header, tuple(_mark_changed_words(Hunk(header, tuple(lines)))))


def _mark_changed_words(hunk: Hunk) -> Iterator[DiffLine]:
    """Yields the lines of the hunk with the changed words marked."""
    marks: dict[DiffLine, LinePieces] = {}
    for before, after in hunk.pairs:
        if before and after and before is not after:
            marks[before], marks[after] = mark_word_differences(before.text, after.text)
    return (replace(line, pieces=marks.get(line, line.pieces)) for line in hunk.lines)


def mark_word_differences(old: str, new: str) -> tuple[LinePieces, LinePieces]:
    before = WORD_PATTERN.findall(old)
    after = WORD_PATTERN.findall(new)
    unmarked: tuple[LinePieces, LinePieces] = ((old, False),), ((new, False),)
    counts = Counter(after)
    if sum(counts[word] for word in before) > MAX_WORD_MATCHES:
        return unmarked
    matcher = BoundedMatcher(before, after, MAX_STEPS_PER_LINE)
    if matcher.ratio() < MIN_SIMILARITY:
        return unmarked
    sides: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = [], []
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        texts = "".join(before[old_start:old_end]), "".join(after[new_start:new_end])
        indents = {text[: len(text) - len(text.lstrip())] for text in texts}
        indent_length = (
            len(indents.pop()) if tag == "replace" and len(indents) == 1 else 0
        )  # the same leading whitespace is not marked
        for side, text in zip(sides, texts, strict=True):
            side += [(text[:indent_length], False)] if indent_length else []
            side += [(text[indent_length:], tag != "equal")] if text[indent_length:] else []
    return tuple(sides[0]), tuple(sides[1])


def _format_hunk(hunk: Hunk) -> Iterator[str]:
    yield hunk.opening
    for line in hunk.lines:
        yield line.sign + line.text
        if line.note:
            yield line.note


def _matches_old_file(hunk: Hunk, old_lines: Sequence[str]) -> bool:
    old_side = [line for line in hunk.lines if line.old is not None]
    return all(line.old and line.old <= len(old_lines) and old_lines[line.old - 1] == line.text for line in old_side)


def _build_gap(old_lines: Sequence[str] | None, first: int, end: int, new_first: int) -> Gap:
    texts = old_lines[first - 1 : end - 1] if old_lines is not None else ()
    lines = (DiffLine(" ", ((text, False),), first + n, new_first + n) for n, text in enumerate(texts))
    return Gap(end - first, tuple(lines))
