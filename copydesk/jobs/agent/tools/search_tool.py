"""The tool search: finds the lines that match a regular expression, in bounded time."""

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Annotated, NamedTuple

import regex
from pydantic import BeforeValidator, Field

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.tools.path_filter import MAX_PATTERN_CHARS, PathArguments, PathFilter
from copydesk.jobs.agent.tools.tool import (
    MAX_OUTPUT_CHARS,
    RepositoryArguments,
    Tool,
    ToolRefused,
    select_files,
)
from copydesk.jobs.workspace.context_tree import ReadableFiles
from copydesk.jobs.workspace.text_edits import DecodedText, is_text
from copydesk.jobs.workspace.workspace import Workspace, short_hash

SEARCH_TIMEOUT_SECONDS = 20.0
# A single line can match these where the whole text does not, so that the whole text does not show which lines match.
LINE_BOUND_PATTERN = re.compile(r"\\[AZGK]|\(\?<?!|\(\?>|[*+?}]\+")
REPETITION_PATTERN = re.compile(r"\{\s*([0-9]+)")
MAX_REPETITIONS = 50_000
"""Limits the product of all repetition counts in a pattern."""
MAX_LINE_CHARS = 400
MAX_FILES_LISTED = 60
MAX_CONTEXT_LINES = 10


def _clamp_context(value: object) -> object:
    return min(max(value, 0), MAX_CONTEXT_LINES) if isinstance(value, int) else value


class FileMatches(NamedTuple):
    path: str
    data: bytes
    lines: list[str]
    """All lines of the file."""
    numbers: list[int]
    """The indexes of the matching lines."""


class Search(PathArguments, RepositoryArguments):
    pattern: str = Field(min_length=1, max_length=MAX_PATTERN_CHARS)
    """A regular expression; may span lines."""
    ignore_case: bool = False
    context: Annotated[int, BeforeValidator(_clamp_context)] = Field(0, ge=0, le=MAX_CONTEXT_LINES)
    """Lines to show before and after each match."""
    offset: int = Field(0, ge=0)
    """Matches to skip."""
    limit: int = Field(100, ge=1, le=1000)


def search(workspace: Workspace, arguments: Search) -> str:
    """Searches the text files for a regular expression. Shows each file's hash, and lines as number: text. Counts
    every match, shows a part."""
    files = select_files(workspace, arguments.repository)
    path_filter = PathFilter(files, arguments)
    results = _SearchResults(arguments)
    for file in _find_matches(files, arguments, path_filter):
        results.add_file(file)
    return "\n".join(filter(None, (results.render(), path_filter.describe_left_out())))


class _SearchResults:
    """Collects the matches to show, from `offset` on, and counts the others by file."""

    def __init__(self, arguments: Search) -> None:
        self._arguments = arguments
        self._lines: list[str] = []
        self._chars_left = MAX_OUTPUT_CHARS * 4 // 5
        self._match_count = self._file_count = self._shown_count = 0
        self._more_by_file: dict[str, int] = {}

    def add_file(self, file: FileMatches) -> None:
        first = max(0, self._arguments.offset - self._match_count)
        self._match_count += len(file.numbers)
        self._file_count += 1
        wanted = file.numbers[first : first + self._arguments.limit - self._shown_count]
        shown = 0
        for block in _merge_context(wanted, self._arguments.context, len(file.lines)):
            matches = [number for number in wanted if number in block]
            text = [_format_line(file.lines, number, number in matches) for number in block]
            text += ["--"] if self._arguments.context else []
            text = text if shown else [f"{file.path} hash {short_hash(file.data)}", *text]
            if self._chars_left < sum(map(len, text)) and self._lines:
                self._chars_left = 0
                break
            self._chars_left -= sum(map(len, text))
            self._lines += text
            shown += len(matches)
        self._shown_count += shown
        if remaining := len(file.numbers) - min(first, len(file.numbers)) - shown:
            self._more_by_file[file.path] = remaining

    def render(self) -> str:
        if not self._match_count:
            return "Nothing matches."
        verb = "matches" if self._match_count == 1 else "match"
        heading = f"{pluralize(self._match_count, 'line')} {verb} in {pluralize(self._file_count, 'file')}"
        offset = self._arguments.offset
        if self._shown_count < self._match_count:
            heading += f"; shown: {offset + 1} to {offset + self._shown_count}" if self._shown_count else "; none shown"
        parts = [heading + ".", *self._lines]
        if self._more_by_file:
            counts = [f"{path} ({count})" for path, count in self._more_by_file.items()]
            omitted = len(counts) - MAX_FILES_LISTED
            more = f", and {omitted} more files" if omitted > 0 else ""
            parts.append(f"Further matches, with offset {offset + self._shown_count}: ")
            parts[-1] += ", ".join(counts[:MAX_FILES_LISTED]) + more
        return "\n".join(parts)


