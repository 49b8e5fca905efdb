"""Text edits that keep every byte they do not mean to change: line endings, encoding, final newline, BOM."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from copydesk.jobs.workspace.bounded_matcher import BoundedMatcher

BOM = b"\xef\xbb\xbf"
LINE_ENDING_PATTERN = re.compile(r"\r\n|\n")
MAX_LINE_PAIRS = 4_000_000
MAX_SEARCHED_CHARS = 1_000_000_000
"""Limits the characters of a file times the replacements that are sought in all of it."""
CONTROL_CHARACTER_PATTERN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
"""Characters that no page needs, and that hide what stands beside them: C0 but for tab and line ends, DEL, C1."""
UTF16_AND_UTF32_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""How files of UTF-16 and UTF-32 begin."""


class NotEditable(Exception):
    """The edit cannot be made as asked; the message tells what to do instead."""


@dataclass(frozen=True)
class Replacement:
    """`old` becomes `new`. `line` (1-based) is where `old` begins; `everywhere` replaces each occurrence."""

    old: str
    new: str
    line: int | None = None
    everywhere: bool = False


@dataclass(frozen=True)
class DecodedText:
    """A file's text together with what it takes to write the same bytes again."""

    body: str
    encoding: str
    bom: bytes

    @classmethod
    def decode(cls, data: bytes) -> "DecodedText":
        """UTF-8 where the bytes are, else Latin-1, in which every byte is a character and comes back as itself."""
        if b"\x00" in data:
            raise NotEditable("This is a binary file; it can be moved or deleted, not edited.")
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
                f"The file is not UTF-8 but Latin-1, which has no {bad!r}; write the change without it."
            ) from None

    @property
    def normalized_body(self) -> str:
        """As a reader sees it: lines end with \\n."""
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
    """Raises NotEditable where `new` brings a control character: it would make the page look binary, or hide text."""
    if (character := find_new_control_character(old, new)) is not None:
        raise NotEditable(f"The text has the control character U+{ord(character):04X}; write it without.")


def apply_replacements(data: bytes, replacements: Sequence[Replacement]) -> bytes:
    """All of the replacements or none; each is sought in the file as it was, and they may not overlap."""
    text = DecodedText.decode(data)
    for replacement in replacements:
        reject_new_control_characters(replacement.old, replacement.new)
    searchable = _SearchableText(text.body)
    if sum(wanted.line is None for wanted in replacements) * len(text.body) > MAX_SEARCHED_CHARS:
        raise NotEditable("These are too many replacements for so long a file; give 'line' with each of them.")
    spans: list[tuple[int, int, str]] = []
    for number, replacement in enumerate(replacements, 1):
        try:
            spans += [
                (a, b, _fit_line_endings(text.body, a, b, replacement.new, searchable.has_crlf))
                for a, b in _find_spans(searchable, replacement)
            ]
        except NotEditable as error:
            prefix = f"Replacement {number}: " if len(replacements) > 1 else ""
            raise NotEditable(prefix + str(error)) from None
    spans.sort()
    pieces, position = [], 0
    for start, end, new in spans:
        if start < position:
            raise NotEditable("Two replacements touch the same text; join them into one.")
        pieces += [text.body[position:start], new]
        position = end
    return text.encode("".join(pieces) + text.body[position:])


def replace_body(data: bytes | None, body: str) -> bytes:
    """A whole new body, in the encoding the file has; lines that stay keep their bytes."""
    if data is None:
        reject_new_control_characters("", body)
        return body.encode("utf-8")
    text = DecodedText.decode(data)
    reject_new_control_characters(text.body, body)
    fitted = _fit_line_endings(text.body, 0, len(text.body), body, "\r\n" in text.body)
    return text.encode(_keep_final_newline(text.body, fitted))


class _SearchableText:
    """A body as a reader sees it, and the way back from positions in that to positions in the body."""

    def __init__(self, body: str) -> None:
        self.text = body.replace("\r\n", "\n")
        self.has_crlf = len(self.text) < len(body)
        self._crlf_positions = (
            [match.start() - n for n, match in enumerate(re.finditer("\r\n", body))] if self.has_crlf else []
        )

    @cached_property
    def line_starts(self) -> list[int]:
        """Where each line begins, and where the last one ends."""
        return [0, *(match.end() for match in re.finditer("\n", self.text)), len(self.text) + 1]

    def body_span(self, start: int, end: int) -> tuple[int, int]:
        return start + bisect_left(self._crlf_positions, start), end + bisect_left(self._crlf_positions, end)


