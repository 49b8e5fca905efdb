"""The tool history: the commits that changed a file, and who last changed each of its lines."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pygit2
from pydantic import Field
from pygit2.enums import SortMode

from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.jobs.agent.tools.tool import Tool, ToolArguments, ToolRefused, truncate_output
from copydesk.jobs.workspace.workspace import Workspace

MAX_COMMITS_WALKED = 20_000
HISTORY_TIMEOUT_SECONDS = 10.0
MAX_SUBJECT_CHARS = 120
MAX_BLAMED_LINES = 400


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
    subject = truncate(to_single_line(commit.message.strip().partition("\n")[0]), MAX_SUBJECT_CHARS)
    return f"{str(commit.id)[:12]} {day} {to_single_line(commit.author.name)}: {subject}"


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


HISTORY_TOOL = Tool.from_function("history", History, history)
