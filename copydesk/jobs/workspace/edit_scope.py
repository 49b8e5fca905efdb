"""The diff is what was asked for: lines that change in form alone are refused, and pages are not rewritten unasked."""

import re
from collections.abc import Iterator
from functools import cached_property

from copydesk.core.text.normal_forms import normalize
from copydesk.jobs.workspace.bounded_matcher import MAX_STEPS, BoundedMatcher
from copydesk.jobs.workspace.text_edits import DecodedText, diff_lines, is_text, split_lines

MAX_SMALL_EDIT_LINES = 5
"""An edit of so few lines is meant as it is."""
MIN_REWRITE_LINES = 12
REWRITE_SHARE = 0.6
"""A page of at least so many lines is rewritten when so much of its old and of its new words are not in the other."""
MAX_WORD_PAIRS = 1_000_000
INDENT_CHARS = " \t>"

TYPOGRAPHY_TABLE = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "_": "*", "\u00a0": " "}
)
BULLET_PATTERN = re.compile(r"^(\s*(?:>\s*)*)(?:[*+-]|(\d+)[.)])(?=\s)")
RULE_PATTERN = re.compile(r"[-=:]{2,}")
FENCE_PATTERN = re.compile(r"`{3,}|~{3,}")
BLOCK_START_PATTERN = re.compile(r"\s*(?:[*+-]\s|\d+[.)]\s|#{1,6}\s|`{3}|~{3}|<|>)")


def explain_overreach(old: bytes, new: bytes, *, allow_rewrite: bool = False) -> str | None:
    """Why a file's new bytes go too far, with advice, or None. `whole` says that it is really to be written anew."""
    if not (is_text(old) and is_text(new)):
        return None
    before, after = DecodedText.decode(old), DecodedText.decode(new)
    if before.bom != after.bom:
        return "The change would add or drop the file's byte-order mark; leave it as it is."
    comparison = Comparison.from_texts(before.body, after.body)
    if not (allow_rewrite and comparison.meaningful_count > len(comparison.format_only_lines)) and (
        refusal := _explain_reformatting(comparison)
    ):
        return refusal
    return None if allow_rewrite else _explain_rewrite(comparison)


def explain_reformatting(old: str, new: str) -> str | None:
    """Why a piece of text, as read shows it, may not become the other: too much of it changes in form alone."""
    return _explain_reformatting(Comparison.from_texts(old.replace("\r\n", "\n"), new.replace("\r\n", "\n")))


def is_long(piece: str) -> bool:
    """Whether replacing it may amount to a rewrite."""
    return piece.count("\n") + 1 >= MIN_REWRITE_LINES


def explain_rewrite(old: bytes, new: bytes) -> str | None:
    """Why a file may not be edited so, when little of what it says is left."""
    return _explain_rewrite(Comparison.from_texts(DecodedText.decode(old).body, DecodedText.decode(new).body))


def _explain_reformatting(comparison: "Comparison") -> str | None:
    format_only = comparison.format_only_lines
    if comparison.touched_count <= MAX_SMALL_EDIT_LINES or not format_only:
        return None
    count = "a line" if len(format_only) == 1 else f"{len(format_only)} lines"
    return (
        f"The change touches {count} in form alone (spaces, wrapping, quotes, bullets, line endings or the like): "
        f"{comparison.old.excerpt(format_only[0])!r}, for one."
        " Leave those as they are, and edit only what changes in meaning."
    )


def _explain_rewrite(comparison: "Comparison") -> str | None:
    if len(comparison.old.lines) < MIN_REWRITE_LINES or not comparison.is_rewrite:
        return None
    return (
        "The change replaces most of what the page says. Edit only what the task asks for; "
        "if the whole page is to be written anew, use write with 'whole' set to true."
    )


def normalize_words(line: str) -> list[str]:
    """The words of a line, alike for all ways to write the same."""
    line = normalize("NFC", line).translate(TYPOGRAPHY_TABLE).replace("…", "...")
    line = BULLET_PATTERN.sub(lambda mark: f"{mark[1]}{f'{mark[2]}.' if mark[2] else '-'}", line)
    return FENCE_PATTERN.sub("```", RULE_PATTERN.sub("--", line.replace("|", " | "))).split()


