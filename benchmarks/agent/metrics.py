"""Compares a result with the reference change: pure functions from three trees (path → bytes) to figures."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

import pygit2
from pygit2.enums import DiffOption

from copydesk.jobs.workspace.patches import common_prefix_length, count_changed_bytes
from copydesk.jobs.workspace.text_edits import BOM

Files = Mapping[str, bytes]
Hunk = tuple[int, int, int, int]
"""Old lines a to b (exclusive) became new lines c to d."""

NON_ASCII_PATTERN = re.compile(rb"[\x80-\xff?]+")
MAX_COMPARED_CELLS = 250_000


@dataclass(frozen=True)
class Score:
    """The result compared with the reference: the changes in both, in the result only, and in the reference only."""

    exact: bool
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    missed: tuple[str, ...]
    lines_right: int
    lines_beyond: int
    lines_missed: int
    bytes_damaged: int

    @property
    def precision(self) -> float:
        """Returns 1.0 for a result that changes no file: it changed no wrong file either."""
        return _ratio(len(self.right), len(self.right) + len(self.wrong))

    @property
    def recall(self) -> float:
        return _ratio(len(self.right), len(self.right) + len(self.missed))

    @property
    def f1(self) -> float:
        return _ratio(2 * len(self.right), 2 * len(self.right) + len(self.wrong) + len(self.missed))


def score_result(base: Files, result: Files, reference: Files) -> Score:
    """Scores a result. Files that are the same in all three trees may be left out of all three."""
    ours, theirs = find_changed_files(base, result), find_changed_files(base, reference)
    # Deleting a page that should have been edited is not a right change.
    alike = {path for path in ours & theirs if (path in result) == (path in reference)}
    right, beyond, missed, damage = 0, 0, 0, 0
    for path in ours | theirs:
        old, new, expected = base.get(path), result.get(path), reference.get(path)
        our_lines, expected_lines = _count_line_changes(old, new), _count_line_changes(old, expected)
        right += (our_lines & expected_lines).total()
        beyond += (our_lines - expected_lines).total()
        missed += (expected_lines - our_lines).total()
        damage += count_damaged_bytes(old, new, expected)
    return Score(
        exact=find_changed_files(result, reference) == set(),
        right=tuple(sorted(alike)),
        wrong=tuple(sorted(ours - alike)),
        missed=tuple(sorted(theirs - alike)),
        lines_right=right,
        lines_beyond=beyond,
        lines_missed=missed,
        bytes_damaged=damage,
    )


def find_changed_files(old: Files, new: Files) -> set[str]:
    return {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}


def count_damaged_bytes(base: bytes | None, result: bytes | None, reference: bytes | None) -> int:
    """Counts bytes that changed without changing meaning: line endings, white space, encoding, byte-order mark.

    A line counts if the reference did not change it, or if the reference wrote the same words in other bytes. Lines
    with different words do not count here: they are lines beyond the reference.
    """
    if result is None or result in (base, reference):
        return 0
    if any(b"\x00" in data for data in (base, result) if data):
        return count_changed_bytes(base, result) if base is not None and base == reference else 0
    lossy = not all(_is_utf8(data) for data in (base, result, reference) if data is not None)
    expected = [data.startswith(BOM) for data in (base, reference) if data is not None]
    marks = len(BOM) if expected and result.startswith(BOM) not in expected else 0
    old, new, reference_data = ((data or b"").removeprefix(BOM) for data in (base, result, reference))
    spoiled, count = _find_damage_in_base_lines(old, new, reference_data if reference is not None else old, lossy)
    return marks + count + _count_damage_in_reference_lines(old, new, reference_data, lossy, spoiled)


def _find_damage_in_base_lines(old: bytes, new: bytes, expected: bytes, lossy: bool) -> tuple[set[int], int]:
    """Finds lines that the reference left alone and that have the same words in other bytes.

    Returns them and their damage.
    """
    before, after = _split_lines(old), _split_lines(new)
    spans = [(a, b) for a, b, _, _ in _diff_hunks(before, _split_lines(expected))]
    removed = {line for a, b in spans for line in range(a, b)}
    hunks = _diff_hunks(
        [_without_whitespace(line, lossy) for line in before], [_without_whitespace(line, lossy) for line in after]
    )
    damaged_lines, count = set[int](), 0
    for i, j in _unchanged_line_pairs(hunks, len(before)):
        if before[i] != after[j] and i not in removed:
            damaged_lines.add(j)
            count += _count_differing_bytes(before[i], after[j])
    for a, b, c, d in hunks:  # joined lines, moved line breaks, blank lines
        removed_text, added_text = b"".join(before[a:b]), b"".join(after[c:d])
        beside_the_reference = any(start <= b and a <= end for start, end in spans)
        if (
            _without_whitespace(removed_text, lossy) == _without_whitespace(added_text, lossy)
            and not beside_the_reference
        ):
            damaged_lines.update(range(c, d))
            count += _count_differing_bytes(removed_text, added_text)
    return damaged_lines, count


def _count_damage_in_reference_lines(
    old: bytes, new: bytes, expected: bytes, lossy: bool, counted_lines: set[int]
) -> int:
    """Counts differing bytes of lines that result and reference both wrote, equal but for line ending or encoding."""
    before, after, expected_lines = _split_lines(old), _split_lines(new), _split_lines(expected)
    ours = {line for _, _, c, d in _diff_hunks(before, after) for line in range(c, d)} - counted_lines
    theirs = {line for _, _, c, d in _diff_hunks(before, expected_lines) for line in range(c, d)}
    hunks = _diff_hunks(
        [_without_line_ending(line, lossy) for line in expected_lines],
        [_without_line_ending(line, lossy) for line in after],
    )
    pairs = ((i, j) for i, j in _unchanged_line_pairs(hunks, len(expected_lines)) if i in theirs and j in ours)
    return sum(_count_differing_bytes(expected_lines[i], after[j]) for i, j in pairs)


def _count_line_changes(old: bytes | None, new: bytes | None) -> Counter[tuple[str, object]]:
    """Counts the lines of a diff: removed lines by their position in the base, added lines by their bytes."""
    if old == new:
        return Counter()
    before, after = _split_lines(old or b""), _split_lines(new or b"")
    changes = Counter[tuple[str, object]]()
    for a, b, c, d in _diff_hunks(before, after):
        changes.update(("removed", line) for line in range(a, b))
        changes.update(("added", line) for line in after[c:d])
    return changes


def _split_lines(data: bytes) -> list[bytes]:
    return [line for line in re.split(rb"(?<=\n)", data) if line]


def _diff_hunks(old: list[bytes], new: list[bytes]) -> list[Hunk]:
    """Compares with git's diff, which also handles very large files."""
    flag = DiffOption.FORCE_TEXT | DiffOption.MINIMAL
    patch = pygit2.Patch.create_from(_join_lines(old), _join_lines(new), context_lines=0, flag=flag)
    return [
        (a, a + hunk.old_lines, c, c + hunk.new_lines)
        for hunk in patch.hunks
        for a, c in [(hunk.old_start - bool(hunk.old_lines), hunk.new_start - bool(hunk.new_lines))]
    ]


