"""Reads a file's unified diff and lays it out, line by line or side by side, without losing or adding a letter."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from copydesk.jobs.workspace.bounded_matcher import BoundedMatcher

HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: .*)?", re.DOTALL)
WORDS = re.compile(r"\s*(?:\w+|[^\w\s]+)|\s+")
MOST_MATCHES = 1_500
"""Pairs of equal words in two lines; comparing them takes as long as there are many."""
MAX_STEPS_PER_LINE = 100_000
ALIKE = 0.4
"""Lines that have less in common than this were written anew: marking words in them would only flicker."""

Pieces = tuple[tuple[str, bool], ...]
"""A line's text in parts, each with whether it differs from the line on the other side."""


@dataclass(frozen=True)
class Line:
    sign: str
    """`+`, `-`, or a space, which some programs leave out where nothing follows it."""
    pieces: Pieces
    old: int | None
    new: int | None
    note: str = ""
    """`\\ No newline at end of file`, as it follows the line."""

    @property
    def text(self) -> str:
        return "".join(part for part, _ in self.pieces)

    @property
    def kind(self) -> str:
        return {"+": "added", "-": "removed"}.get(self.sign, "same")


Pair = tuple[Line | None, Line | None]


@dataclass(frozen=True)
class Hunk:
    opening: str
    lines: tuple[Line, ...]

    @property
    def places(self) -> tuple[int, int, int, int]:
        """Where it begins in the old file and how many lines it has there; the same for the new one."""
        found = HUNK.fullmatch(self.opening)
        assert found is not None
        old, old_count, new, new_count = (1 if part is None else int(part) for part in found.groups())
        return old, old_count, new, new_count

    @property
    def pairs(self) -> list[Pair]:
        """Side by side: what was removed faces what was added in its place."""
        found: list[Pair] = []
        for same, run in groupby(self.lines, lambda line: line.kind == "same"):
            lines = list(run)
            if same:
                found += [(line, line) for line in lines]
            else:
                removed = [line for line in lines if line.sign == "-"]
                found += zip_longest(removed, [line for line in lines if line.sign == "+"])
        return found


@dataclass(frozen=True)
class Gap:
    """Lines that the diff leaves out; empty where nobody here knows them."""

    count: int
    lines: tuple[Line, ...] = ()

    @property
    def pairs(self) -> list[Pair]:
        return [(line, line) for line in self.lines]


@dataclass(frozen=True)
class Patch:
    """What became of one file."""

    head: tuple[str, ...]
    hunks: tuple[Hunk, ...]
    rest: tuple[str, ...] = ()
    """What follows and is no part of a diff as we know it."""

    @property
    def is_binary(self) -> bool:
        return any(line.startswith(("Binary files ", "GIT binary patch")) for line in self.head)

    @property
    def old_blob(self) -> str | None:
        """The beginning of the old file's id in git."""
        index = next((line for line in self.head if line.startswith("index ")), "")
        found = re.match(r"index ([0-9a-f]{4,64})\.\.", index)
        return found[1] if found and found[1].strip("0") else None

    def written(self) -> str:
        """The diff again, letter by letter."""
        return "\n".join([*self.head, *(line for hunk in self.hunks for line in _written(hunk)), *self.rest])

    def blocks(self, old_text: str | None = None) -> list[Hunk | Gap]:
        """The hunks and what lies between them, which is known where the old file is."""
        known = old_text.removesuffix("\n").split("\n") if old_text else None
        if known is not None and not all(_fits(hunk, known) for hunk in self.hunks):
            known = None
        blocks: list[Hunk | Gap] = []
        old_line, new_line = 1, 1
        for hunk in self.hunks:
            old, old_count, new, new_count = hunk.places
            first = old + (old_count == 0)  # a hunk that only adds names the line before it
            if first > old_line:
                blocks.append(_gap(known, old_line, first, new_line))
            blocks.append(hunk)
            old_line, new_line = first + old_count, new + (new_count == 0) + new_count
        if known is not None and self.hunks and old_line <= len(known):
            blocks.append(_gap(known, old_line, len(known) + 1, new_line))
        return blocks


