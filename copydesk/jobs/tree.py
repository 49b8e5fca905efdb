"""The files of a commit, read from git's object database: nothing is ever checked out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

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
        return _blobs.get(entry.oid) or _blobs.keep(entry.oid, self.repository.odb.read(entry.oid)[1])

    def files(self) -> Iterator[tuple[str, Entry]]:
        """Every regular file, in git's order."""
        return self._walk(self.root, "")

    def _walk(self, folder: pygit2.Oid, prefix: str) -> Iterator[tuple[str, Entry]]:
        for name, entry in _listing(self.repository, folder).items():
            if entry.mode == FileMode.TREE:
                yield from self._walk(entry.oid, f"{prefix}{name}/")
            elif entry.is_file:
                yield prefix + name, entry


def with_changes(tree: Tree, changes: Mapping[str, bytes | None]) -> pygit2.Oid:
    """The tree with these changes made: new bytes by path, None for what is deleted."""
    found = {path: tree.entry(path) for path in changes}
    moved = {entry.oid: entry.mode for path, entry in found.items() if entry is not None and changes[path] is None}
    blobs: dict[tuple[str, ...], Entry | None] = {}
    for path, data in changes.items():
        known, made = found[path], None if data is None else tree.repository.create_blob(data)
        mode = known.mode if known else moved.get(made, FileMode.BLOB) if made else FileMode.BLOB
        blobs[tuple(path.split("/"))] = None if made is None else Entry(mode, made)
    return _written(tree.repository, tree.root, blobs) or tree.repository.TreeBuilder().write()


def _written(
    repository: pygit2.Repository, folder: pygit2.Oid | None, blobs: Mapping[tuple[str, ...], Entry | None]
) -> pygit2.Oid | None:
    """Only the folders on the way to a change are written anew; None when nothing is left in one."""
    listing = _listing(repository, folder) if folder else {}
    builder = repository.TreeBuilder(repository[folder].peel(pygit2.Tree)) if folder else repository.TreeBuilder()
    for name in sorted({path[0] for path in blobs}):
        below = {path[1:]: blob for path, blob in blobs.items() if path[0] == name and len(path) > 1}
        known, made = listing.get(name), blobs.get((name,))
        if below:
            inside = _written(repository, known.oid if known and known.mode == FileMode.TREE else None, below)
            made = Entry(FileMode.TREE, inside) if inside else None
        if made is not None:
            builder.insert(name, made.oid, made.mode)
        elif known is not None:
            builder.remove(name)
    return builder.write() if len(builder) else None


Listing = Mapping[str, Entry]
T = TypeVar("T", bytes, Listing)


class _Kept(dict[pygit2.Oid, T]):
    """What was read lately. An id names its content, so nothing here goes stale; too much of it is dropped at once."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.size = most, 0

    def keep(self, oid: pygit2.Oid, value: T) -> T:
        if self.size + len(value) > self.most:
            self.clear()
            self.size = 0
        if len(value) <= self.most // 8:
            self[oid] = value
            self.size += len(value)
        return value


# Unpacking is what a search costs, turn after turn; of listings the next commit re-reads only what changed.
_blobs = _Kept[bytes](64 * 2**20)
_listings = _Kept[Listing](500_000)


def _listing(repository: pygit2.Repository, folder: pygit2.Oid) -> Listing:
    known = _listings.get(folder)
    if known is None:
        named = ((item.name, Entry(int(item.filemode), item.id)) for item in repository[folder].peel(pygit2.Tree))
        known = _listings.keep(folder, {name: entry for name, entry in named if name and _is_text(name)})
    return known


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= c <= "\udcff" for c in name)