def _find_spans(searchable: _SearchableText, replacement: Replacement) -> list[tuple[int, int]]:
    if not replacement.old:
        raise NotEditable("'old' is empty; give the text to replace, or use write for a new file.")
    old, text = replacement.old.replace("\r\n", "\n"), searchable.text
    position, stop = 0, len(text)
    if replacement.line is not None:
        if replacement.line >= len(searchable.line_starts):
            raise NotEditable(f"The file has no line {replacement.line}; read it again.")
        position = searchable.line_starts[replacement.line - 1]
        stop = (
            searchable.line_starts[replacement.line] - 1 + len(old)
        )  # it begins on this line and may end on a later one
    spans = []
    while (position := text.find(old, position, stop)) >= 0:
        spans.append(searchable.body_span(position, position + len(old)))
        position += len(old)
    where = f" on line {replacement.line}" if replacement.line is not None else ""
    if not spans:
        raise NotEditable(f"'old' does not occur{where}; read the file again and copy the text exactly.")
    if len(spans) > 1 and not replacement.everywhere:
        raise NotEditable(
            f"'old' occurs {len(spans)} times{where}; add surrounding text or 'line', or set 'everywhere'."
        )
    return spans


def _fit_line_endings(body: str, start: int, end: int, new: str, has_crlf: bool) -> str:
    """`new` with the line endings that stand there: unchanged lines keep theirs, new ones take their neighbour's."""
    new = new.replace("\r\n", "\n")
    if not has_crlf:
        return new
    old_lines, new_lines = split_lines(body[start:end]), split_lines(new)
    normalized_lines = [LINE_ENDING_PATTERN.sub("\n", line) for line in old_lines]
    fitted: list[str] = []
    nearby_ending = ""
    for equal, old_start, old_end, new_start, new_end in diff_lines(normalized_lines, new_lines):
        if equal:
            fitted += old_lines[old_start:old_end]
            continue
        for offset, line in enumerate(new_lines[new_start:new_end]):
            if line.endswith("\n"):
                neighbor = (
                    old_lines[min(old_start + offset, old_end - 1)]
                    if old_end > old_start
                    else (fitted[-1] if fitted else "")
                )
                nearby_ending = nearby_ending or _find_nearby_ending(body, start)
                line = line[:-1] + (_line_ending(neighbor) or nearby_ending)
            fitted.append(line)
    return "".join(fitted)


def _keep_final_newline(old: str, new: str) -> str:
    """The final newline is nobody's to add or drop where the last line stays what it is."""
    if old.endswith("\n") == new.endswith("\n"):
        return new
    longer, shorter = (old, new) if old.endswith("\n") else (new, old)
    ending = _line_ending(longer)
    if longer.removesuffix(ending).rpartition("\n")[2] != shorter.rpartition("\n")[2]:
        return new
    return new + ending if longer is old else new.removesuffix(ending)


def diff_lines(old: list[str], new: list[str]) -> Iterator[tuple[bool, int, int, int, int]]:
    """Which lines stayed. The middle is compared line by line where that is cheap, else taken as changed."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    yield True, 0, head, 0, head
    if (old_end - head) * (new_end - head) <= MAX_LINE_PAIRS:
        matcher = BoundedMatcher(old[head:old_end], new[head:new_end])
        for tag, a, b, c, d in matcher.get_opcodes():
            yield tag == "equal", head + a, head + b, head + c, head + d
    else:
        yield False, head, old_end, head, new_end
    yield True, old_end, len(old), new_end, len(new)


def split_lines(text: str) -> list[str]:
    """Lines that end with \\n alone count: a form feed or a lone \\r is part of its line."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _line_ending(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else ""


def _find_nearby_ending(body: str, position: int) -> str:
    """The ending of the line at this position, else of the one before it."""
    after = body.find("\n", position)
    if after >= 0:
        return "\r\n" if after > position and body[after - 1] == "\r" else "\n"
    before = body.rfind("\n", 0, position)
    return "\r\n" if before > 0 and body[before - 1] == "\r" else "\n"
