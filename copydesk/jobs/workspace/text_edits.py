"""Text edits that preserve all other bytes of a file: line endings, encoding, final newline and BOM."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from copydesk.jobs.workspace.bounded_matcher import BoundedMatcher

BOM = b"\xef\xbb\xbf"
LINE_ENDING_PATTERN = re.compile(r"\r\n|\n")
MAX_LINE_PAIRS = 4_000_000
MAX_SEARCHED_CHARS = 1_000_000_000
"""Limit on the characters of a file times the number of replacements that are searched for in the whole file."""
CONTROL_CHARACTER_PATTERN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
"""Characters that no page needs and that can hide text: C0 except tab and line endings, DEL, and C1."""
UTF16_AND_UTF32_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""First bytes of files in UTF-16 and UTF-32."""


class NotEditable(Exception):
    """The edit is not possible as requested; the message says what to do instead."""


@dataclass(frozen=True)
class Replacement:
    """Replaces `old` by `new`. `old` begins on `line` (1-based) if given; `everywhere` replaces each occurrence."""

    old: str
    new: str
    line: int | None = None
    everywhere: bool = False


class DiffHunk(NamedTuple):
    """Numbers of lines (0-based) in an old and a new text that are all equal, or that differ."""

    is_equal: bool
    old: range
    new: range


@dataclass(frozen=True)
class DecodedText:
    """A file's text, with the encoding and BOM that are needed to write the same bytes again."""

    body: str
    encoding: str
    bom: bytes

    @classmethod
    def decode(cls, data: bytes) -> "DecodedText":
        """Decodes the bytes as UTF-8 if they are valid, else as Latin-1, which can represent all bytes.

        Raises NotEditable for a binary file."""
        if b"\x00" in data:
            raise NotEditable("This is a binary file. You can move or delete it, but not edit it.")
        bom = BOM if data.startswith(BOM) else b""
        try:
            return cls(data[len(bom) :].decode("utf-8"), "utf-8", bom)
        except UnicodeDecodeError:
            return cls(data.decode("latin-1"), "latin-1", b"")

    def encode(self, body: str) -> bytes:
        try:
            return self.bom + body.encode(self.encoding)
        except UnicodeEncodeError as error:
            bad = body[error.start]
            raise NotEditable(
                f"The file is in Latin-1, which does not have the character {bad!r}. Write the change without it."
            ) from None

    @property
    def normalized_body(self) -> str:
        """Returns the text with \\n as the only line ending, as the read tool shows it."""
        return self.body.replace("\r\n", "\n")


def is_text(data: bytes) -> bool:
    return b"\x00" not in data


def is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def find_new_control_character(old: str, new: str) -> str | None:
    """Returns a control character that `new` has more often than `old`, or None."""
    new_counts = Counter(CONTROL_CHARACTER_PATTERN.findall(new))
    old_counts = Counter(CONTROL_CHARACTER_PATTERN.findall(old)) if new_counts else new_counts
    return next((character for character, count in new_counts.items() if count > old_counts[character]), None)


def reject_new_control_characters(old: str, new: str) -> None:
    """Raises NotEditable if `new` adds a control character, which could make the page look binary or hide text."""
    if (character := find_new_control_character(old, new)) is not None:
        raise NotEditable(f"The text has the control character U+{ord(character):04X}. Remove it.")


def apply_replacements(data: bytes, replacements: Sequence[Replacement]) -> bytes:
    """Makes all replacements or none. Each is searched for in the original file, and they must not overlap."""
    text = DecodedText.decode(data)
    for replacement in replacements:
        reject_new_control_characters(replacement.old, replacement.new)
    searchable = _SearchableText(text.body)
    if sum(wanted.line is None for wanted in replacements) * len(text.body) > MAX_SEARCHED_CHARS:
        raise NotEditable("There are too many replacements for a file of this size. Set 'line' in each of them.")
    edits: list[_Edit] = []
    for number, replacement in enumerate(replacements, 1):
        try:
            for start, end in _find_spans(searchable, replacement):
                new = _fit_line_endings(text.body, start, end, replacement.new, searchable.has_crlf)
                edits.append(_Edit(start, end, new))
        except NotEditable as error:
            prefix = f"Replacement {number}: " if len(replacements) > 1 else ""
            raise NotEditable(prefix + str(error)) from None
    edits.sort()
    pieces = []
    position = 0
    for edit in edits:
        if edit.start < position:
            raise NotEditable("Two replacements overlap. Combine them into one.")
        pieces += [text.body[position : edit.start], edit.new]
        position = edit.end
    return text.encode("".join(pieces) + text.body[position:])


def replace_body(data: bytes | None, body: str) -> bytes:
    """Returns the file with a new body, in the file's encoding. Unchanged lines keep their bytes."""
    if data is None:
        reject_new_control_characters("", body)
        return body.encode("utf-8")
    text = DecodedText.decode(data)
    reject_new_control_characters(text.body, body)
    fitted = _fit_line_endings(text.body, 0, len(text.body), body, "\r\n" in text.body)
    return text.encode(_keep_final_newline(text.body, fitted))


class _Edit(NamedTuple):
    """Replaces the characters from `start` to `end` of a body."""

    start: int
    end: int
    new: str


