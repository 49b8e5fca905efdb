"""What became of one file, as git would show it."""

from dataclasses import dataclass

import pygit2


@dataclass(frozen=True)
class FilePatch:
    path: str
    change: str
    additions: int
    deletions: int
    data: bytes


def patch_of(path: str, old: bytes | None, new: bytes | None, context: int = 3) -> FilePatch:
    patch = pygit2.Patch.create_from(old, new, old_as_path=path, new_as_path=path, context_lines=context)
    _, additions, deletions = patch.line_stats
    change = "added" if old is None else "deleted" if new is None else "modified"
    return FilePatch(path, change, additions, deletions, patch.data or b"")


def changed_bytes(old: bytes, new: bytes) -> int:
    """The bytes between what both begin with and what both end with."""
    head = common_prefix(old, new)
    tail = common_prefix(old[head:][::-1], new[head:][::-1])
    return max(len(old), len(new)) - head - tail


def common_prefix(a: bytes, b: bytes) -> int:
    """By halving, so that large equal parts are compared by the machine and not by this loop."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
