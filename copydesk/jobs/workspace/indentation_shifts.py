"""Finds lines that moved into a new block, or out of one: they are indented by the same amount, below an opening line.

Lines that are put into a component, a group, a tab, a list item or a quotation change their indentation and nothing
else. That is not reformatting if the line that opens the block was added (or removed, when lines leave a block).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from copydesk.jobs.workspace.text_edits import diff_lines

INDENT_CHARS = " \t>"


class ShiftedLines(NamedTuple):
    """Numbers of the lines (0-based) that moved into or out of a block."""

    old: set[int]
    new: set[int]


class _Run(NamedTuple):
    """Consecutive lines that are indented by the same amount."""

    old: range
    new: range
    shift: int

    def inner_lines(self, old: Sequence[str], new: Sequence[str]) -> tuple[Sequence[str], range]:
        """Returns the text in which the lines are inside the block, and their numbers there."""
        return (new, self.new) if self.shift > 0 else (old, self.old)


class _Block(NamedTuple):
    """A block with the latest of its runs, and the indentation of the line that opens it."""

    latest: _Run
    opening_indent: int

    def contains(self, run: _Run, old: Sequence[str], new: Sequence[str]) -> bool:
        """Returns whether a later run belongs to the same block, perhaps with edited lines in between."""
        lines, numbers = run.inner_lines(old, new)
        _, latest_numbers = self.latest.inner_lines(old, new)
        return run.shift == self.latest.shift and all(
            indent_width(lines[number]) > self.opening_indent
            for number in range(latest_numbers.stop, numbers.stop)
            if lines[number].strip()
        )


def find_shifted_lines(old: Sequence[str], new: Sequence[str]) -> ShiftedLines:
    """Returns the lines that only moved into or out of a block whose opening line was added or removed."""
    shifted = ShiftedLines(set(), set())
    old_keys = [line.strip(INDENT_CHARS + "\r\n") for line in old]
    new_keys = [line.strip(INDENT_CHARS + "\r\n") for line in new]
    hunks = list(diff_lines(old_keys, new_keys))
    unpaired_old = {number for hunk in hunks if not hunk.is_equal for number in hunk.old}
    unpaired_new = {number for hunk in hunks if not hunk.is_equal for number in hunk.new}
    block: _Block | None = None
    for run in _find_runs(old, new, [(hunk.old, hunk.new) for hunk in hunks if hunk.is_equal]):
        opening = _find_opening(run, old, new, unpaired_old, unpaired_new)
        if opening is None and block is not None and block.contains(run, old, new):
            opening = block.opening_indent
        block = None if opening is None else _Block(run, opening)
        if block is None:
            continue
        shifted.old.update(run.old)
        shifted.new.update(run.new)
    return shifted


def _find_runs(old: Sequence[str], new: Sequence[str], pairs: Sequence[tuple[range, range]]) -> Iterator[_Run]:
    """Yields the runs of lines with the same text and another indentation. Blank lines belong to any run."""
    for old_numbers, new_numbers in pairs:
        start = 0
        shift = 0
        for offset, (one, two) in enumerate(zip(old_numbers, new_numbers, strict=True)):
            if not old[one].strip():
                continue
            line_shift = indent_width(new[two]) - indent_width(old[one])
            if line_shift != shift:
                if shift:
                    yield _Run(old_numbers[start:offset], new_numbers[start:offset], shift)
                start, shift = offset, line_shift
        if shift:
            yield _Run(old_numbers[start:], new_numbers[start:], shift)


def _find_opening(
    run: _Run, old: Sequence[str], new: Sequence[str], unpaired_old: set[int], unpaired_new: set[int]
) -> int | None:
    """Returns the indentation of the line that opens or opened the block of these lines, or None if there is none."""
    lines, numbers = run.inner_lines(old, new)
    unpaired = unpaired_new if run.shift > 0 else unpaired_old
    first = next(number for number in numbers if lines[number].strip())
    before = next((number for number in range(first - 1, -1, -1) if lines[number].strip(INDENT_CHARS + "\r\n")), None)
    if before is None or before not in unpaired:
        return None
    indent = indent_width(lines[before])
    is_quotation = ">" in _indent(lines[first]) and ">" in _indent(lines[before])
    return indent if indent < indent_width(lines[first]) or is_quotation else None


def indent_width(line: str) -> int:
    return len(_indent(line))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(INDENT_CHARS))]
