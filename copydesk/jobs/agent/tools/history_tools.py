"""Tools that read git's history: history of one page; log and show for context repositories and the documentation."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase

import pygit2
from pydantic import Field
from pygit2.enums import SortMode

from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.jobs.agent.tools.path_filter import Globs
from copydesk.jobs.agent.tools.tool import (
    RepositoryArguments,
    Tool,
    ToolArguments,
    ToolRefused,
    find_context,
    truncate_output,
)
from copydesk.jobs.workspace.context_tree import is_secret_file
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.patches import decode_text, diff_with_parent, list_touched_paths
from copydesk.jobs.workspace.workspace import Workspace

MAX_COMMITS_WALKED = 20_000
HISTORY_TIMEOUT_SECONDS = 10.0
MAX_SUBJECT_CHARS = 120
MAX_BLAMED_LINES = 400
MAX_MESSAGE_CHARS = 4000
MAX_PATHS_LISTED = 8
MAX_FILES_SHOWN = 300
COMMIT_PATTERN = re.compile(r"[0-9a-f]{7,64}")


class History(ToolArguments):
    path: str
    commits: int = Field(10, ge=1, le=50)
    """How many commits to list."""
    first: int = Field(0, ge=0)
    """First line of a range, to see which commit last changed each of its lines; 0 for none."""
    last: int = Field(0, ge=0)


def history(workspace: Workspace, arguments: History) -> str:
    """Lists the commits that changed a file, newest first, and on request who last changed its lines."""
    entry = workspace.tree.find_entry(arguments.path)
    if entry is None or not entry.is_file:
        raise ToolRefused(f"The commit that this job started from has no file {arguments.path}.")
    repository = workspace.tree.repository
    deadline = time.monotonic() + HISTORY_TIMEOUT_SECONDS
    lines = []
    for commit in _walk_changes(repository, workspace.tree.commit, arguments.path, deadline):
        if commit is None:
            lines.append("… older commits were not searched, because that takes too long.")
            break
        lines.append(_describe_commit(commit))
        if len(lines) == arguments.commits:
            break
    if arguments.first:
        lines += ["", *_blame(workspace, arguments)]
    return truncate_output("\n".join(lines), "Ask for fewer commits or lines.")


def _walk_changes(
    repository: pygit2.Repository, start: str, path: str, deadline: float
) -> Iterator[pygit2.Commit | None]:
    """Yields the commits of the main line that changed a file, newest first. None means that the search stopped."""
    walker = repository.walk(repository[start].id, SortMode.TOPOLOGICAL)
    walker.simplify_first_parent()
    for count, commit in enumerate(walker):
        if count >= MAX_COMMITS_WALKED or time.monotonic() > deadline:
            yield None
            return
        try:
            parents = commit.parents[:1]
            if _find_blob(commit, path) != (_find_blob(parents[0], path) if parents else None):
                yield commit
        except KeyError:  # the clone has no older commits
            return


def _find_blob(commit: pygit2.Commit, path: str) -> pygit2.Oid | None:
    try:
        return commit.tree[path].id
    except KeyError:
        return None


def _describe_commit(commit: pygit2.Commit) -> str:
    day = datetime.fromtimestamp(commit.commit_time, UTC).date()
    subject = truncate(to_single_line(decode_text(commit.raw_message).strip().partition("\n")[0]), MAX_SUBJECT_CHARS)
    return f"{str(commit.id)[:12]} {day} {to_single_line(decode_text(commit.author.raw_name))}: {subject}"


def _blame(workspace: Workspace, arguments: History) -> Iterator[str]:
    """Yields a line for each range of lines with the same commit. The lines are those before the job's edits."""
    last = max(arguments.first, min(arguments.last or arguments.first, arguments.first + MAX_BLAMED_LINES - 1))
    repository = workspace.tree.repository
    try:
        blame = repository.blame(
            arguments.path,
            newest_commit=repository[workspace.tree.commit].id,
            min_line=arguments.first,
            max_line=last,
        )
    except (KeyError, ValueError, pygit2.GitError) as error:
        raise ToolRefused(f"These lines cannot be attributed: {error}.") from None
    for hunk in blame:
        end = hunk.final_start_line_number + hunk.lines_in_hunk - 1
        commit = repository[hunk.final_commit_id]
        assert isinstance(commit, pygit2.Commit)
        yield f"lines {hunk.final_start_line_number} to {end}: {_describe_commit(commit)}"


class Log(RepositoryArguments):
    since: str = Field("", max_length=64)
    """A commit, to list the commits after it, or a day such as 2026-01-31; all commits when empty."""
    paths: Globs = Field([])
    """Shell patterns for whole paths: only commits that touch one of them."""
    limit: int = Field(20, ge=1, le=100)


