"""The files of a commit, read from git's object database: nothing is ever checked out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pygit2
from pygit2.enums import FileMode


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
        *folders, name = path.split("/")
        folder = self.root
        for part in folders:
            found = _listing(self.repository, folder).get(part)
            if found is None or found.mode != FileMode.TREE:
                return None
            folder = found.oid
        return _listing(self.repository, folder).get(name)

    def read(self, entry: Entry) -> bytes:
        data: bytes = self.repository.odb.read(entry.oid)[1]
        return data

    def files(self) -> Iterator[tuple[str, Entry]]:
        """Every regular file, in git's order."""
        return self._walk(self.root, "")

    def _walk(self, folder: pygit2.Oid, prefix: str) -> Iterator[tuple[str, Entry]]:
        for name, entry in _listing(self.repository, folder).items():
            if entry.mode == FileMode.TREE:
                yield from self._walk(entry.oid, f"{prefix}{name}/")
            elif entry.is_file:
                yield prefix + name, entry


Listing = Mapping[str, Entry]

# A folder's id names its content, so a listing never goes stale and the next commit re-reads only what changed.
_listings: dict[pygit2.Oid, Listing] = {}
MOST_LISTINGS = 8192


def _listing(repository: pygit2.Repository, folder: pygit2.Oid) -> Listing:
    known = _listings.get(folder)
    if known is None:
        tree = repository[folder]
        assert isinstance(tree, pygit2.Tree)
        named = ((item.name, Entry(int(item.filemode), item.id)) for item in tree)
        known = {name: entry for name, entry in named if name and _is_text(name)}
        if len(_listings) >= MOST_LISTINGS:
            _listings.clear()
        _listings[folder] = known
    return known


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= c <= "\udcff" for c in name)
