"""An overlay of edits over a git tree, as bytes by path. Files are never checked out, so none can run or escape."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

import pygit2

from copydesk.jobs.workspace.context_tree import ContextTree
from copydesk.jobs.workspace.git_tree import Tree, TreeEntry
from copydesk.jobs.workspace.path_rules import PathRefused, parent_folders, validate_path
from copydesk.jobs.workspace.repository_limits import file_too_large

Changes = dict[str, bytes | None]
"""Changed files by path: the new bytes, or None if the file is deleted."""


class Workspace:
    def __init__(
        self,
        tree: Tree,
        check_path: Callable[[str], None] = lambda path: None,
        root: str = "",
        contexts: Sequence[ContextTree] = (),
    ) -> None:
        """`check_path` raises PathRefused for a path that may not be changed; `root` is the documentation folder.

        `contexts` are the repositories that may be read besides this one.
        """
        self.tree = tree
        self.root = root
        self.contexts = {context.name: context for context in contexts}
        self._check_path = check_path
        self._overlay: Changes = {}
        self._paths_by_casefold: dict[str, str] | None = None

    def is_documentation(self, path: str) -> bool:
        """Returns whether the path is below the documentation folder. Jobs may read all files but change only these."""
        return not self.root or path.startswith(self.root + "/")

    def may_change(self, path: str) -> bool:
        """Returns False for a path that is protected."""
        try:
            self._check_path(path)
        except PathRefused:
            return False
        return True

    def exists(self, path: str) -> bool:
        if path in self._overlay:
            return self._overlay[path] is not None
        entry = self.tree.find_entry(path)
        return entry is not None and entry.is_file

    def paths(self) -> list[str]:
        """Returns the paths of all regular files, sorted."""
        return sorted(self._list_entries())

    def files(self, is_wanted: Callable[[str], bool] = lambda path: True) -> Iterator[tuple[str, bytes]]:
        """Yields the wanted regular files with their bytes, sorted by path, without those above the size limit."""
        for path, entry in sorted(self._list_entries().items(), key=itemgetter(0)):
            if not is_wanted(path):
                continue
            if entry is None:
                yield path, self.read(path)
            elif self.tree.is_readable(entry):
                yield path, self.tree.read(entry, path)

    def is_readable(self, path: str) -> bool:
        """Returns False for a file above the size limit."""
        entry = None if path in self._overlay else self.tree.find_entry(path)
        return entry is None or not entry.is_file or self.tree.is_readable(entry)

    def read(self, path: str) -> bytes:
        """Returns a file's bytes. Raises KeyError if there is no regular file, FileTooLarge above the size limit."""
        data = self._overlay[path] if path in self._overlay else self._read_original(path)
        if data is None:
            raise KeyError(path)
        return data

    def write(self, path: str, data: bytes) -> None:
        self._check_target(path)
        self._check_readable(path)
        self._check_path(path)
        self._set_file(path, data)

    def delete(self, path: str) -> None:
        if not self.exists(path):
            raise KeyError(path)
        self._check_readable(path)
        self._check_path(path)
        self._set_file(path, None)

    def changes(self) -> Changes:
        return dict(self._overlay)

    def restore(self, changes: Changes) -> None:
        """Replaces all edits by an earlier result of `changes`."""
        self._overlay = dict(changes)
        self._paths_by_casefold = None

    def apply(self, changes: Changes) -> None:
        """Adds changes that were made earlier, in this workspace or a similar one."""
        for path, data in changes.items():
            self._set_file(path, data)

    def read_original(self, path: str) -> bytes | None:
        """Returns the file's bytes before any edit, or None if the tree does not have it."""
        return self._read_original(path)

    def _list_entries(self) -> dict[str, TreeEntry | None]:
        """Returns all regular files by path; None means that the bytes are in the overlay."""
        entries: dict[str, TreeEntry | None] = dict(self.tree.files())
        for path, data in self._overlay.items():
            entries[path] = None
            if data is None:
                del entries[path]
        return entries

    def _read_original(self, path: str) -> bytes | None:
        entry = self.tree.find_entry(path)
        return self.tree.read(entry, path) if entry is not None and entry.is_file else None

    def _set_file(self, path: str, data: bytes | None) -> None:
        """Stores the new bytes, or drops the path from the overlay if they equal the original."""
        entry = self.tree.find_entry(path)
        original_id = entry.oid if entry is not None and entry.is_file else None
        if original_id == (None if data is None else pygit2.hash(data)):
            self._overlay.pop(path, None)
        else:
            self._overlay[path] = data
        self._paths_by_casefold = None

    def _check_readable(self, path: str) -> None:
        """Raises FileTooLarge above the size limit: showing and checking a change requires the old bytes."""
        if not self.is_readable(path):
            entry = self.tree.find_entry(path)
            assert entry is not None
            raise file_too_large(self.tree.size(entry), self.tree.limits, path)

    def _check_target(self, path: str) -> None:
        if self.exists(path):
            return
        validate_path(path)
        entry = self.tree.find_entry(path)
        if entry is not None and path not in self._overlay:
            raise PathRefused(f"{path} is {_describe_entry(entry)}. A file cannot replace it.")
        if any(other.startswith(path + "/") for other, data in self._overlay.items() if data is not None):
            raise PathRefused(f"{path} is a folder. A file cannot replace it.")
        for parent in parent_folders(path):
            entry = self.tree.find_entry(parent)
            if self.exists(parent) or (entry is not None and _describe_entry(entry) != "a folder"):
                raise PathRefused(f"{parent} is not a folder, so {path} cannot be created.")
        variant = self._find_case_variant(path)
        if variant is not None:
            raise PathRefused(f"{path} differs from {variant} only in case. Some file systems cannot store both.")

    def _find_case_variant(self, path: str) -> str | None:
        if self._paths_by_casefold is None:
            self._paths_by_casefold = {existing.casefold(): existing for existing in self.paths()}
        return self._paths_by_casefold.get(path.casefold())


def short_hash(data: bytes) -> str:
    """Returns a hash that is short enough to quote and long enough to detect any change."""
    return hashlib.sha256(data).hexdigest()[:12]


def _describe_entry(entry: TreeEntry) -> str:
    return {0o040000: "a folder", 0o120000: "a symbolic link", 0o160000: "a submodule"}.get(entry.mode, "a file")
