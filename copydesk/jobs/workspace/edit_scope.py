"""Limits edits to the task: refuses changes that only reformat lines, and rewrites of pages that were not requested."""

import re
from collections.abc import Iterator
from functools import cached_property

from copydesk.core.text.normal_forms import normalize
from copydesk.jobs.workspace.bounded_matcher import MAX_STEPS, BoundedMatcher
from copydesk.jobs.workspace.indentation_shifts import find_shifted_lines
from copydesk.jobs.workspace.text_edits import DecodedText, DiffHunk, diff_lines, is_text, split_lines

MAX_REFORMATTED_LINES = 5
"""A file may have this many lines that change only in formatting: edits often touch the lines next to them."""
MIN_REWRITE_LINES = 12
REWRITE_SHARE = 0.6
"""A page of at least MIN_REWRITE_LINES lines counts as rewritten if more than this share of its old words was removed
and more than this share of its new words was inserted."""
MAX_WORD_PAIRS = 1_000_000

TYPOGRAPHY_TABLE = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "_": "*", "\u00a0": " "}
)
BULLET_PATTERN = re.compile(r"^(\s*(?:>\s*)*)(?:[*+-]|(\d+)[.)])(?=\s)")
RULE_PATTERN = re.compile(r"[-=:]{2,}")
FENCE_PATTERN = re.compile(r"`{3,}|~{3,}")
BLOCK_START_PATTERN = re.compile(r"\s*(?:[*+-]\s|\d+[.)]\s|#{1,6}\s|`{3}|~{3}|<|>)")


def explain_overreach(
    old: bytes, new: bytes, allow_rewrite: bool = False, allow_reformatting: bool = False
) -> str | None:
    """Returns why a file's new bytes go beyond an edit, with advice, or None if they do not.

    `allow_rewrite` means that the whole page may be rewritten; `allow_reformatting`, that lines may change in form."""
    if not (is_text(old) and is_text(new)):
        return None
    before = DecodedText.decode(old)
    after = DecodedText.decode(new)
    if before.bom != after.bom:
        return "The change would add or remove the file's byte-order mark. Leave it as it is."
    comparison = Comparison.from_texts(before.body, after.body)
    is_real_rewrite = allow_rewrite and comparison.meaningful_count > len(comparison.format_only_lines)
    if not (is_real_rewrite or allow_reformatting) and (refusal := _explain_reformatting(comparison)):
        return refusal
    return None if allow_rewrite else _explain_rewrite(comparison)


def explain_reformatting(old: bytes, new: bytes) -> str | None:
    """Returns why a file's new bytes are refused because they only reformat too many lines, or None."""
    return _explain_reformatting(_compare(old, new)) if is_text(old) and is_text(new) else None


def count_reformatted_lines(old: bytes, new: bytes) -> int:
    """Returns the number of lines that change only in formatting; 0 if there are few enough to be incidental."""
    count = len(_compare(old, new).format_only_lines) if is_text(old) and is_text(new) else 0
    return count if count > MAX_REFORMATTED_LINES else 0


def _compare(old: bytes, new: bytes) -> "Comparison":
    return Comparison.from_texts(DecodedText.decode(old).body, DecodedText.decode(new).body)


def is_long(piece: str) -> bool:
    """Returns whether replacing the piece may amount to a rewrite."""
    return piece.count("\n") + 1 >= MIN_REWRITE_LINES


def explain_rewrite(old: bytes, new: bytes) -> str | None:
    """Returns why an edit is refused as a rewrite, because it leaves little of the old text, or None."""
    return _explain_rewrite(_compare(old, new))


def _explain_reformatting(comparison: "Comparison") -> str | None:
    format_only = comparison.format_only_lines
    if len(format_only) <= MAX_REFORMATTED_LINES:
        return None
    return (
        f"The change only reformats {len(format_only)} lines (spaces, wrapping, quotes, bullets, line endings or "
        f"similar), for example {comparison.old.excerpt(format_only[0])!r}."
        " Leave such lines as they are, and edit only lines whose meaning changes."
        " If the request asks for this formatting, say where in 'reformat'."
    )


def _explain_rewrite(comparison: "Comparison") -> str | None:
    if len(comparison.old.lines) < MIN_REWRITE_LINES or not comparison.is_rewrite:
        return None
    return (
        "The change replaces most of the page. Edit only what the task asks for. "
        "To rewrite the whole page, use write with 'whole' set to true."
    )


def normalize_words(line: str) -> list[str]:
    """Returns the words of a line, normalized so that variants of quotes, dashes, bullets and rules are equal."""
    line = normalize("NFC", line).translate(TYPOGRAPHY_TABLE).replace("…", "...")
    line = BULLET_PATTERN.sub(lambda mark: f"{mark[1]}{f'{mark[2]}.' if mark[2] else '-'}", line)
    line = RULE_PATTERN.sub("--", line.replace("|", " | "))
    return FENCE_PATTERN.sub(lambda fence: "`" * len(fence[0]), line).split()


