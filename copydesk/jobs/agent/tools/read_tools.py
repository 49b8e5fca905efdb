"""Tools that read: list, read, search, diff, check."""

import re
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from math import prod

import regex
from pydantic import Field

from copydesk.jobs.agent.tools.tool import Tool, ToolArguments, ToolRefused, read_existing, truncate_output
from copydesk.jobs.workspace.patches import create_patch
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable, is_text
from copydesk.jobs.workspace.workspace import Workspace, short_hash

SEARCH_TIMEOUT_SECONDS = 20.0
# These match differently in a whole text than in a single line, so they rule out searching the whole text first.
LINE_BOUND_PATTERN = re.compile(r"\\[AZGK]|\(\?<?!")
REPETITION_PATTERN = re.compile(r"\{\s*([0-9]+)")
MAX_REPETITIONS = 50_000
"""Limits the product of all repetition counts in a pattern."""
MAX_LINE_CHARS = 400
MAX_PATTERN_CHARS = 1000


class ListFiles(ToolArguments):
    folder: str = Field("", max_length=MAX_PATTERN_CHARS)
    """Only files below this folder; all files when empty."""
    pattern: str = Field("*", max_length=MAX_PATTERN_CHARS)
    """A shell pattern for the whole path, such as *.mdx."""
    offset: int = Field(0, ge=0)
    limit: int = Field(500, ge=1, le=2000)


def list_files(workspace: Workspace, arguments: ListFiles) -> str:
    """Lists the repository's files."""
    prefix = arguments.folder.strip("/") + "/" if arguments.folder.strip("/") else ""
    paths = [p for p in workspace.paths() if p.startswith(prefix) and fnmatchcase(p, arguments.pattern)]
    shown = paths[arguments.offset : arguments.offset + arguments.limit]
    if not shown:
        return "No files match."
    remaining = len(paths) - arguments.offset - len(shown)
    more = f"\n… {remaining} more: ask with offset {arguments.offset + len(shown)}." if remaining > 0 else ""
    return truncate_output("\n".join(shown) + more, "Ask for fewer with limit.")


class ReadFile(ToolArguments):
    path: str
    start: int = Field(1, ge=1)
    """First line, 1-based."""
    lines: int = Field(800, ge=1, le=5000)


def read_file(workspace: Workspace, arguments: ReadFile) -> str:
    """Reads a text file with numbered lines, and its hash, which edit asks for."""
    data = read_existing(workspace, arguments.path)
    try:
        body = DecodedText.decode(data).normalized_body
    except NotEditable as error:
        raise ToolRefused(str(error)) from None
    lines = body.split("\n")
    last = min(len(lines), arguments.start + arguments.lines - 1)
    numbered = [f"{n:>6}\t{lines[n - 1]}" for n in range(arguments.start, last + 1)]
    heading = f"{arguments.path} hash {short_hash(data)}, lines {arguments.start} to {last} of {len(lines)}\n"
    return truncate_output(heading + "\n".join(numbered), "Read fewer lines with start and lines.")


class Search(ToolArguments):
    pattern: str = Field(min_length=1, max_length=MAX_PATTERN_CHARS)
    """A regular expression, matched line by line."""
    files: str = Field("*", max_length=MAX_PATTERN_CHARS)
    """A shell pattern for the paths to search."""
    ignore_case: bool = False
    context: int = Field(0, ge=0, le=10)
    limit: int = Field(100, ge=1, le=1000)


def search(workspace: Workspace, arguments: Search) -> str:
    """Searches the text files for a regular expression; returns path:line: text."""
    pattern = _compile_pattern(arguments)
    deadline = time.monotonic() + SEARCH_TIMEOUT_SECONDS
    output_lines: list[str] = []
    match_count = 0
    can_prefilter = LINE_BOUND_PATTERN.search(arguments.pattern) is None
    for path, data in workspace.files():
        if not fnmatchcase(path, arguments.files) or not is_text(data):
            continue
        text = DecodedText.decode(data).normalized_body
        if can_prefilter and not _find_matching_lines(pattern, [text], deadline):
            continue
        lines = text.split("\n")
        for number in _find_matching_lines(pattern, lines, deadline):
            match_count += 1
            if match_count <= arguments.limit:
                output_lines += _format_match(path, lines, number, arguments.context)
    if not match_count:
        return "Nothing matches."
    heading = (
        ("1 line matches" if match_count == 1 else f"{match_count} lines match")
        + (f", the first {arguments.limit} shown" if match_count > arguments.limit else "")
        + ".\n"
    )
    return truncate_output(heading + "\n".join(output_lines), "Narrow the pattern or the files.")


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


def _format_match(path: str, lines: list[str], match_index: int, context: int) -> list[str]:
    indexes = range(max(0, match_index - context), min(len(lines), match_index + context + 1))
    output_lines = [f"{path}:{n + 1}{':' if n == match_index else '-'} {lines[n][:MAX_LINE_CHARS]}" for n in indexes]
    return [*output_lines, "--"] if context else output_lines


class Diff(ToolArguments):
    path: str = ""
    """Only this file; every changed file when empty."""


def diff(workspace: Workspace, arguments: Diff) -> str:
    """Shows what has been changed so far, as a unified diff."""
    changed_paths = sorted(path for path in workspace.changes() if arguments.path in ("", path))
    if not changed_paths:
        return "Nothing has been changed."
    patches = [
        create_patch(path, workspace.read_original(path), workspace.changes()[path]).data for path in changed_paths
    ]
    return truncate_output(b"".join(patches).decode("utf-8", "replace"), "Ask for one path.")


class Check(ToolArguments):
    pass


def check_tool(check: Callable[[Workspace], str]) -> Tool:
    def run(workspace: Workspace, _arguments: Check) -> str:
        """Checks what has been changed so far: links, front matter, markup, navigation. Says what it found, by line."""
        return truncate_output(check(workspace), "Fix these first, then check again.")

    return Tool.from_function("check", Check, run)


READ_TOOLS = (
    Tool.from_function("list", ListFiles, list_files),
    Tool.from_function("read", ReadFile, read_file),
    Tool.from_function("search", Search, search),
    Tool.from_function("diff", Diff, diff),
)
