"""An overlay of edits over a git tree: path → bytes. Nothing is checked out, so nothing can run or escape."""

import hashlib
from collections.abc import Callable, Iterator
from operator import itemgetter

import pygit2

from copydesk.jobs.workspace.git_tree import Entry, Tree
from copydesk.jobs.workspace.path_rules import PathRefused, checked, parents
from copydesk.jobs.workspace.repository_limits import file_too_large

Changes = dict[str, bytes | None]
"""What an edit amounts to: the new bytes of each path, or None where it is deleted."""


class Workspace:
    def __init__(self, tree: Tree, refuse: Callable[[str], None] = lambda path: None, root: str = "") -> None:
        """`refuse` raises PathRefused for a path that may not be changed; `root` is the documentation's folder."""
        self.tree = tree
        self.root = root
        self._refuse = refuse
        self._overlay: Changes = {}
        self._folded: dict[str, str] | None = None

    def is_documentation(self, path: str) -> bool:
        """Everything may be read, but only what lies below the root is the job's to change."""
        return not self.root or path.startswith(self.root + "/")

    def exists(self, path: str) -> bool:
        if path in self._overlay:
            return self._overlay[path] is not None
        entry = self.tree.entry(path)
        return entry is not None and entry.is_file

    def paths(self) -> list[str]:
        """Every regular file, sorted."""
        return sorted(self._entries())

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Every regular file with its bytes, in the order of their paths; those too large to be read are left out."""
        for path, entry in sorted(self._entries().items(), key=itemgetter(0)):
            if entry is None:
                yield path, self.read(path)
            elif self.tree.is_readable(entry):
                yield path, self.tree.read(entry, path)

    def is_readable(self, path: str) -> bool:
        """Returns False for a file that is too large to be read."""
        entry = None if path in self._overlay else self.tree.entry(path)
        return entry is None or not entry.is_file or self.tree.is_readable(entry)

    def read(self, path: str) -> bytes:
        """KeyError when there is no regular file at this path, FileTooLarge when it is beyond the bound."""
        data = self._overlay[path] if path in self._overlay else self._original(path)
        if data is None:
            raise KeyError(path)
        return data

    def write(self, path: str, data: bytes) -> None:
        self._check_target(path)
        self._refuse_unreadable(path)
        self._refuse(path)
        self._set(path, data)

    def delete(self, path: str) -> None:
        if not self.exists(path):
            raise KeyError(path)
        self._refuse_unreadable(path)
        self._refuse(path)
        self._set(path, None)

    def changes(self) -> Changes:
        return dict(self._overlay)

    def restore(self, changes: Changes) -> None:
        """Back to an earlier state, as `changes` gave it."""
        self._overlay = dict(changes)
        self._folded = None

    def apply(self, changes: Changes) -> None:
        """Takes over changes that were made before, in this workspace or one like it."""
        for path, data in changes.items():
            self._set(path, data)

    def original(self, path: str) -> bytes | None:
        """The file as the tree has it, before any edit."""
        return self._original(path)

    def _entries(self) -> dict[str, Entry | None]:
        """What is there; None stands for bytes of the overlay."""
        found: dict[str, Entry | None] = dict(self.tree.files())
        for path, data in self._overlay.items():
            found[path] = None
            if data is None:
                del found[path]
        return found

    def _original(self, path: str) -> bytes | None:
        entry = self.tree.entry(path)
        return self.tree.read(entry, path) if entry is not None and entry.is_file else None

    def _set(self, path: str, data: bytes | None) -> None:
        """An edit that ends where the tree began is no change."""
        entry = self.tree.entry(path)
        original = entry.oid if entry is not None and entry.is_file else None
        if original == (None if data is None else pygit2.hash(data)):
            self._overlay.pop(path, None)
        else:
            self._overlay[path] = data
        self._folded = None

    def _refuse_unreadable(self, path: str) -> None:
        """A change is shown and checked beside what was there before, so that has to be readable."""
        if not self.is_readable(path):
            entry = self.tree.entry(path)
            assert entry is not None
            raise file_too_large(self.tree.size(entry), self.tree.limits, path)

    def _check_target(self, path: str) -> None:
        if self.exists(path):
            return
        checked(path)
        entry = self.tree.entry(path)
        if entry is not None and path not in self._overlay:
            raise PathRefused(f"{path} is {_kind(entry)}; it cannot be replaced by a file.")
        if any(other.startswith(path + "/") for other, data in self._overlay.items() if data is not None):
            raise PathRefused(f"{path} is a folder; it cannot be replaced by a file.")
        for parent in parents(path):
            entry = self.tree.entry(parent)
            if self.exists(parent) or (entry is not None and _kind(entry) != "a folder"):
                raise PathRefused(f"{parent} is not a folder, so {path} cannot be made.")
        twin = self._same_but_for_case(path)
        if twin is not None:
            raise PathRefused(f"{path} differs from {twin} only by case, which some file systems cannot keep apart.")

    def _same_but_for_case(self, path: str) -> str | None:
        if self._folded is None:
            self._folded = {known.casefold(): known for known in self.paths()}
        return self._folded.get(path.casefold())


def digest(data: bytes) -> str:
    """Short enough to quote, long enough to notice any change."""
    return hashlib.sha256(data).hexdigest()[:12]


def _kind(entry: Entry) -> str:
    return {0o040000: "a folder", 0o120000: "a symbolic link", 0o160000: "a submodule"}.get(entry.mode, "a file")
