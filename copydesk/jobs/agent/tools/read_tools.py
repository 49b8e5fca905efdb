"""Tools that read files: list, read, diff."""

from fnmatch import fnmatchcase

from pydantic import Field

from copydesk.jobs.agent.tools.path_filter import MAX_PATTERN_CHARS
from copydesk.jobs.agent.tools.tool import (
    MAX_OUTPUT_CHARS,
    RepositoryArguments,
    Tool,
    ToolArguments,
    ToolRefused,
    read_existing,
    select_files,
    truncate_output,
)
from copydesk.jobs.workspace.context_tree import ReadableFiles
from copydesk.jobs.workspace.patches import pair_renames, render_patch
from copydesk.jobs.workspace.repository_limits import FileTooLarge
from copydesk.jobs.workspace.text_edits import DecodedText, NotEditable
from copydesk.jobs.workspace.workspace import Workspace, short_hash

MAX_PATHS = 50


class ListFiles(RepositoryArguments):
    folder: str = Field("", max_length=MAX_PATTERN_CHARS)
    """Only files below this folder; all files when empty."""
    pattern: str = Field("*", max_length=MAX_PATTERN_CHARS)
    """A shell pattern for the whole path, such as *.mdx."""
    offset: int = Field(0, ge=0)
    limit: int = Field(500, ge=1, le=2000)


def list_files(workspace: Workspace, arguments: ListFiles) -> str:
    """Lists the repository's files."""
    prefix = arguments.folder.strip("/") + "/" if arguments.folder.strip("/") else ""
    files = select_files(workspace, arguments.repository)
    paths = [p for p in files.paths() if p.startswith(prefix) and fnmatchcase(p, arguments.pattern)]
    shown = paths[arguments.offset : arguments.offset + arguments.limit]
    if not shown:
        return "No files match."
    remaining = len(paths) - arguments.offset - len(shown)
    more = f"\n… {remaining} more: ask with offset {arguments.offset + len(shown)}." if remaining > 0 else ""
    return truncate_output("\n".join(shown) + more, "Ask for fewer with limit.")


class ReadFile(RepositoryArguments):
    path: str = ""
    paths: list[str] = Field([], max_length=MAX_PATHS)
    """Several files at once, instead of path."""
    start: int = Field(1, ge=1)
    """First line, 1-based."""
    lines: int = Field(800, ge=1, le=5000)


def read_file(workspace: Workspace, arguments: ReadFile) -> str:
    """Reads text files with numbered lines, and their hashes, which edit asks for."""
    paths = list(dict.fromkeys(([arguments.path] if arguments.path else []) + arguments.paths))
    if not paths:
        raise ToolRefused("Give a path, or several paths.")
    files = select_files(workspace, arguments.repository)
    if len(paths) == 1:
        return truncate_output(_render_file(files, paths[0], arguments), "Read fewer lines with start and lines.")
    parts: list[str] = []
    chars = 0
    unread: list[str] = []
    for path in paths:
        try:
            part = _render_file(files, path, arguments)
        except (ToolRefused, FileTooLarge) as refusal:
            part = f"{path}: {refusal}"
        if parts and chars + len(part) > MAX_OUTPUT_CHARS:
            unread.append(path)
            continue
        parts.append(truncate_output(part, "Read fewer lines with start and lines."))
        chars += len(part)
    if unread:
        parts.append(f"Not read, because that is too much at once: {', '.join(unread)}.")
    return "\n\n".join(parts)


def _render_file(files: ReadableFiles, path: str, arguments: ReadFile) -> str:
    data = read_existing(files, path)
    try:
        body = DecodedText.decode(data).normalized_body
    except NotEditable as error:
        raise ToolRefused(str(error)) from None
    lines = body.split("\n")
    last = min(len(lines), arguments.start + arguments.lines - 1)
    numbered = [f"{n:>6}\t{lines[n - 1]}" for n in range(arguments.start, last + 1)]
    heading = f"{path} hash {short_hash(data)}, lines {arguments.start} to {last} of {len(lines)}\n"
    return heading + "\n".join(numbered)


class Diff(ToolArguments):
    path: str = ""
    """Only this file; every changed file when empty."""


def diff(workspace: Workspace, arguments: Diff) -> str:
    """Shows what has been changed so far, as a unified diff. A moved file is shown as renamed."""
    changes = workspace.changes()
    previous_paths = pair_renames(changes, workspace.read_original)
    shown = [
        path
        for path in sorted(changes.keys() - previous_paths.values())
        if arguments.path in ("", path, previous_paths.get(path))
    ]
    if not shown:
        return "Nothing has been changed."
    patches = []
    for path in shown:
        previous = previous_paths.get(path, path)
        patches.append(render_patch(previous, path, workspace.read_original(previous), changes[path]))
    return truncate_output(b"".join(patches).decode("utf-8", "replace"), "Ask for one path.")


LIST_TOOL = Tool.from_function("list", ListFiles, list_files)
READ_TOOL = Tool.from_function("read", ReadFile, read_file)
DIFF_TOOL = Tool.from_function("diff", Diff, diff)
