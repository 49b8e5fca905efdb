"""Merges trees with libgit2. Before it does, their size is tested: it reads all three, and what both sides changed."""

import pygit2
from pygit2.enums import FileMode, MergeFlag

from copydesk.jobs.workspace.git_tree import Entry, Tree


def merge_trees(ancestor: Tree, ours: Tree, theirs: Tree) -> pygit2.Oid | None:
    """The merged tree; None when they conflict."""
    for tree in (ancestor, ours, theirs):
        tree.refuse_oversize()
    ours_changed, theirs_changed = _changed(ancestor, ours), _changed(ancestor, theirs)
    large = {path for path, is_large in (*ours_changed.items(), *theirs_changed.items()) if is_large}
    if large & ours_changed.keys() & theirs_changed.keys():
        return None  # two versions of a file that is too large to be read
    flags = MergeFlag(0) if large else MergeFlag.FIND_RENAMES  # renames are found by reading what came and what went
    index = ours.repository.merge_trees(ancestor.root, ours.root, theirs.root, flags=flags)
    return None if index.conflicts is not None else index.write_tree(ours.repository)


def merge_commits(ours: Tree, theirs: Tree) -> pygit2.Oid | None:
    """The merged tree of two commits, by the newest commit that both have; None when they conflict."""
    base = ours.repository.merge_base(ours.commit, theirs.commit)
    if base is None:
        return None
    return merge_trees(Tree(ours.repository, str(base), ours.limits, ours.check), ours, theirs)


def _changed(before: Tree, after: Tree) -> dict[bytes, bool]:
    """The paths that differ, and whether one of their two versions is too large to be read."""
    repository = before.repository
    diff = repository[before.root].peel(pygit2.Tree).diff_to_tree(repository[after.root].peel(pygit2.Tree))
    found: dict[bytes, bool] = {}
    for delta in diff.deltas:
        for file in (delta.old_file, delta.new_file):
            is_blob = file.mode in (FileMode.BLOB, FileMode.BLOB_EXECUTABLE, FileMode.LINK)
            is_large = is_blob and not after.is_readable(Entry(file.mode, file.id))
            found[file.raw_path] = found.get(file.raw_path, False) or is_large
    return found
