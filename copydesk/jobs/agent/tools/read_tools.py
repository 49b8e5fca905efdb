"""Tools that look: list, read, search, diff."""

import re
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from math import prod

import regex
from pydantic import Field

from copydesk.jobs.agent.tools.tool import Arguments, Tool, ToolRefused, capped, existing
from copydesk.jobs.workspace.patches import patch_of
from copydesk.jobs.workspace.text_edits import NotEditable, Text, is_text
from copydesk.jobs.workspace.workspace import Workspace, digest

SEARCH_SECONDS = 20.0
# These mean something else in a whole text than in one of its lines.
BOUND_TO_THE_LINE = re.compile(r"\\[AZGK]|\(\?<?!")
LEAST_COUNT = re.compile(r"\{\s*([0-9]+)")
MAX_REPETITIONS = 50_000
"""All counts of a pattern, multiplied."""
LONGEST_LINE = 400
LONGEST_PATTERN = 1000


class ListFiles(Arguments):
    folder: str = Field("", max_length=LONGEST_PATTERN)
    """Only files below this folder; all files when empty."""
    pattern: str = Field("*", max_length=LONGEST_PATTERN)
    """A shell pattern for the whole path, such as *.mdx."""
    offset: int = Field(0, ge=0)
    limit: int = Field(500, ge=1, le=2000)


def list_files(workspace: Workspace, asked: ListFiles) -> str:
    """Lists the repository's files."""
    below = asked.folder.strip("/") + "/" if asked.folder.strip("/") else ""
    paths = [p for p in workspace.paths() if p.startswith(below) and fnmatchcase(p, asked.pattern)]
    shown = paths[asked.offset : asked.offset + asked.limit]
    if not shown:
        return "No files match."
    rest = len(paths) - asked.offset - len(shown)
    more = f"\n… {rest} more: ask with offset {asked.offset + len(shown)}." if rest > 0 else ""
    return capped("\n".join(shown) + more, "Ask for fewer with limit.")


class ReadFile(Arguments):
    path: str
    start: int = Field(1, ge=1)
    """First line, 1-based."""
    lines: int = Field(800, ge=1, le=5000)


def read_file(workspace: Workspace, asked: ReadFile) -> str:
    """Reads a text file with numbered lines, and its hash, which edit asks for."""
    data = existing(workspace, asked.path)
    try:
        body = Text.of(data).shown
    except NotEditable as error:
        raise ToolRefused(str(error)) from None
    lines = body.split("\n")
    last = min(len(lines), asked.start + asked.lines - 1)
    numbered = [f"{n:>6}\t{lines[n - 1]}" for n in range(asked.start, last + 1)]
    head = f"{asked.path} hash {digest(data)}, lines {asked.start} to {last} of {len(lines)}\n"
    return capped(head + "\n".join(numbered), "Read fewer lines with start and lines.")


class Search(Arguments):
    pattern: str = Field(min_length=1, max_length=LONGEST_PATTERN)
    """A regular expression, matched line by line."""
    files: str = Field("*", max_length=LONGEST_PATTERN)
    """A shell pattern for the paths to search."""
    ignore_case: bool = False
    context: int = Field(0, ge=0, le=10)
    limit: int = Field(100, ge=1, le=1000)


def search(workspace: Workspace, asked: Search) -> str:
    """Searches the text files for a regular expression; answers path:line: text."""
    pattern = _compile(asked)
    deadline = time.monotonic() + SEARCH_SECONDS
    found: list[str] = []
    matches = 0
    at_once = BOUND_TO_THE_LINE.search(asked.pattern) is None
    for path, data in workspace.files():
        if not fnmatchcase(path, asked.files) or not is_text(data):
            continue
        text = Text.of(data).shown
        if at_once and not _matching(pattern, [text], deadline):
            continue
        lines = text.split("\n")
        for number in _matching(pattern, lines, deadline):
            matches += 1
            if matches <= asked.limit:
                found += _in_context(path, lines, number, asked.context)
    if not matches:
        return "Nothing matches."
    head = (
        ("1 line matches" if matches == 1 else f"{matches} lines match")
        + (f", the first {asked.limit} shown" if matches > asked.limit else "")
        + ".\n"
    )
    return capped(head + "\n".join(found), "Narrow the pattern or the files.")


def _compile(asked: Search) -> "regex.Pattern[str]":
    """Raises ToolRefused for a pattern that cannot be compiled, or not in a moment: a repetition is written out."""
    if prod(map(int, LEAST_COUNT.findall(asked.pattern))) > MAX_REPETITIONS:
        raise ToolRefused("The pattern repeats something too often; write smaller counts in its braces.")
    try:
        return regex.compile(asked.pattern, regex.MULTILINE | (regex.IGNORECASE if asked.ignore_case else 0))
    except (regex.error, OverflowError, RecursionError) as error:
        raise ToolRefused(f"The pattern is no regular expression: {error}.") from None


def _matching(pattern: "regex.Pattern[str]", lines: list[str], deadline: float) -> list[int]:
    """Returns the numbers of the lines that match. Stops at the deadline, and lets other threads work meanwhile."""
    found = []
    try:
        for number, line in enumerate(lines):
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            if pattern.search(line, timeout=left, concurrent=True):
                found.append(number)
    except TimeoutError:
        raise ToolRefused("The search takes too long; write a simpler pattern or search fewer files.") from None
    return found


def _in_context(path: str, lines: list[str], at: int, context: int) -> list[str]:
    around = range(max(0, at - context), min(len(lines), at + context + 1))
    shown = [f"{path}:{n + 1}{':' if n == at else '-'} {lines[n][:LONGEST_LINE]}" for n in around]
    return [*shown, "--"] if context else shown


class Diff(Arguments):
    path: str = ""
    """Only this file; every changed file when empty."""


def diff(workspace: Workspace, asked: Diff) -> str:
    """Shows what has been changed so far, as a unified diff."""
    changed = sorted(path for path in workspace.changes() if asked.path in ("", path))
    if not changed:
        return "Nothing has been changed."
    patches = [patch_of(path, workspace.original(path), workspace.changes()[path]).data for path in changed]
    return capped(b"".join(patches).decode("utf-8", "replace"), "Ask for one path.")


class Check(Arguments):
    pass


def check_tool(check: Callable[[Workspace], str]) -> Tool:
    def run(workspace: Workspace, _asked: Check) -> str:
        """Checks what has been changed so far: links, front matter, markup, navigation. Says what it found, by line."""
        return capped(check(workspace), "Mend these first, then check again.")

    return Tool.of("check", Check, run)


LOOKING = (
    Tool.of("list", ListFiles, list_files),
    Tool.of("read", ReadFile, read_file),
    Tool.of("search", Search, search),
    Tool.of("diff", Diff, diff),
)
