"""The diff is what was asked for: lines that change in form alone are refused, and pages are not rewritten unasked."""

import re
from collections.abc import Iterator
from functools import cached_property

from copydesk.core.text.normal_forms import normalize
from copydesk.jobs.workspace.bounded_matcher import MAX_STEPS, BoundedMatcher
from copydesk.jobs.workspace.text_edits import Text, is_text, lines_with_endings, same_and_changed

FEW_LINES = 5
"""An edit of so few lines is meant as it is."""
LONG_ENOUGH = 12
REPLACED = 0.6
"""A page of at least so many lines is rewritten when so much of its old and of its new words are not in the other."""
MOST_COMPARED = 1_000_000
INDENT = " \t>"

STYLES = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "_": "*", "\u00a0": " "}
)
BULLET = re.compile(r"^(\s*(?:>\s*)*)(?:[*+-]|(\d+)[.)])(?=\s)")
RULED = re.compile(r"[-=:]{2,}")
FENCE = re.compile(r"`{3,}|~{3,}")
BLOCK_STARTS = re.compile(r"\s*(?:[*+-]\s|\d+[.)]\s|#{1,6}\s|`{3}|~{3}|<|>)")


def overreach(old: bytes, new: bytes, *, whole: bool = False) -> str | None:
    """Why a file's new bytes go too far, with advice, or None. `whole` says that it is really to be written anew."""
    if not (is_text(old) and is_text(new)):
        return None
    before, after = Text.of(old), Text.of(new)
    if before.bom != after.bom:
        return "The change would add or drop the file's byte-order mark; leave it as it is."
    comparison = Comparison.of(before.body, after.body)
    if not (whole and comparison.meant > len(comparison.formal)) and (refusal := _reformats(comparison)):
        return refusal
    return None if whole else _rewrites(comparison)


def reformats(old: str, new: str) -> str | None:
    """Why a piece of text, as read shows it, may not become the other: too much of it changes in form alone."""
    return _reformats(Comparison.of(old.replace("\r\n", "\n"), new.replace("\r\n", "\n")))


def is_long(piece: str) -> bool:
    """Whether replacing it may amount to a rewrite."""
    return piece.count("\n") + 1 >= LONG_ENOUGH


def rewrites(old: bytes, new: bytes) -> str | None:
    """Why a file may not be edited so, when little of what it says is left."""
    return _rewrites(Comparison.of(Text.of(old).body, Text.of(new).body))


def _reformats(comparison: "Comparison") -> str | None:
    formal = comparison.formal
    if comparison.touched <= FEW_LINES or not formal:
        return None
    which = "a line" if len(formal) == 1 else f"{len(formal)} lines"
    return (
        f"The change touches {which} in form alone (spaces, wrapping, quotes, bullets, line endings or the like): "
        f"{comparison.old.shown(formal[0])!r}, for one. Leave those as they are, and edit only what changes in meaning."
    )


def _rewrites(comparison: "Comparison") -> str | None:
    if len(comparison.old.lines) < LONG_ENOUGH or not comparison.is_rewrite:
        return None
    return (
        "The change replaces most of what the page says. Edit only what the task asks for; "
        "if the whole page is to be written anew, use write with 'whole' set to true."
    )


def normal(line: str) -> list[str]:
    """The words of a line, alike for all ways to write the same."""
    line = normalize("NFC", line).translate(STYLES).replace("…", "...")
    line = BULLET.sub(lambda mark: f"{mark[1]}{f'{mark[2]}.' if mark[2] else '-'}", line)
    return FENCE.sub("```", RULED.sub("--", line.replace("|", " | "))).split()


