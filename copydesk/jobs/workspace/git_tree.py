"""The files of a commit, read from git's object database without a checkout."""

from collections.abc import Callable, Iterator, Mapping

import pygit2
from pygit2.enums import FileMode, ObjectType

from copydesk.core.runtime.bounded_cache import BoundedCache
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.workspace import git_folders, repository_limits
from copydesk.jobs.workspace.git_folders import TreeEntry, list_folder
from copydesk.jobs.workspace.repository_limits import DEFAULT_LIMITS, MAX_COMMIT_BYTES, RepositoryLimits

__all__ = ["Tree", "TreeEntry", "write_changed_tree"]

MAX_CACHED_BYTES = 64 * 2**20
# An ID identifies its content, so entries never go stale. Every search reads the files again; unpacking them is slow.
_blob_cache = BoundedCache[pygit2.Oid, bytes](MAX_CACHED_BYTES, weigh=len, max_value_weight=MAX_CACHED_BYTES // 8)


class Tree:
    """The tree of one commit. Skips paths that are not UTF-8, since JSON cannot represent them."""

    def __init__(
        self,
        repository: pygit2.Repository,
        commit: str,
        limits: RepositoryLimits = DEFAULT_LIMITS,
        raise_if_stopped: Callable[[], None] = lambda: None,
    ) -> None:
        """`raise_if_stopped` is called while the tree is walked and read; it raises if the job was stopped."""
        self.repository = repository
        self.commit = commit
        self.limits = limits
        self.raise_if_stopped = raise_if_stopped
        self.root = _read_root(repository, commit)
        self._is_within_limits = False

    def find_entry(self, path: str) -> TreeEntry | None:
        """Returns the file, link, folder or submodule at exactly this path, or None."""
        *parents, name = path.split("/")
        folder = self.root
        for part in parents:
            child = list_folder(self.repository, folder, self.limits).get(part)
            if child is None or child.mode != FileMode.TREE:
                return None
            folder = child.oid
        return list_folder(self.repository, folder, self.limits).get(name)

    def has_folder(self, path: str) -> bool:
        entry = self.find_entry(path)
        return entry is not None and entry.mode == FileMode.TREE

    def size(self, entry: TreeEntry) -> int:
        """Returns the file's size in bytes without reading the file."""
        return self.repository.odb.read_header(entry.oid)[1]

    def is_readable(self, entry: TreeEntry) -> bool:
        """Returns whether the file is within the size limit."""
        return self.size(entry) <= self.limits.file_bytes

    def read(self, entry: TreeEntry, path: str = "") -> bytes:
        """Returns the file's bytes. Raises FileTooLarge above the size limit; `path` is for the message."""
        cached = _blob_cache.get(entry.oid)
        if cached is not None and len(cached) <= self.limits.file_bytes:
            return cached
        self.raise_if_stopped()
        if (size := self.size(entry)) > self.limits.file_bytes:
            raise repository_limits.file_too_large(size, self.limits, path)
        return _blob_cache.store(entry.oid, self.repository.odb.read(entry.oid)[1])

    def files(self) -> Iterator[tuple[str, TreeEntry]]:
        """Returns an iterator over all regular files, in git's order. Raises RepositoryTooLarge before the first."""
        self.validate_size()
        return self._walk(self.root, "")

    def validate_size(self) -> None:
        """Raises RepositoryTooLarge unless the whole tree is within the limits."""
        if not self._is_within_limits:
            git_folders.validate_tree_size(self.repository, self.root, self.limits, self.raise_if_stopped)
            self._is_within_limits = True

    def _walk(self, folder: pygit2.Oid, prefix: str) -> Iterator[tuple[str, TreeEntry]]:
        self.raise_if_stopped()
        for name, entry in list_folder(self.repository, folder, self.limits).items():
            if entry.mode == FileMode.TREE:
                yield from self._walk(entry.oid, f"{prefix}{name}/")
            elif entry.is_file:
                yield prefix + name, entry


def _read_root(repository: pygit2.Repository, commit: str) -> pygit2.Oid:
    kind, size = repository.odb.read_header(commit)
    if kind != ObjectType.COMMIT:
        raise RepositoryFailed(f"{commit[:12]} is not a commit, so the branch that points to it cannot be used.")
    if size > MAX_COMMIT_BYTES:
        raise repository_limits.RepositoryTooLarge(
            f"The message of commit {commit[:12]} is larger than 16 MiB. Shorten it."
        )
    try:
        return repository[commit].peel(pygit2.Commit).tree_id
    except pygit2.GitError as error:
        raise RepositoryFailed(f"The repository is damaged: a commit cannot be read ({error}).") from None


def write_changed_tree(tree: Tree, changes: Mapping[str, bytes | None]) -> pygit2.Oid:
    """Writes the tree with these changes and returns its id. None as the new bytes of a path deletes the file."""
    old_entries = {path: tree.find_entry(path) for path in changes}
    deleted_modes = {
        entry.oid: entry.mode for path, entry in old_entries.items() if entry is not None and changes[path] is None
    }
    blobs: dict[tuple[str, ...], TreeEntry | None] = {}
    for path, data in changes.items():
        old_entry = old_entries[path]
        blob_id = None if data is None else tree.repository.create_blob(data)
        mode = old_entry.mode if old_entry else deleted_modes.get(blob_id, FileMode.BLOB) if blob_id else FileMode.BLOB
        blobs[tuple(path.split("/"))] = None if blob_id is None else TreeEntry(mode, blob_id)
    return _write_folder(tree, tree.root, blobs) or tree.repository.TreeBuilder().write()


def _write_folder(
    tree: Tree, folder: pygit2.Oid | None, blobs: Mapping[tuple[str, ...], TreeEntry | None]
) -> pygit2.Oid | None:
    """Writes a folder, and the folders below it that have changes. Returns None if the folder is empty afterwards."""
    repository = tree.repository
    listing = list_folder(repository, folder, tree.limits) if folder else {}
    builder = repository.TreeBuilder(repository[folder].peel(pygit2.Tree)) if folder else repository.TreeBuilder()
    for name in sorted({path[0] for path in blobs}):
        nested = {path[1:]: blob for path, blob in blobs.items() if path[0] == name and len(path) > 1}
        old_entry = listing.get(name)
        new_entry = blobs.get((name,))
        if nested:
            subfolder = _write_folder(
                tree, old_entry.oid if old_entry and old_entry.mode == FileMode.TREE else None, nested
            )
            new_entry = TreeEntry(FileMode.TREE, subfolder) if subfolder else None
        if new_entry is not None:
            builder.insert(name, new_entry.oid, new_entry.mode)
        elif old_entry is not None:
            builder.remove(name)
    return builder.write() if len(builder) else None