class _SearchableText:
    """A body with \\n as the only line ending, which maps positions back to the original body."""

    def __init__(self, body: str) -> None:
        self.text = body.replace("\r\n", "\n")
        self.has_crlf = len(self.text) < len(body)
        self._crlf_positions = (
            [match.start() - n for n, match in enumerate(re.finditer("\r\n", body))] if self.has_crlf else []
        )

    @cached_property
    def line_starts(self) -> list[int]:
        """Returns where each line begins, and where the last one ends."""
        return [0, *(match.end() for match in re.finditer("\n", self.text)), len(self.text) + 1]

    def body_span(self, start: int, end: int) -> tuple[int, int]:
        return start + bisect_left(self._crlf_positions, start), end + bisect_left(self._crlf_positions, end)


def _find_spans(searchable: _SearchableText, replacement: Replacement) -> list[tuple[int, int]]:
    if not replacement.old:
        raise NotEditable("'old' is empty. Give the text to replace, or use write to create a file.")
    old = replacement.old.replace("\r\n", "\n")
    text = searchable.text
    position = 0
    stop = len(text)
    if replacement.line is not None:
        if replacement.line >= len(searchable.line_starts):
            raise NotEditable(f"The file has no line {replacement.line}. Read it again.")
        position = searchable.line_starts[replacement.line - 1]
        stop = (
            searchable.line_starts[replacement.line] - 1 + len(old)
        )  # `old` begins on this line and may end on a later one
    spans = []
    while (position := text.find(old, position, stop)) >= 0:
        spans.append(searchable.body_span(position, position + len(old)))
        position += len(old)
    where = f" on line {replacement.line}" if replacement.line is not None else ""
    if not spans:
        raise NotEditable(f"'old' was not found{where}. Read the file again and copy the text exactly.")
    if len(spans) > 1 and not replacement.everywhere:
        raise NotEditable(
            f"'old' occurs {len(spans)} times{where}. Add surrounding text or 'line', or set 'everywhere'."
        )
    return spans


def _fit_line_endings(body: str, start: int, end: int, new: str, has_crlf: bool) -> str:
    """Returns `new` with the file's line endings: unchanged lines keep theirs, new ones use their neighbor's."""
    new = new.replace("\r\n", "\n")
    if not has_crlf:
        return new
    old_lines = split_lines(body[start:end])
    new_lines = split_lines(new)
    normalized_lines = [LINE_ENDING_PATTERN.sub("\n", line) for line in old_lines]
    fitted: list[str] = []
    nearby_ending = ""
    for hunk in diff_lines(normalized_lines, new_lines):
        if hunk.is_equal:
            fitted += (old_lines[n] for n in hunk.old)
            continue
        for offset, line in enumerate(new_lines[n] for n in hunk.new):
            if line.endswith("\n"):
                if hunk.old:
                    neighbor = old_lines[min(hunk.old.start + offset, hunk.old.stop - 1)]
                else:
                    neighbor = fitted[-1] if fitted else ""
                nearby_ending = nearby_ending or _find_nearby_ending(body, start)
                line = line[:-1] + (_line_ending(neighbor) or nearby_ending)
            fitted.append(line)
    return "".join(fitted)


def _keep_final_newline(old: str, new: str) -> str:
    """Returns `new` with the final newline, or the lack of one, of `old` if the last line is otherwise unchanged."""
    if old.endswith("\n") == new.endswith("\n"):
        return new
    longer, shorter = (old, new) if old.endswith("\n") else (new, old)
    ending = _line_ending(longer)
    if longer.removesuffix(ending).rpartition("\n")[2] != shorter.rpartition("\n")[2]:
        return new
    return new + ending if longer is old else new.removesuffix(ending)


def diff_lines(old: list[str], new: list[str]) -> Iterator[DiffHunk]:
    """Yields the hunks of equal and of changed lines, in order. A hunk may be empty on one side or on both.

    If the part between the common head and tail is too large to compare, all of it counts as changed."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end = len(old) - tail
    new_end = len(new) - tail
    yield DiffHunk(True, range(head), range(head))
    if (old_end - head) * (new_end - head) <= MAX_LINE_PAIRS:
        matcher = BoundedMatcher(old[head:old_end], new[head:new_end])
        for tag, old_first, old_last, new_first, new_last in matcher.get_opcodes():
            old_lines = range(head + old_first, head + old_last)
            new_lines = range(head + new_first, head + new_last)
            yield DiffHunk(tag == "equal", old_lines, new_lines)
    else:
        yield DiffHunk(False, range(head, old_end), range(head, new_end))
    yield DiffHunk(True, range(old_end, len(old)), range(new_end, len(new)))


def split_lines(text: str) -> list[str]:
    """Splits text after each \\n, and only there: a form feed or a lone \\r is part of its line."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _line_ending(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else ""


def _find_nearby_ending(body: str, position: int) -> str:
    """Returns the ending of the line at this position, or else of the line before it."""
    after = body.find("\n", position)
    if after >= 0:
        return "\r\n" if after > position and body[after - 1] == "\r" else "\n"
    before = body.rfind("\n", 0, position)
    return "\r\n" if before > 0 and body[before - 1] == "\r" else "\n"