class Side:
    """The lines before or after; what they say is looked at only where they changed."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.meant: set[int] = set()
        self._words: dict[int, list[str]] = {}

    def words(self, number: int) -> list[str]:
        if number not in self._words:
            self._words[number] = normal(self.lines[number])
        return self._words[number]

    def all_words(self, first: int, last: int) -> list[str]:
        return [word for number in range(first, last) for word in self.words(number)]

    @cached_property
    def blocks(self) -> list[int]:
        """For each line the number of the paragraph, list item or table that it belongs to."""
        return list(_blocks(self.lines))

    @cached_property
    def edited(self) -> set[int]:
        """The blocks in which something is meant."""
        return {self.blocks[number] for number in self.meant}

    @cached_property
    def length(self) -> int:
        """In words."""
        return sum(len(line.split()) for line in self.lines)

    def is_row(self, number: int) -> bool:
        return "|" in self.lines[number]

    def shown(self, number: int) -> str:
        return self.lines[number].strip()[:60] if number < len(self.lines) else ""

    def word_lines(self, first: int, last: int) -> list[int]:
        """For each word of these lines the line it stands in."""
        return [number for number in range(first, last) for _ in self.words(number)]


class Comparison:
    """Which lines are touched, which of them are meant, and which differ in form alone."""

    @classmethod
    def of(cls, old: str, new: str) -> "Comparison":
        return cls(lines_with_endings(old), lines_with_endings(new))

    def __init__(self, old: list[str], new: list[str]) -> None:
        self.old, self.new = Side(old), Side(new)
        self.hunks = [
            (a, b, c, d) for equal, a, b, c, d in same_and_changed(old, new) if not equal and (a, c) != (b, d)
        ]
        self.touched = max(sum(b - a for a, b, _, _ in self.hunks), sum(d - c for _, _, c, d in self.hunks))
        self.removed = self.inserted = 0
        self._steps_left = MAX_STEPS
        for hunk in self.hunks:
            self._find_meant(*hunk)
        self.meant = max(len(self.old.meant), len(self.new.meant))

    @property
    def is_rewrite(self) -> bool:
        return self.removed > REPLACED * self.old.length and self.inserted > REPLACED * self.new.length

    @cached_property
    def formal(self) -> list[int]:
        """The old lines, counted from 0, that change in form alone, away from what is meant."""
        found: set[int] = set()
        for a, b, c, d in self.hunks:
            if not self._is_shift(a, b, c, d):
                lost = self._formal(self.old, self.new, (a, b), (c, d))
                found.update(lost or ([a] if self._formal(self.new, self.old, (c, d), (a, b)) else []))
        blank = {n for n in found if n < len(self.old.lines) and not self.old.words(n)}
        # An empty line more or less comes with other edits, where a diff may show it by itself.
        return sorted(found - blank if len(blank) <= self.meant else found)

    def _find_meant(self, a: int, b: int, c: int, d: int) -> None:
        old_words, new_words = self.old.all_words(a, b), self.new.all_words(c, d)
        self._find_moved(a, b, c, d)
        if old_words == new_words:
            return
        if len(old_words) * len(new_words) > MOST_COMPARED:
            self._compare_lines(a, b, c, d)
            return
        old_lines, new_lines = self.old.word_lines(a, b), self.new.word_lines(c, d)
        matcher = BoundedMatcher(old_words, new_words, self._steps_left)
        self._steps_left = matcher.steps_left
        for tag, i, j, k, m in matcher.get_opcodes():
            if tag != "equal":
                self.removed += j - i
                self.inserted += m - k
                # Where nothing is left on one side, the words around the gap are what was edited.
                self.old.meant.update(old_lines[max(0, i - (i == j)) : j + (i == j)])
                self.new.meant.update(new_lines[max(0, k - (k == m)) : m + (k == m)])

    def _find_moved(self, a: int, b: int, c: int, d: int) -> None:
        """Lines that stand elsewhere now, to the letter."""
        old, new = set(self.old.lines[a:b]), set(self.new.lines[c:d])
        self.old.meant.update(n for n in range(a, b) if self.old.words(n) and self.old.lines[n] in new)
        self.new.meant.update(n for n in range(c, d) if self.new.words(n) and self.new.lines[n] in old)

    def _compare_lines(self, a: int, b: int, c: int, d: int) -> None:
        """Coarser, for what is too large to be compared word by word."""
        old, new = {tuple(self.old.words(n)) for n in range(a, b)}, {tuple(self.new.words(n)) for n in range(c, d)}
        gone = [n for n in range(a, b) if tuple(self.old.words(n)) not in new]
        come = [n for n in range(c, d) if tuple(self.new.words(n)) not in old]
        self.old.meant.update(gone)
        self.new.meant.update(come)
        self.removed += sum(len(self.old.words(n)) for n in gone)
        self.inserted += sum(len(self.new.words(n)) for n in come)

    def _formal(self, side: Side, other: Side, here: tuple[int, int], there: tuple[int, int]) -> list[int]:
        """A paragraph may be wrapped anew and a table set anew where it is edited; nothing else may."""
        idle = [n for n in range(*here) if n not in side.meant]
        any_meant = any(n in side.meant for n in range(*here)) or any(n in other.meant for n in range(*there))
        same = {tuple(other.words(n)) for n in range(*there)}
        found = []
        for n in idle:
            if not side.words(n):
                is_formal = not any_meant
            elif side.is_row(n) or tuple(side.words(n)) not in same:
                is_formal = side.blocks[n] not in side.edited
            else:
                is_formal = True
            if is_formal:
                found.append(n)
        return found

    def _is_shift(self, a: int, b: int, c: int, d: int) -> bool:
        """Lines that moved in or out together, next to one that is meant: a new group, tab, list or quotation."""
        old = [self.old.lines[n] for n in range(a, b) if self.old.words(n) and n not in self.old.meant]
        new = [self.new.lines[n] for n in range(c, d) if self.new.words(n) and n not in self.new.meant]
        if len(old) != len(new) or not any(n in self.new.meant for n in range(c, d)):
            return False
        same = all(one.lstrip(INDENT) == two.lstrip(INDENT) for one, two in zip(old, new, strict=True))
        return same and len({_indent(two) - _indent(one) for one, two in zip(old, new, strict=True)}) <= 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(INDENT))


def _blocks(lines: list[str]) -> Iterator[int]:
    number, row = 0, False
    for line in lines:
        is_row = "|" in line
        if not line.strip() or BLOCK_STARTS.match(line) or is_row != row:
            number += 1
        row = is_row
        yield number
