"""The folders of git's object database: their entries, and how much lies below them, tested before it is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import pygit2
from pygit2.enums import FileMode, ObjectType

from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.workspace import repository_limits as bounds
from copydesk.jobs.workspace.repository_limits import MAX_NAME_CHARS, RepositoryLimits


@dataclass(frozen=True, slots=True)
class Entry:
    mode: int
    oid: pygit2.Oid

    @property
    def is_file(self) -> bool:
        return self.mode in (FileMode.BLOB, FileMode.BLOB_EXECUTABLE)


class Extent(NamedTuple):
    """How much lies below a folder, counted at every path."""

    entries: int
    paths: int
    """Entries that are not folders."""
    path_chars: int
    depth: int


Listing = Mapping[str, Entry]
T = TypeVar("T", bytes, Listing)


class Kept(dict[pygit2.Oid, T]):
    """What was read lately. An id names its content, so nothing here goes stale; too much of it is dropped at once."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.size = most, 0

    def keep(self, oid: pygit2.Oid, value: T, weight: int) -> T:
        if self.size + weight > self.most:
            self.clear()
            self.size = 0
        if weight <= self.most // 8:
            self[oid] = value
            self.size += weight
        return value


_listings = Kept[Listing](500_000)  # of these the next commit re-reads only what changed
_extents: dict[pygit2.Oid, Extent] = {}
MAX_EXTENTS = 100_000
CHARS_OF_ENTRY = 64
"""A name this long weighs as much as an entry."""


def list_folder(repository: pygit2.Repository, folder: pygit2.Oid, limits: RepositoryLimits) -> Listing:
    """Returns the entries by their names. Names that are not UTF-8 cannot be said in JSON and are passed over."""
    known = _listings.get(folder)
    if known is not None:
        return known
    listing = {name: entry for name, entry in _read_folder(repository, folder, limits) if name and _is_text(name)}
    return _listings.keep(folder, listing, len(listing) + sum(map(len, listing)) // CHARS_OF_ENTRY)


def refuse_oversize(
    repository: pygit2.Repository, root: pygit2.Oid, limits: RepositoryLimits, check: Callable[[], None]
) -> None:
    """Raises RepositoryTooLarge unless everything below this folder is within the limits.

    Each distinct folder is read once, however many paths lead to it, so this soon comes to the end of a tree that a
    walk over all its paths would never come to the end of. `check` is called for each folder.
    """
    known: dict[pygit2.Oid, Extent] = {}
    opened: dict[pygit2.Oid, list[tuple[str, Entry]]] = {}
    waiting = [(root, 0)]
    while waiting:
        check()
        folder, depth = waiting[-1]
        extent = known.get(folder) or _extents.get(folder)
        if extent is None:
            if depth > limits.depth:
                raise bounds.too_deep(limits)
            if folder not in opened:
                opened[folder] = _read_folder(repository, folder, limits)
            below = {entry.oid for _, entry in opened[folder] if entry.mode == FileMode.TREE} - known.keys()
            if below:
                waiting += ((oid, depth + 1) for oid in below)
                if len(waiting) + len(known) > limits.entries + 1:
                    raise bounds.too_many_files(limits)
                continue
            extent = _extent(opened.pop(folder), known)
        _refuse_extent(extent, limits)
        known[folder] = extent
        waiting.pop()
    if len(_extents) + len(known) > MAX_EXTENTS:
        _extents.clear()
    if len(known) <= MAX_EXTENTS:
        _extents.update(known)


def _extent(inside: list[tuple[str, Entry]], known: Mapping[pygit2.Oid, Extent]) -> Extent:
    entries, paths, path_chars, depth = len(inside), 0, 0, 0
    for name, entry in inside:
        if entry.mode == FileMode.TREE:
            below = known[entry.oid]
            entries += below.entries
            paths += below.paths
            path_chars += below.path_chars + below.paths * (len(name) + 1)
            depth = max(depth, below.depth + 1)
        else:
            paths += 1
            path_chars += len(name)
    return Extent(entries, paths, path_chars, depth)


def _refuse_extent(extent: Extent, limits: RepositoryLimits) -> None:
    if extent.entries > limits.entries:
        raise bounds.too_many_files(limits)
    if extent.depth > limits.depth:
        raise bounds.too_deep(limits)
    if extent.path_chars > limits.path_chars:
        raise bounds.paths_too_long(limits)


def _read_folder(
    repository: pygit2.Repository, folder: pygit2.Oid, limits: RepositoryLimits
) -> list[tuple[str, Entry]]:
    kind, size = repository.odb.read_header(folder)
    if kind != ObjectType.TREE:
        raise RepositoryFailed(f"The repository is damaged: {str(folder)[:12]} is not a folder.")
    if size > limits.folder_bytes:
        raise bounds.too_many_files(limits)
    try:
        tree = repository[folder].peel(pygit2.Tree)
    except pygit2.GitError as error:
        raise RepositoryFailed(f"The repository is damaged: a folder cannot be read ({error}).") from None
    if len(tree) > limits.entries:
        raise bounds.too_many_files(limits)
    entries = [(item.name or "", Entry(int(item.filemode), item.id)) for item in tree]
    if any(len(name) > MAX_NAME_CHARS for name, _ in entries):
        raise bounds.name_too_long()
    return entries


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= c <= "\udcff" for c in name)
