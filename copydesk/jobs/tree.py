"""The files of a commit, read from git's object database: nothing is ever checked out."""

from collections.abc import Iterator
from dataclasses import dataclass

import pygit2
from pygit2.enums import FileMode

Listing = tuple[tuple[str, int, pygit2.Oid], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    mode: int
    oid: pygit2.Oid

    @property
    def is_file(self) -> bool:
        return self.mode in (FileMode.BLOB, FileMode.BLOB_EXECUTABLE)


class Tree:
    """The tree of one commit. Paths that are not UTF-8 cannot be named in JSON and are passed over."""

    def __init__(self, repository: pygit2.Repository, commit: str) -> None:
        self.repository = repository
        self.commit = commit
        self.root = repository[commit].peel(pygit2.Tree).id

    def entry(self, path: str) -> Entry | None:
        """The file, link, folder or submodule at exactly this path."""
        folder, *rest = self.root, *path.split("/")
        for depth, name in enumerate(rest):
            found = next((item for item in _listing(self.repository, folder) if item[0] == name), None)
            if found is None:
                return None
            if depth == len(rest) - 1:
                return Entry(found[1], found[2])
            if found[1] != FileMode.TREE:
                return None
            folder = found[2]
        return None

    def read(self, entry: Entry) -> bytes:
        data: bytes = self.repository.odb.read(entry.oid)[1]
        return data

    def files(self) -> Iterator[tuple[str, Entry]]:
        """Every regular file, in git's order."""
        return self._walk(self.root, "")

    def _walk(self, folder: pygit2.Oid, prefix: str) -> Iterator[tuple[str, Entry]]:
        for name, mode, oid in _listing(self.repository, folder):
            if mode == FileMode.TREE:
                yield from self._walk(oid, f"{prefix}{name}/")
            elif mode in (FileMode.BLOB, FileMode.BLOB_EXECUTABLE):
                yield prefix + name, Entry(mode, oid)


# A folder's id names its content, so a listing never goes stale and the next commit re-reads only what changed.
_listings: dict[pygit2.Oid, Listing] = {}
MOST_LISTINGS = 8192


def _listing(repository: pygit2.Repository, folder: pygit2.Oid) -> Listing:
    known = _listings.get(folder)
    if known is None:
        tree = repository[folder]
        assert isinstance(tree, pygit2.Tree)
        known = tuple((item.name, int(item.filemode), item.id) for item in tree if item.name and _is_text(item.name))
        if len(_listings) >= MOST_LISTINGS:
            _listings.clear()
        _listings[folder] = known
    return known


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= c <= "\udcff" for c in name)
