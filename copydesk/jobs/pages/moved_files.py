"""Where files of earlier commits are now: the renames in the history of a repository."""

import pygit2
from pygit2.enums import DeltaStatus, DiffOption, SortMode

from copydesk.jobs.workspace.git_tree import Tree

MAX_COMMITS = 2_000
"""How many commits are searched, newest first, along the first parents."""
MAX_DELTAS_PER_COMMIT = 2_000
"""Larger commits are skipped: they import or generate a site, and comparing all files with all others is slow."""
MAX_COMPARED_FILES = 200
RENAME_SIMILARITY = 60
"""The share of a file in percent that must be the same for a rename."""


def find_moved_files(tree: Tree) -> dict[str, str]:
    """Returns the paths that files had in earlier commits, with the paths of the same files in this commit.

    Files that were deleted are not included, nor paths that exist now.
    """
    moved: dict[str, str] = {}
    walker = tree.repository.walk(pygit2.Oid(hex=tree.commit), SortMode.TOPOLOGICAL)
    walker.simplify_first_parent()
    for count, commit in enumerate(walker):
        if count >= MAX_COMMITS or not commit.parents:
            break
        tree.raise_if_stopped()
        for old, new in _list_renames(tree.repository, commit):
            # Commits come newest first, so a later move of the new path is known already.
            current = moved.get(new, new)
            if old not in moved:
                moved[old] = current
    return {
        old: new
        for old, new in moved.items()
        if tree.find_entry(old) is None and (entry := tree.find_entry(new)) is not None and entry.is_file
    }


def _list_renames(repository: pygit2.Repository, commit: pygit2.Commit) -> list[tuple[str, str]]:
    try:
        diff = repository.diff(commit.parents[0], commit, flags=DiffOption.SKIP_BINARY_CHECK)
        if len(diff) > MAX_DELTAS_PER_COMMIT or not any(d.status == DeltaStatus.DELETED for d in diff.deltas):
            return []
        diff.find_similar(rename_threshold=RENAME_SIMILARITY, rename_limit=MAX_COMPARED_FILES)
    except (pygit2.GitError, KeyError):  # an object is missing, for example in a shallow clone
        return []
    return [(delta.old_file.path, delta.new_file.path) for delta in diff.deltas if delta.status == DeltaStatus.RENAMED]