def parsed(text: str) -> Patch:
    """Takes whatever it is given: what is not understood is kept as it is."""
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if HUNK.fullmatch(line)), len(lines))
    hunks: list[Hunk] = []
    at = start
    while at < len(lines) and HUNK.fullmatch(lines[at]):
        hunk = _hunk(lines[at], (lines[number] for number in range(at + 1, len(lines))))
        at += 1 + sum(1 + bool(line.note) for line in hunk.lines)
        hunks.append(hunk)
    return Patch(tuple(lines[:start]), tuple(hunks), tuple(lines[at:]))


def _hunk(opening: str, following: Iterable[str]) -> Hunk:
    """By its counts, so that a line of the file that looks like a part of a diff is a line all the same."""
    old, old_left, new, new_left = Hunk(opening, ()).places
    lines: list[Line] = []
    for text in following:
        sign = text[:1]
        if sign == "\\" and lines and not lines[-1].note:
            lines[-1] = replace(lines[-1], note=text)
            continue
        takes_old, takes_new = sign in ("", " ", "-"), sign in ("", " ", "+")
        if takes_old > old_left or takes_new > new_left or not (takes_old or takes_new):
            break
        lines.append(Line(sign, ((text[1:], False),), old if takes_old else None, new if takes_new else None))
        old, new = old + takes_old, new + takes_new
        old_left, new_left = old_left - takes_old, new_left - takes_new
    return Hunk(opening, tuple(_marked(Hunk(opening, tuple(lines)))))


def _marked(hunk: Hunk) -> Iterator[Line]:
    """The lines, with the words marked that changed within them."""
    marks: dict[Line, Pieces] = {}
    for before, after in hunk.pairs:
        if before and after and before is not after:
            marks[before], marks[after] = words_apart(before.text, after.text)
    return (replace(line, pieces=marks.get(line, line.pieces)) for line in hunk.lines)


def words_apart(old: str, new: str) -> tuple[Pieces, Pieces]:
    before, after = WORDS.findall(old), WORDS.findall(new)
    whole: tuple[Pieces, Pieces] = ((old, False),), ((new, False),)
    counts = Counter(after)
    if sum(counts[word] for word in before) > MOST_MATCHES:
        return whole
    matcher = BoundedMatcher(before, after, MAX_STEPS_PER_LINE)
    if matcher.ratio() < ALIKE:
        return whole
    sides: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = [], []
    for tag, a, b, c, d in matcher.get_opcodes():
        texts = "".join(before[a:b]), "".join(after[c:d])
        spaces = {text[: len(text) - len(text.lstrip())] for text in texts}
        blank = len(spaces.pop()) if tag == "replace" and len(spaces) == 1 else 0  # what both begin with is no change
        for side, text in zip(sides, texts, strict=True):
            side += [(text[:blank], False)] if blank else []
            side += [(text[blank:], tag != "equal")] if text[blank:] else []
    return tuple(sides[0]), tuple(sides[1])


def _written(hunk: Hunk) -> Iterator[str]:
    yield hunk.opening
    for line in hunk.lines:
        yield line.sign + line.text
        if line.note:
            yield line.note


def _fits(hunk: Hunk, known: Sequence[str]) -> bool:
    old = [line for line in hunk.lines if line.old is not None]
    return all(line.old and line.old <= len(known) and known[line.old - 1] == line.text for line in old)


def _gap(known: Sequence[str] | None, first: int, end: int, new: int) -> Gap:
    texts = known[first - 1 : end - 1] if known is not None else ()
    lines = (Line(" ", ((text, False),), first + n, new + n) for n, text in enumerate(texts))
    return Gap(end - first, tuple(lines))
