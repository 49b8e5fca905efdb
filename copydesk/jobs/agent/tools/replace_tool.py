"""The tool replace: one text by another in several files, after a preview of every occurrence."""

import hashlib
import json
from collections.abc import Iterator
from typing import NamedTuple

import regex
from pydantic import Field

from copydesk.core.text.plurals import pluralize
from copydesk.jobs.agent.tools.path_filter import PathArguments, PathFilter
from copydesk.jobs.agent.tools.tool import MAX_OUTPUT_CHARS, Tool, ToolRefused
from copydesk.jobs.agent.tools.write_tools import MAX_REASON_CHARS, refuse_reformatting
from copydesk.jobs.workspace.text_edits import DecodedText, is_text, reject_new_control_characters
from copydesk.jobs.workspace.workspace import Workspace, short_hash

MAX_TEXT_CHARS = 4000
MAX_REPLACED_FILES = 300
MAX_OCCURRENCES = 2000
"""Maximum number of occurrences in one file."""
MAX_SHOWN_CHARS = 200


class Replace(PathArguments):
    old: str = Field(min_length=1, max_length=MAX_TEXT_CHARS)
    """The exact text to replace; may span lines."""
    new: str = Field(max_length=MAX_TEXT_CHARS)
    whole_words: bool = True
    """Leave occurrences inside longer words alone."""
    confirm: str = Field("", max_length=100)
    """The code that the preview ended with, to carry out exactly what it showed; empty for a preview."""
    reformat: str = Field("", max_length=MAX_REASON_CHARS)
    """As for edit."""


class _ReplacedFile(NamedTuple):
    path: str
    data: bytes
    new_data: bytes
    lines: list[str]
    """One line for each occurrence, as the preview shows it."""


def replace(workspace: Workspace, arguments: Replace) -> str:
    """Replaces a text in several files. First shows every line that would change; repeat the call with confirm."""
    path_filter = PathFilter(workspace, arguments)
    files = list(_find_occurrences(workspace, arguments, path_filter))
    left_out = path_filter.describe_left_out().replace("searched", "changed")
    if not files:
        raise ToolRefused(f"'old' occurs in no file that may be changed. {left_out}".rstrip())
    if len(files) > MAX_REPLACED_FILES:
        raise ToolRefused(f"'old' occurs in {len(files)} files, more than {MAX_REPLACED_FILES}. Narrow the files.")
    code = _fingerprint(arguments, files)
    if not arguments.confirm:
        return _render_preview(files, code, left_out)
    if arguments.confirm != code:
        raise ToolRefused("The files or the arguments are not those of the preview. Ask for a preview again.")
    for file in files:
        refuse_reformatting(workspace, file.path, file.data, file.new_data, arguments.reformat)
        workspace.write(file.path, file.new_data)
    names = ", ".join(f"{file.path} (hash {short_hash(file.new_data)})" for file in files)
    count = sum(len(file.lines) for file in files)
    return f"Replaced {pluralize(count, 'occurrence')} in {names}."


def _find_occurrences(workspace: Workspace, arguments: Replace, path_filter: PathFilter) -> Iterator[_ReplacedFile]:
    reject_new_control_characters(arguments.old, arguments.new)
    old = arguments.old.replace("\r\n", "\n")
    pattern = regex.compile(regex.escape(old, literal_spaces=True).replace("\n", "\r?\n"))

    def may_replace(path: str) -> bool:
        return path_filter.matches(path) and workspace.is_documentation(path) and workspace.may_change(path)

    for path, data in workspace.files(may_replace):
        if not is_text(data):
            continue
        text = DecodedText.decode(data)
        spans = [match.span() for match in pattern.finditer(text.body)]
        spans = [span for span in spans if not arguments.whole_words or _is_whole(text.body, *span)]
        if not spans or not path_filter.selects(path):
            continue
        newline = "\r\n" if "\r\n" in text.body else "\n"
        new = arguments.new.replace("\r\n", "\n").replace("\n", newline)
        if len(spans) > MAX_OCCURRENCES:
            raise ToolRefused(f"'old' occurs {len(spans):,} times in {path}. Give a longer text, or leave it out.")
        pieces, position, line_number, lines = [], 0, 1, []
        for start, end in spans:
            pieces += [text.body[position:start], new]
            line_number += text.body.count("\n", position, start)
            lines.append(f"{path}:{line_number}: {_describe_occurrence(text.body, start, end, new)}")
            line_number += text.body.count("\n", start, end)
            position = end
        yield _ReplacedFile(path, data, text.encode("".join(pieces) + text.body[position:]), lines)


def _is_whole(body: str, start: int, end: int) -> bool:
    """Returns whether a match neither continues a word before it nor after it."""
    begins = start == 0 or not (_is_word_char(body[start]) and _is_word_char(body[start - 1]))
    ends = end == len(body) or not (_is_word_char(body[end - 1]) and _is_word_char(body[end]))
    return begins and ends


def _is_word_char(character: str) -> bool:
    return character.isalnum() or character == "_"


def _describe_occurrence(body: str, start: int, end: int, new: str) -> str:
    """Returns the line with the new text, or the part of a long line around it."""
    before = body[max(0, start - MAX_SHOWN_CHARS) : start].rpartition("\n")[2]
    after = body[end : end + MAX_SHOWN_CHARS].partition("\n")[0].rstrip("\r")
    return f"{before}{new}{after}".replace("\r\n", "\n").replace("\n", " ⏎ ")


def _render_preview(files: list[_ReplacedFile], code: str, left_out: str) -> str:
    count = sum(len(file.lines) for file in files)
    lines: list[str] = []
    chars = 0
    omitted: list[str] = []
    for file in files:
        chars += sum(map(len, file.lines))
        if lines and chars > MAX_OUTPUT_CHARS // 2:
            omitted.append(f"{file.path} ({len(file.lines)})")
        else:
            lines += file.lines
    heading = (
        f"Nothing was changed yet. {pluralize(count, 'occurrence')} in {pluralize(len(files), 'file')} would read:"
    )
    more = [f"Not shown: {', '.join(omitted)}."] if omitted else []
    ending = f"To carry this out, repeat the call with confirm {code}; leave out wrong files with exclude."
    return "\n".join([heading, *lines, *more, *([left_out] if left_out else []), ending])


def _fingerprint(arguments: Replace, files: list[_ReplacedFile]) -> str:
    """Returns a code for the arguments and for the state of all files, so that nothing is changed unseen."""
    state = [
        arguments.old,
        arguments.new,
        arguments.whole_words,
        [(file.path, short_hash(file.data)) for file in files],
    ]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:8]


REPLACE_TOOL = Tool.from_function("replace", Replace, replace)