def _join_lines(lines: list[bytes]) -> bytes:
    """Joins lines for git's diff. Marks a line without a newline, so that it differs from the same line with one."""
    return b"".join(line if line.endswith(b"\n") else line + b"\x00\n" for line in lines)


def _unchanged_line_pairs(hunks: list[Hunk], length: int) -> Iterator[tuple[int, int]]:
    """Yields the positions (old, new) of the lines between the hunks."""
    at, shift = 0, 0
    for a, b, _, d in [*hunks, (length, length, 0, 0)]:
        yield from ((line, line + shift) for line in range(at, a))
        at, shift = b, d - b


def _without_whitespace(line: bytes, lossy: bool) -> bytes:
    return _without_non_ascii(b"".join(line.split()), lossy)


def _without_line_ending(line: bytes, lossy: bool) -> bytes:
    return _without_non_ascii(line.rstrip(b"\r\n"), lossy)


def _without_non_ascii(line: bytes, lossy: bool) -> bytes:
    """Replaces non-ASCII characters with ? in lossy comparisons: a wrong decoding garbles exactly these characters."""
    return NON_ASCII_PATTERN.sub(b"?", line) if lossy else line


def _count_differing_bytes(old: bytes, new: bytes) -> int:
    """Counts the bytes that differ between two spellings of the same line."""
    head = common_prefix_length(old, new)
    tail = common_prefix_length(old[head:][::-1], new[head:][::-1])
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old or not new or len(old) * len(new) > MAX_COMPARED_CELLS:
        return max(len(old), len(new))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _ratio(part: int, total: int) -> float:
    return part / total if total else 1.0