class TextVersion:
    """The lines of the old or the new text. Computes the words of a line only on demand, for changed lines."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.meaningful_lines: set[int] = set()
        self._words: dict[int, list[str]] = {}

    def words(self, number: int) -> list[str]:
        if number not in self._words:
            self._words[number] = normalize_words(self.lines[number])
        return self._words[number]

    def all_words(self, numbers: range) -> list[str]:
        return [word for number in numbers for word in self.words(number)]

    @cached_property
    def block_numbers(self) -> list[int]:
        """Returns, for each line, the number of the paragraph, list item or table that it belongs to."""
        return list(_number_blocks(self.lines))

    @cached_property
    def edited_blocks(self) -> set[int]:
        """Returns the numbers of the blocks that have a meaningful change."""
        return {self.block_numbers[number] for number in self.meaningful_lines}

    @cached_property
    def word_count(self) -> int:
        return sum(len(line.split()) for line in self.lines)

    def is_table_row(self, number: int) -> bool:
        return "|" in self.lines[number]

    def excerpt(self, number: int) -> str:
        return self.lines[number].strip()[:60] if number < len(self.lines) else ""

    def word_line_numbers(self, numbers: range) -> list[int]:
        """Returns, for each word of these lines, the number of its line."""
        return [number for number in numbers for _ in self.words(number)]


class Comparison:
    """Compares two texts: which lines changed, which of them in meaning, and which only in formatting."""

    @classmethod
    def from_texts(cls, old: str, new: str) -> "Comparison":
        return cls(split_lines(old), split_lines(new))

    def __init__(self, old: list[str], new: list[str]) -> None:
        self.old = TextVersion(old)
        self.new = TextVersion(new)
        self.hunks = [hunk for hunk in diff_lines(old, new) if not hunk.is_equal and (hunk.old or hunk.new)]
        self.removed_words = self.inserted_words = 0
        self._steps_left = MAX_STEPS
        for hunk in self.hunks:
            self._find_meaningful_lines(hunk)
        self.meaningful_count = max(len(self.old.meaningful_lines), len(self.new.meaningful_lines))

    @property
    def is_rewrite(self) -> bool:
        return (
            self.removed_words > REWRITE_SHARE * self.old.word_count
            and self.inserted_words > REWRITE_SHARE * self.new.word_count
        )

    @cached_property
    def format_only_lines(self) -> list[int]:
        """Returns the old lines (0-based) that change only in formatting, away from meaningful changes."""
        line_numbers: set[int] = set()
        shifted = find_shifted_lines(self.old.lines, self.new.lines)
        for hunk in self.hunks:
            old_numbers = self._find_format_only(self.old, self.new, hunk.old, hunk.new)
            if old_numbers:
                line_numbers.update(number for number in old_numbers if number not in shifted.old)
            elif not shifted.new.issuperset(self._find_format_only(self.new, self.old, hunk.new, hunk.old)):
                line_numbers.add(hunk.old.start)
        blank_lines = {n for n in line_numbers if n < len(self.old.lines) and not self.old.words(n)}
        # Meaningful edits often add or remove a blank line, which the diff may show as a separate hunk.
        return sorted(line_numbers - blank_lines if len(blank_lines) <= self.meaningful_count else line_numbers)

    def _find_meaningful_lines(self, hunk: DiffHunk) -> None:
        old_words = self.old.all_words(hunk.old)
        new_words = self.new.all_words(hunk.new)
        self._find_moved_lines(hunk)
        if old_words == new_words:
            return
        if len(old_words) * len(new_words) > MAX_WORD_PAIRS:
            self._compare_lines(hunk)
            return
        old_lines = self.old.word_line_numbers(hunk.old)
        new_lines = self.new.word_line_numbers(hunk.new)
        matcher = BoundedMatcher(old_words, new_words, self._steps_left)
        self._steps_left = matcher.steps_left
        for tag, old_first, old_last, new_first, new_last in matcher.get_opcodes():
            if tag != "equal":
                self.removed_words += old_last - old_first
                self.inserted_words += new_last - new_first
                # For a pure insertion or deletion, the words around the gap on the other side count as edited.
                self.old.meaningful_lines.update(
                    old_lines[max(0, old_first - (old_first == old_last)) : old_last + (old_first == old_last)]
                )
                self.new.meaningful_lines.update(
                    new_lines[max(0, new_first - (new_first == new_last)) : new_last + (new_first == new_last)]
                )

    def _find_moved_lines(self, hunk: DiffHunk) -> None:
        """Marks lines as meaningful that were moved within the hunk without any change."""
        old = {self.old.lines[n] for n in hunk.old}
        new = {self.new.lines[n] for n in hunk.new}
        self.old.meaningful_lines.update(n for n in hunk.old if self.old.words(n) and self.old.lines[n] in new)
        self.new.meaningful_lines.update(n for n in hunk.new if self.new.words(n) and self.new.lines[n] in old)

    def _compare_lines(self, hunk: DiffHunk) -> None:
        """Compares whole lines, for a hunk that is too large to be compared word by word."""
        old = {tuple(self.old.words(n)) for n in hunk.old}
        new = {tuple(self.new.words(n)) for n in hunk.new}
        removed = [n for n in hunk.old if tuple(self.old.words(n)) not in new]
        inserted = [n for n in hunk.new if tuple(self.new.words(n)) not in old]
        self.old.meaningful_lines.update(removed)
        self.new.meaningful_lines.update(inserted)
        self.removed_words += sum(len(self.old.words(n)) for n in removed)
        self.inserted_words += sum(len(self.new.words(n)) for n in inserted)

    def _find_format_only(
        self, side: TextVersion, other: TextVersion, numbers: range, other_numbers: range
    ) -> list[int]:
        """Returns those of these lines that change only in formatting.

        Lines of an edited paragraph or table do not count, since an edit may require wrapping or aligning it again."""
        candidates = [n for n in numbers if n not in side.meaningful_lines]
        any_meaningful = not (
            side.meaningful_lines.isdisjoint(numbers) and other.meaningful_lines.isdisjoint(other_numbers)
        )
        other_words = {tuple(other.words(n)) for n in other_numbers}
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


def _number_blocks(lines: list[str]) -> Iterator[int]:
    number = 0
    was_row = False
    for line in lines:
        is_row = "|" in line
        if not line.strip() or BLOCK_START_PATTERN.match(line) or is_row != was_row:
            number += 1
        was_row = is_row
        yield number