def log(workspace: Workspace, arguments: Log) -> str:
    """Lists commits of the main line, newest first, with the files that each one touches."""
    tree = _select_tree(workspace, arguments.repository)
    deadline = time.monotonic() + HISTORY_TIMEOUT_SECONDS
    lines: list[str] = []
    for count, commit in enumerate(_walk_main_line(tree, arguments.since)):
        if count >= MAX_COMMITS_WALKED or time.monotonic() > deadline:
            lines.append("… older commits were not searched, because that takes too long.")
            break
        touched = list_touched_paths(tree.repository, commit)
        if arguments.paths and not any(fnmatchcase(path, glob) for path in touched for glob in arguments.paths):
            continue
        if len(lines) == arguments.limit:
            lines.append("… there are more commits; ask with a higher limit.")
            break
        lines.append(f"{_describe_commit(commit)}\n    {_list_paths(touched)}")
    return truncate_output("\n".join(lines) or "No commits match.", "Ask for fewer with limit or paths.")


class Show(RepositoryArguments):
    commit: str = Field(min_length=7, max_length=64)
    """The commit's ID, or its first seven or more digits."""
    paths: Globs = Field([])
    """Shell patterns for whole paths: only the changes of these files."""


def show(workspace: Workspace, arguments: Show) -> str:
    """Shows one commit: its message, and what it changed, as a unified diff."""
    tree = _select_tree(workspace, arguments.repository)
    commit = find_commit(tree, arguments.commit)
    if commit is None:
        raise ToolRefused(f"There is no commit {arguments.commit} before the commit that this job reads.")
    parts = [_describe_commit(commit), truncate(decode_text(commit.raw_message).strip(), MAX_MESSAGE_CHARS), ""]
    for count, patch in enumerate(diff_with_parent(tree.repository, commit)):
        if count == MAX_FILES_SHOWN:
            parts.append(f"… only the first {MAX_FILES_SHOWN} files are shown.")
            break
        if patch is None:
            continue
        old_path, path = (decode_text(file.raw_path) for file in (patch.delta.old_file, patch.delta.new_file))
        if is_secret_file(path) or is_secret_file(old_path):
            continue
        if not arguments.paths or any(fnmatchcase(path, glob) for glob in arguments.paths):
            parts.append(patch.data.decode("utf-8", "replace") if not patch.delta.is_binary else f"{path}: binary")
    return truncate_output("\n".join(parts), "Ask for fewer files with paths.")


def _select_tree(workspace: Workspace, repository: str) -> Tree:
    return find_context(workspace, repository).tree if repository else workspace.tree


def _walk_main_line(tree: Tree, since: str) -> Iterator[pygit2.Commit]:
    """Yields the commits of the main line, newest first, until a commit or a day."""
    repository = tree.repository
    stop_id, stop_time = None, 0.0
    if COMMIT_PATTERN.fullmatch(since):
        stop = find_commit(tree, since)
        if stop is None:
            raise ToolRefused(f"There is no commit {since} before the commit that this job reads.")
        stop_id = stop.id
    elif since:
        try:
            day = date.fromisoformat(since)
        except ValueError:
            raise ToolRefused("since must be a commit, or a day such as 2026-01-31.") from None
        stop_time = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    walker = repository.walk(repository[tree.commit].id, SortMode.TOPOLOGICAL)
    walker.simplify_first_parent()
    for commit in walker:
        if commit.id == stop_id or commit.commit_time < stop_time:
            return
        yield commit


def find_commit(tree: Tree, commit_id: str) -> pygit2.Commit | None:
    """Returns a commit by its ID or the beginning of it, if it is the tree's commit or one before it.

    A mirror also has commits of other branches, which this job must not see.
    """
    if not COMMIT_PATTERN.fullmatch(commit_id):
        return None
    repository = tree.repository
    try:
        commit = repository[commit_id]
    except (KeyError, ValueError):
        return None
    tip = repository[tree.commit].id
    if not isinstance(commit, pygit2.Commit) or not (commit.id == tip or repository.descendant_of(tip, commit.id)):
        return None
    return commit


def _list_paths(paths: list[str]) -> str:
    more = f" and {len(paths) - MAX_PATHS_LISTED} more" if len(paths) > MAX_PATHS_LISTED else ""
    return ", ".join(paths[:MAX_PATHS_LISTED]) + more


HISTORY_TOOL = Tool.from_function("history", History, history)
LOG_TOOL = Tool.from_function("log", Log, log)
SHOW_TOOL = Tool.from_function("show", Show, show)
