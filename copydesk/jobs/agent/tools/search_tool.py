"""The tool search: finds the lines that match a regular expression, in bounded time."""

import re
import time
from collections.abc import Iterable, Iterator
from math import prod

import regex
from pydantic import Field

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
from copydesk.jobs.workspace.workspace import Workspace

SEARCH_TIMEOUT_SECONDS = 20.0
# These match differently in a whole text than in a single line, so they rule out searching the whole text first.
LINE_BOUND_PATTERN = re.compile(r"\\[AZGK]|\(\?<?!")
REPETITION_PATTERN = re.compile(r"\{\s*([0-9]+)")
MAX_REPETITIONS = 50_000
"""Limits the product of all repetition counts in a pattern."""
MAX_LINE_CHARS = 400
MAX_FILES_LISTED = 60


class Search(PathArguments, RepositoryArguments):
    pattern: str = Field(min_length=1, max_length=MAX_PATTERN_CHARS)
    """A regular expression, matched line by line."""
    ignore_case: bool = False
    context: int = Field(0, ge=0, le=10)
    """Lines to show before and after each match."""
    offset: int = Field(0, ge=0)
    """Matches to skip."""
    limit: int = Field(100, ge=1, le=1000)


def search(workspace: Workspace, arguments: Search) -> str:
    """Searches the text files for a regular expression; returns path:line: text. Counts every match, shows a part."""
    files = select_files(workspace, arguments.repository)
    path_filter = PathFilter(files, arguments)
    results = _SearchResults(arguments)
    for path, lines, numbers in _find_matches(files, arguments, path_filter):
        results.add_file(path, lines, numbers)
    return "\n".join(filter(None, (results.render(), path_filter.describe_left_out())))


class _SearchResults:
    """Collects the matches to show, from `offset` on, and counts the others by file."""

    def __init__(self, arguments: Search) -> None:
        self._arguments = arguments
        self._lines: list[str] = []
        self._chars_left = MAX_OUTPUT_CHARS * 4 // 5
        self._match_count = self._file_count = self._shown_count = 0
        self._more_by_file: dict[str, int] = {}

    def add_file(self, path: str, lines: list[str], numbers: list[int]) -> None:
        first = max(0, self._arguments.offset - self._match_count)
        self._match_count += len(numbers)
        self._file_count += 1
        wanted = numbers[first : first + self._arguments.limit - self._shown_count]
        shown = 0
        for block in _merge_context(wanted, self._arguments.context, len(lines)):
            matches = [number for number in wanted if number in block]
            text = [_format_line(path, lines, number, number in matches) for number in block]
            text += ["--"] if self._arguments.context else []
            if self._chars_left < sum(map(len, text)) and self._lines:
                self._chars_left = 0
                break
            self._chars_left -= sum(map(len, text))
            self._lines += text
            shown += len(matches)
        self._shown_count += shown
        if remaining := len(numbers) - min(first, len(numbers)) - shown:
            self._more_by_file[path] = remaining

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


def _find_matches(
    files: ReadableFiles, arguments: Search, path_filter: PathFilter
) -> Iterator[tuple[str, list[str], list[int]]]:
    """Yields each file with matches: its path, its lines, and the indexes of the matching ones."""
    pattern = _compile_pattern(arguments)
    deadline = time.monotonic() + SEARCH_TIMEOUT_SECONDS
    can_prefilter = LINE_BOUND_PATTERN.search(arguments.pattern) is None
    for path, data in files.files():
        if not is_text(data) or not path_filter.selects(path):
            continue
        text = DecodedText.decode(data).normalized_body
        if can_prefilter and not _find_matching_lines(pattern, [text], deadline):
            continue
        lines = text.split("\n")
        if numbers := _find_matching_lines(pattern, lines, deadline):
            yield path, lines, numbers


def _compile_pattern(arguments: Search) -> "regex.Pattern[str]":
    """Compiles the pattern. Raises ToolRefused if it is invalid or slow to compile: repetitions are expanded."""
    if prod(map(int, REPETITION_PATTERN.findall(arguments.pattern))) > MAX_REPETITIONS:
        raise ToolRefused("The pattern repeats something too often; write smaller counts in its braces.")
    try:
        return regex.compile(arguments.pattern, regex.MULTILINE | (regex.IGNORECASE if arguments.ignore_case else 0))
    except (regex.error, OverflowError, RecursionError) as error:
        raise ToolRefused(f"The pattern is not a valid regular expression: {error}.") from None


def _find_matching_lines(pattern: "regex.Pattern[str]", lines: list[str], deadline: float) -> list[int]:
    """Returns the indexes of the matching lines. Raises ToolRefused at the deadline. Lets other threads run."""
    numbers = []
    try:
        for number, line in enumerate(lines):
            if (seconds_left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            if pattern.search(line, timeout=seconds_left, concurrent=True):
                numbers.append(number)
    except TimeoutError:
        raise ToolRefused("The search takes too long; write a simpler pattern or search fewer files.") from None
    return numbers


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


def _format_line(path: str, lines: list[str], number: int, is_match: bool) -> str:
    line = lines[number]
    if len(line) > MAX_LINE_CHARS:
        line = f"{line[:MAX_LINE_CHARS]} … [cut: {len(line):,} characters]"
    return f"{path}:{number + 1}{':' if is_match else '-'} {line}"


SEARCH_TOOL = Tool.from_function("search", Search, search)
