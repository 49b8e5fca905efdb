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

BEYOND_ASCII = re.compile(rb"[\x80-\xff?]+")
MOST_COMPARED = 250_000


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
        return _share(len(self.right), len(self.right) + len(self.wrong))

    @property
    def recall(self) -> float:
        return _share(len(self.right), len(self.right) + len(self.missed))

    @property
    def f1(self) -> float:
        return _share(2 * len(self.right), 2 * len(self.right) + len(self.wrong) + len(self.missed))


def score(base: Files, result: Files, reference: Files) -> Score:
    """Scores a result. Files that are the same in all three trees may be left out of all three."""
    ours, theirs = touched(base, result), touched(base, reference)
    # Deleting a page that should have been edited is not a right change.
    alike = {path for path in ours & theirs if (path in result) == (path in reference)}
    right, beyond, missed, damage = 0, 0, 0, 0
    for path in ours | theirs:
        old, new, meant = base.get(path), result.get(path), reference.get(path)
        mine, wanted = _line_changes(old, new), _line_changes(old, meant)
        right += (mine & wanted).total()
        beyond += (mine - wanted).total()
        missed += (wanted - mine).total()
        damage += damaged(old, new, meant)
    return Score(
        exact=touched(result, reference) == set(),
        right=tuple(sorted(alike)),
        wrong=tuple(sorted(ours - alike)),
        missed=tuple(sorted(theirs - alike)),
        lines_right=right,
        lines_beyond=beyond,
        lines_missed=missed,
        bytes_damaged=damage,
    )


def touched(old: Files, new: Files) -> set[str]:
    return {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}


def damaged(base: bytes | None, result: bytes | None, reference: bytes | None) -> int:
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
    old, new, meant = ((data or b"").removeprefix(BOM) for data in (base, result, reference))
    spoiled, count = _spoiled_of_base(old, new, meant if reference is not None else old, lossy)
    return marks + count + _spoiled_of_reference(old, new, meant, lossy, spoiled)


def _spoiled_of_base(old: bytes, new: bytes, meant: bytes, lossy: bool) -> tuple[set[int], int]:
    """Finds lines that the reference left alone and that have the same words in other bytes.

    Returns them and their damage.
    """
    before, after = _lines(old), _lines(new)
    spans = [(a, b) for a, b, _, _ in _hunks(before, _lines(meant))]
    removed = {line for a, b in spans for line in range(a, b)}
    hunks = _hunks([_spaceless(line, lossy) for line in before], [_spaceless(line, lossy) for line in after])
    found, count = set[int](), 0
    for i, j in _kept(hunks, len(before)):
        if before[i] != after[j] and i not in removed:
            found.add(j)
            count += _distance(before[i], after[j])
    for a, b, c, d in hunks:  # joined lines, moved line breaks, blank lines
        gone, come = b"".join(before[a:b]), b"".join(after[c:d])
        beside_the_reference = any(start <= b and a <= end for start, end in spans)
        if _spaceless(gone, lossy) == _spaceless(come, lossy) and not beside_the_reference:
            found.update(range(c, d))
            count += _distance(gone, come)
    return found, count


def _spoiled_of_reference(old: bytes, new: bytes, meant: bytes, lossy: bool, known: set[int]) -> int:
    """Counts differing bytes of lines that result and reference both wrote, equal but for line ending or encoding."""
    before, after, wanted = _lines(old), _lines(new), _lines(meant)
    ours = {line for _, _, c, d in _hunks(before, after) for line in range(c, d)} - known
    theirs = {line for _, _, c, d in _hunks(before, wanted) for line in range(c, d)}
    hunks = _hunks([_bare(line, lossy) for line in wanted], [_bare(line, lossy) for line in after])
    pairs = ((i, j) for i, j in _kept(hunks, len(wanted)) if i in theirs and j in ours)
    return sum(_distance(wanted[i], after[j]) for i, j in pairs)


def _line_changes(old: bytes | None, new: bytes | None) -> Counter[tuple[str, object]]:
    """Counts the lines of a diff: removed lines by their position in the base, added lines by their bytes."""
    if old == new:
        return Counter()
    before, after = _lines(old or b""), _lines(new or b"")
    changes = Counter[tuple[str, object]]()
    for a, b, c, d in _hunks(before, after):
        changes.update(("removed", line) for line in range(a, b))
        changes.update(("added", line) for line in after[c:d])
    return changes


def _lines(data: bytes) -> list[bytes]:
    return [line for line in re.split(rb"(?<=\n)", data) if line]


def _hunks(old: list[bytes], new: list[bytes]) -> list[Hunk]:
    """Compares with git's diff, which also handles very large files."""
    flag = DiffOption.FORCE_TEXT | DiffOption.MINIMAL
    patch = pygit2.Patch.create_from(_joined(old), _joined(new), context_lines=0, flag=flag)
    return [
        (a, a + hunk.old_lines, c, c + hunk.new_lines)
        for hunk in patch.hunks
        for a, c in [(hunk.old_start - bool(hunk.old_lines), hunk.new_start - bool(hunk.new_lines))]
    ]


def _joined(lines: list[bytes]) -> bytes:
    """Joins lines for git's diff. Marks a line without a newline, so that it differs from the same line with one."""
    return b"".join(line if line.endswith(b"\n") else line + b"\x00\n" for line in lines)


def _kept(hunks: list[Hunk], length: int) -> Iterator[tuple[int, int]]:
    """Yields the positions (old, new) of the lines between the hunks."""
    at, shift = 0, 0
    for a, b, _, d in [*hunks, (length, length, 0, 0)]:
        yield from ((line, line + shift) for line in range(at, a))
        at, shift = b, d - b


def _spaceless(line: bytes, lossy: bool) -> bytes:
    return _unread(b"".join(line.split()), lossy)


def _bare(line: bytes, lossy: bool) -> bytes:
    return _unread(line.rstrip(b"\r\n"), lossy)


def _unread(line: bytes, lossy: bool) -> bytes:
    """Replaces non-ASCII characters with ? in lossy comparisons: a wrong decoding garbles exactly these characters."""
    return BEYOND_ASCII.sub(b"?", line) if lossy else line


def _distance(old: bytes, new: bytes) -> int:
    """Counts the bytes that differ between two spellings of the same line."""
    head = common_prefix_length(old, new)
    tail = common_prefix_length(old[head:][::-1], new[head:][::-1])
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old or not new or len(old) * len(new) > MOST_COMPARED:
        return max(len(old), len(new))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
