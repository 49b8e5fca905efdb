"""Checks the last documentation commits of a repository, and prints the problems that each of them introduced."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pygit2
from pygit2.enums import SortMode

from copydesk.jobs.checks import CheckReport, check
from copydesk.jobs.pages.page_types import is_page
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Workspace

MAX_CHANGED_FILES = 400
"""A commit with more files is an import or a reorganization rather than an edit."""


class CheckedCommit(NamedTuple):
    commit: str
    message: str
    report: CheckReport


def check_history(repository: Path, root: str, count: int) -> Iterator[CheckedCommit]:
    """Yields the checks of the last commits that change a page below `root`, newest first. Skips merges."""
    git = pygit2.Repository(str(repository))
    for commit in git.walk(git.head.target, SortMode.TIME):
        if not count:
            return
        if len(commit.parents) != 1:
            continue
        changed = [delta.new_file.path for delta in commit.parents[0].tree.diff_to_tree(commit.tree).deltas]
        if len(changed) > MAX_CHANGED_FILES or not any(
            is_page(path) and path.startswith(f"{root}/" if root else "") for path in changed
        ):
            continue
        count -= 1
        before = Tree(git, str(commit.parents[0].id))
        report = check(Workspace(Tree(git, str(commit.id))), root=root, origin=before)
        yield CheckedCommit(str(commit.id), commit.message.split("\n")[0], report)
