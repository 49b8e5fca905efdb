"""Patches of changed files, as git shows them."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pygit2
from pygit2.enums import DeltaStatus, FileMode

CHANGE_NAMES = {DeltaStatus.ADDED: "added", DeltaStatus.DELETED: "deleted", DeltaStatus.RENAMED: "renamed"}

REGULAR_FILE_MODES = (FileMode.BLOB, FileMode.BLOB_EXECUTABLE)
MIN_RENAME_SIMILARITY = 0.5
MAX_RENAME_PAIRS = 10_000
"""Above this many pairs of a deleted and an added file, only files with the same bytes count as renamed."""


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


def render_patch(old_path: str, new_path: str, old: bytes | None, new: bytes | None) -> bytes:
    """Returns the patch of a file, which says that the file was renamed if the two paths differ."""
    patch = pygit2.Patch.create_from(old, new, old_as_path=old_path, new_as_path=new_path)
    data = patch.data or b""
    if old_path == new_path:
        return data
    _, _, hunks = data.partition(b"\n+++ ")
    renamed = f"diff --git a/{old_path} b/{new_path}\nrename from {old_path}\nrename to {new_path}\n".encode()
    return renamed + (f"--- a/{old_path}\n+++ ".encode() + hunks if hunks else b"")


def pair_renames(changes: Mapping[str, bytes | None], read_original: Callable[[str], bytes | None]) -> dict[str, str]:
    """Returns the earlier path of each added file that equals or resembles a deleted one, each at most once."""
    deleted = {path: read_original(path) or b"" for path, data in changes.items() if data is None}
    added = {path: data for path, data in changes.items() if data is not None and read_original(path) is None}
    if len(deleted) * len(added) > MAX_RENAME_PAIRS:
        similarities = ((1.0, new, old) for new, data in added.items() for old in deleted if deleted[old] == data)
    else:
        old_lines = {path: Counter(data.splitlines()) for path, data in deleted.items()}
        new_lines = {path: Counter(data.splitlines()) for path, data in added.items()}
        similarities = ((_similarity(old_lines[old], new_lines[new]), new, old) for new in added for old in deleted)
    renames: dict[str, str] = {}
    for _, new, old in sorted((-each, new, old) for each, new, old in similarities if each >= MIN_RENAME_SIMILARITY):
        if new not in renames and old not in renames.values():
            renames[new] = old
    return renames


def _similarity(old_lines: Counter[bytes], new_lines: Counter[bytes]) -> float:
    """Returns the share of lines that both files have, between 0 and 1."""
    total = old_lines.total() + new_lines.total()
    return 2 * (old_lines & new_lines).total() / total if total else 1.0


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


def list_changed_files(
    repository: pygit2.Repository, old: pygit2.Oid, new: pygit2.Oid, max_bytes: int
) -> dict[str, bytes | None]:
    """Returns the bytes of each file that differs between two trees; None means that `new` does not have the file.

    Leaves out files above `max_bytes`, symbolic links and submodules.
    """
    changes: dict[str, bytes | None] = {}
    for delta in repository[old].peel(pygit2.Tree).diff_to_tree(repository[new].peel(pygit2.Tree)).deltas:
        file = delta.new_file
        if delta.status == DeltaStatus.DELETED:
            changes[delta.old_file.path] = None
        elif file.mode in REGULAR_FILE_MODES and repository.odb.read_header(file.id)[1] <= max_bytes:
            changes[file.path] = repository[file.id].peel(pygit2.Blob).data
    return changes


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


def list_touched_paths(repository: pygit2.Repository, commit: pygit2.Commit) -> list[str]:
    """Returns the paths that a commit changes, compared with its first parent, sorted."""
    deltas = diff_with_parent(repository, commit).deltas
    raw_paths = {path for delta in deltas for path in (delta.new_file.raw_path, delta.old_file.raw_path)}
    return sorted(decode_text(path) for path in raw_paths if path)


def diff_with_parent(repository: pygit2.Repository, commit: pygit2.Commit) -> pygit2.Diff:
    """Returns the change of a commit. The first commit, and the oldest of a partial clone, adds all its files."""
    try:
        parents = commit.parents[:1]
    except KeyError:  # the clone has no older commits
        parents = []
    return repository.diff(parents[0], commit) if parents else commit.tree.diff_to_tree(swap=True)


def decode_text(data: bytes | None) -> str:
    """Decodes a path or message of git, which may be any bytes."""
    return (data or b"").decode("utf-8", "replace")