def _find_matches(files: ReadableFiles, arguments: Search, path_filter: PathFilter) -> Iterator[FileMatches]:
    """Yields each file with matches."""
    is_line_bound = LINE_BOUND_PATTERN.search(arguments.pattern) is not None
    matcher = _Matcher(_compile_pattern(arguments), is_line_bound, time.monotonic() + SEARCH_TIMEOUT_SECONDS)
    for path, data in files.files(path_filter.selects):
        if not is_text(data):
            continue
        text = DecodedText.decode(data).normalized_body
        if numbers := matcher.find_lines(text):
            yield FileMatches(path, data, text.split("\n"), numbers)


def _compile_pattern(arguments: Search) -> "regex.Pattern[str]":
    """Compiles the pattern. Raises ToolRefused if it is invalid or slow to compile: repetitions are expanded."""
    if prod(map(int, REPETITION_PATTERN.findall(arguments.pattern))) > MAX_REPETITIONS:
        raise ToolRefused("The pattern repeats something too often; write smaller counts in its braces.")
    try:
        return regex.compile(arguments.pattern, regex.MULTILINE | (regex.IGNORECASE if arguments.ignore_case else 0))
    except (regex.error, OverflowError, RecursionError) as error:
        raise ToolRefused(f"The pattern is not a valid regular expression: {error}.") from None


@dataclass(frozen=True)
class _Matcher:
    """Finds the lines that match on their own, and those of a match that needs several of them.

    Raises ToolRefused at the deadline."""

    pattern: "regex.Pattern[str]"
    is_line_bound: bool
    """Whether a line can match although nothing in the whole text does."""
    deadline: float

    def find_lines(self, text: str) -> list[int]:
        """Returns the indexes of the matching lines, sorted."""
        numbers: set[int] = set()
        if self.is_line_bound:
            numbers = {number for number, line in enumerate(text.split("\n")) if self._search(line)}
        lines: list[str] | None = None
        position = number = 0
        while position <= len(text) and (match := self._search(text, position)):
            lines = lines or text.split("\n")
            content = match[0].strip("\n")  # line ends alone do not touch the lines around them
            start = match.start() + (match[0].index(content) if content else 0)
            end = start + len(content)
            first = number + text.count("\n", position, start)
            last = first + text.count("\n", start, end)
            touched = range(first, last + 1)
            numbers.update([each for each in touched if self._search(lines[each])] or touched)
            next_end = text.find("\n", end)
            position, number = (next_end if next_end >= 0 else len(text)) + 1, last + 1
        return sorted(numbers)

    def _search(self, text: str, position: int = 0) -> "regex.Match[str] | None":
        """Searches from a position on. Lets other threads run."""
        try:
            if (seconds_left := self.deadline - time.monotonic()) <= 0:
                raise TimeoutError
            return self.pattern.search(text, position, timeout=seconds_left, concurrent=True)
        except TimeoutError:
            raise ToolRefused("The search takes too long; write a simpler pattern or search fewer files.") from None


def _merge_context(numbers: Iterable[int], context: int, line_count: int) -> Iterator[range]:
    """Yields blocks of lines: each match with its context, joined where two of them overlap or touch."""
    block: range | None = None
    for number in numbers:
        start, stop = max(0, number - context), min(line_count, number + context + 1)
        if block is not None and context and start <= block.stop:
            block = range(block.start, stop)
            continue
        if block is not None:
            yield block
        block = range(start, stop)
    if block is not None:
        yield block


def _format_line(lines: list[str], number: int, is_match: bool) -> str:
    line = lines[number]
    if len(line) > MAX_LINE_CHARS:
        line = f"{line[:MAX_LINE_CHARS]} … [cut: {len(line):,} characters]"
    return f"{number + 1}{':' if is_match else '-'} {line}"


SEARCH_TOOL = Tool.from_function("search", Search, search)
