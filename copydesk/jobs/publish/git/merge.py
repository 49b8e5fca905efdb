"""Merges trees with libgit2. Checks their size first, because libgit2 reads all three trees and the changed files."""

import pygit2
from pygit2.enums import FileMode, MergeFlag

from copydesk.jobs.workspace.git_tree import Tree, TreeEntry


def merge_trees(ancestor: Tree, ours: Tree, theirs: Tree) -> pygit2.Oid | None:
    """Returns the merged tree, or None on a conflict."""
    for tree in (ancestor, ours, theirs):
        tree.validate_size()
    ours_changed = _find_changed_paths(ancestor, ours)
    theirs_changed = _find_changed_paths(ancestor, theirs)
    large_paths = {path for path, is_large in (*ours_changed.items(), *theirs_changed.items()) if is_large}
    if large_paths & ours_changed.keys() & theirs_changed.keys():
        return None  # both sides changed a file that is too large to read
    # Finding renames reads all added and deleted files.
    flags = MergeFlag(0) if large_paths else MergeFlag.FIND_RENAMES
    index = ours.repository.merge_trees(ancestor.root, ours.root, theirs.root, flags=flags)
    return None if index.conflicts is not None else index.write_tree(ours.repository)


def merge_commits(ours: Tree, theirs: Tree) -> pygit2.Oid | None:
    """Returns the merged tree of two commits, or None if they conflict or have no common ancestor."""
    base = ours.repository.merge_base(ours.commit, theirs.commit)
    if base is None:
        return None
    return merge_trees(Tree(ours.repository, str(base), ours.limits, ours.raise_if_stopped), ours, theirs)


def _find_changed_paths(before: Tree, after: Tree) -> dict[bytes, bool]:
    """Returns the paths that differ, each with whether one of its two versions is too large to read."""
    repository = before.repository
    diff = repository[before.root].peel(pygit2.Tree).diff_to_tree(repository[after.root].peel(pygit2.Tree))
    changed_paths: dict[bytes, bool] = {}
    for delta in diff.deltas:
        for file in (delta.old_file, delta.new_file):
            is_blob = file.mode in (FileMode.BLOB, FileMode.BLOB_EXECUTABLE, FileMode.LINK)
            is_large = is_blob and not after.is_readable(TreeEntry(file.mode, file.id))
            changed_paths[file.raw_path] = changed_paths.get(file.raw_path, False) or is_large
    return changed_paths
