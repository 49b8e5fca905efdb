"""Patches of changed files, as git shows them."""

from dataclasses import dataclass

import pygit2
from pygit2.enums import DeltaStatus

CHANGE_NAMES = {DeltaStatus.ADDED: "added", DeltaStatus.DELETED: "deleted", DeltaStatus.RENAMED: "renamed"}


@dataclass(frozen=True)
class FilePatch:
    path: str
    change: str
    previous: str | None
    additions: int
    deletions: int
    data: bytes


def create_patch(path: str, old: bytes | None, new: bytes | None, context: int = 3) -> FilePatch:
    patch = pygit2.Patch.create_from(old, new, old_as_path=path, new_as_path=path, context_lines=context)
    _, additions, deletions = patch.line_stats
    change = "added" if old is None else "deleted" if new is None else "modified"
    return FilePatch(path, change, None, additions, deletions, patch.data or b"")


def diff_trees(repository: pygit2.Repository, old: pygit2.Oid, new: pygit2.Oid) -> list[FilePatch]:
    """Returns a patch for each file that differs between two trees. Detects renames."""
    diff = repository[old].peel(pygit2.Tree).diff_to_tree(repository[new].peel(pygit2.Tree))
    diff.find_similar()
    patches = []
    for patch in diff:
        assert patch is not None
        delta = patch.delta
        _, additions, deletions = patch.line_stats
        change = CHANGE_NAMES.get(delta.status, "modified")
        previous = delta.old_file.path if change == "renamed" else None
        patches.append(FilePatch(delta.new_file.path, change, previous, additions, deletions, patch.data or b""))
    return patches


def count_changed_bytes(old: bytes, new: bytes) -> int:
    """Returns the length of the longer version without the common prefix and suffix."""
    prefix = common_prefix_length(old, new)
    suffix = common_prefix_length(old[prefix:][::-1], new[prefix:][::-1])
    return max(len(old), len(new)) - prefix - suffix


def common_prefix_length(a: bytes, b: bytes) -> int:
    """Returns the length of the common prefix. Uses binary search, since comparing slices is faster than a loop."""
    low = 0
    high = min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