class TextVersion:
    """The lines before or after; what they say is looked at only where they changed."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.meaningful_lines: set[int] = set()
        self._words: dict[int, list[str]] = {}

    def words(self, number: int) -> list[str]:
        if number not in self._words:
            self._words[number] = normalize_words(self.lines[number])
        return self._words[number]

    def all_words(self, first: int, last: int) -> list[str]:
        return [word for number in range(first, last) for word in self.words(number)]

    @cached_property
    def block_numbers(self) -> list[int]:
        """For each line the number of the paragraph, list item or table that it belongs to."""
        return list(_number_blocks(self.lines))

    @cached_property
    def edited_blocks(self) -> set[int]:
        """The blocks in which something is meant."""
        return {self.block_numbers[number] for number in self.meaningful_lines}

    @cached_property
    def word_count(self) -> int:
        """In words."""
        return sum(len(line.split()) for line in self.lines)

    def is_table_row(self, number: int) -> bool:
        return "|" in self.lines[number]

    def excerpt(self, number: int) -> str:
        return self.lines[number].strip()[:60] if number < len(self.lines) else ""

    def word_line_numbers(self, first: int, last: int) -> list[int]:
        """For each word of these lines the line it stands in."""
        return [number for number in range(first, last) for _ in self.words(number)]


class Comparison:
    """Which lines are touched, which of them are meant, and which differ in form alone."""

    @classmethod
    def from_texts(cls, old: str, new: str) -> "Comparison":
        return cls(split_lines(old), split_lines(new))

    def __init__(self, old: list[str], new: list[str]) -> None:
        self.old, self.new = TextVersion(old), TextVersion(new)
        self.hunks = [(a, b, c, d) for equal, a, b, c, d in diff_lines(old, new) if not equal and (a, c) != (b, d)]
        self.touched_count = max(sum(b - a for a, b, _, _ in self.hunks), sum(d - c for _, _, c, d in self.hunks))
        self.removed_words = self.inserted_words = 0
        self._steps_left = MAX_STEPS
        for hunk in self.hunks:
            self._find_meaningful_lines(*hunk)
        self.meaningful_count = max(len(self.old.meaningful_lines), len(self.new.meaningful_lines))

    @property
    def is_rewrite(self) -> bool:
        return (
            self.removed_words > REWRITE_SHARE * self.old.word_count
            and self.inserted_words > REWRITE_SHARE * self.new.word_count
        )

    @cached_property
    def format_only_lines(self) -> list[int]:
        """The old lines, counted from 0, that change in form alone, away from what is meant."""
        line_numbers: set[int] = set()
        for old_start, old_end, new_start, new_end in self.hunks:
            if not self._is_indentation_shift(old_start, old_end, new_start, new_end):
                old_numbers = self._find_format_only(self.old, self.new, (old_start, old_end), (new_start, new_end))
                line_numbers.update(
                    old_numbers
                    or (
                        [old_start]
                        if self._find_format_only(self.new, self.old, (new_start, new_end), (old_start, old_end))
                        else []
                    )
                )
        blank_lines = {n for n in line_numbers if n < len(self.old.lines) and not self.old.words(n)}
        # An empty line more or less comes with other edits, where a diff may show it by itself.
        return sorted(line_numbers - blank_lines if len(blank_lines) <= self.meaningful_count else line_numbers)

    def _find_meaningful_lines(self, old_start: int, old_end: int, new_start: int, new_end: int) -> None:
        old_words, new_words = self.old.all_words(old_start, old_end), self.new.all_words(new_start, new_end)
        self._find_moved_lines(old_start, old_end, new_start, new_end)
        if old_words == new_words:
            return
        if len(old_words) * len(new_words) > MAX_WORD_PAIRS:
            self._compare_lines(old_start, old_end, new_start, new_end)
            return
        old_lines, new_lines = (
            self.old.word_line_numbers(old_start, old_end),
            self.new.word_line_numbers(new_start, new_end),
        )
        matcher = BoundedMatcher(old_words, new_words, self._steps_left)
        self._steps_left = matcher.steps_left
        for tag, old_first, old_last, new_first, new_last in matcher.get_opcodes():
            if tag != "equal":
                self.removed_words += old_last - old_first
                self.inserted_words += new_last - new_first
                # Where nothing is left on one side, the words around the gap are what was edited.
                self.old.meaningful_lines.update(
                    old_lines[max(0, old_first - (old_first == old_last)) : old_last + (old_first == old_last)]
                )
                self.new.meaningful_lines.update(
                    new_lines[max(0, new_first - (new_first == new_last)) : new_last + (new_first == new_last)]
                )

    def _find_moved_lines(self, old_start: int, old_end: int, new_start: int, new_end: int) -> None:
        """Lines that stand elsewhere now, to the letter."""
        old, new = set(self.old.lines[old_start:old_end]), set(self.new.lines[new_start:new_end])
        self.old.meaningful_lines.update(
            n for n in range(old_start, old_end) if self.old.words(n) and self.old.lines[n] in new
        )
        self.new.meaningful_lines.update(
            n for n in range(new_start, new_end) if self.new.words(n) and self.new.lines[n] in old
        )

    def _compare_lines(self, old_start: int, old_end: int, new_start: int, new_end: int) -> None:
        """Coarser, for what is too large to be compared word by word."""
        old, new = (
            {tuple(self.old.words(n)) for n in range(old_start, old_end)},
            {tuple(self.new.words(n)) for n in range(new_start, new_end)},
        )
        removed = [n for n in range(old_start, old_end) if tuple(self.old.words(n)) not in new]
        inserted = [n for n in range(new_start, new_end) if tuple(self.new.words(n)) not in old]
        self.old.meaningful_lines.update(removed)
        self.new.meaningful_lines.update(inserted)
        self.removed_words += sum(len(self.old.words(n)) for n in removed)
        self.inserted_words += sum(len(self.new.words(n)) for n in inserted)

    def _find_format_only(
        self, side: TextVersion, other: TextVersion, span: tuple[int, int], other_span: tuple[int, int]
    ) -> list[int]:
        """A paragraph may be wrapped anew and a table set anew where it is edited; nothing else may."""
        candidates = [n for n in range(*span) if n not in side.meaningful_lines]
        any_meaningful = any(n in side.meaningful_lines for n in range(*span)) or any(
            n in other.meaningful_lines for n in range(*other_span)
        )
        other_words = {tuple(other.words(n)) for n in range(*other_span)}
        format_only = []
        for n in candidates:
            if not side.words(n):
                is_format_only = not any_meaningful
            elif side.is_table_row(n) or tuple(side.words(n)) not in other_words:
                is_format_only = side.block_numbers[n] not in side.edited_blocks
            else:
                is_format_only = True
            if is_format_only:
                format_only.append(n)
        return format_only

    def _is_indentation_shift(self, old_start: int, old_end: int, new_start: int, new_end: int) -> bool:
        """Lines that moved in or out together, next to one that is meant: a new group, tab, list or quotation."""
        old = [
            self.old.lines[n]
            for n in range(old_start, old_end)
            if self.old.words(n) and n not in self.old.meaningful_lines
        ]
        new = [
            self.new.lines[n]
            for n in range(new_start, new_end)
            if self.new.words(n) and n not in self.new.meaningful_lines
        ]
        if len(old) != len(new) or not any(n in self.new.meaningful_lines for n in range(new_start, new_end)):
            return False
        is_same_text = all(
            one.lstrip(INDENT_CHARS) == two.lstrip(INDENT_CHARS) for one, two in zip(old, new, strict=True)
        )
        return (
            is_same_text
            and len({_indent_width(two) - _indent_width(one) for one, two in zip(old, new, strict=True)}) <= 1
        )


def _indent_width(line: str) -> int:
    return len(line) - len(line.lstrip(INDENT_CHARS))


def _number_blocks(lines: list[str]) -> Iterator[int]:
    number, was_row = 0, False
    for line in lines:
        is_row = "|" in line
        if not line.strip() or BLOCK_START_PATTERN.match(line) or is_row != was_row:
            number += 1
        was_row = is_row
        yield number
