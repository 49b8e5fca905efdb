"""Reads folders from git's object database, and measures the size of a tree before its files are read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pygit2
from pygit2.enums import FileMode, ObjectType

from copydesk.core.runtime.bounded_cache import BoundedCache
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.workspace import repository_limits
from copydesk.jobs.workspace.repository_limits import MAX_NAME_CHARS, RepositoryLimits


@dataclass(frozen=True, slots=True)
class TreeEntry:
    mode: int
    oid: pygit2.Oid

    @property
    def is_file(self) -> bool:
        return self.mode in (FileMode.BLOB, FileMode.BLOB_EXECUTABLE)


class Extent(NamedTuple):
    """The size of everything below a folder. An object counts once for each path that leads to it."""

    entries: int
    paths: int
    """Entries that are not folders."""
    path_chars: int
    depth: int


Listing = Mapping[str, TreeEntry]
MAX_CACHED_ENTRIES = 500_000
MAX_CACHED_EXTENTS = 100_000
CHARS_PER_ENTRY = 64
"""Characters of names that weigh as much as one entry."""


def _weigh_listing(listing: Listing) -> int:
    return len(listing) + sum(map(len, listing)) // CHARS_PER_ENTRY


# An ID identifies its content, so entries never go stale. The next commit then reads only the folders that changed.
_listing_cache = BoundedCache[pygit2.Oid, Listing](
    MAX_CACHED_ENTRIES, weigh=_weigh_listing, max_value_weight=MAX_CACHED_ENTRIES // 8
)
_extent_cache = BoundedCache[pygit2.Oid, Extent](MAX_CACHED_EXTENTS)


def list_folder(repository: pygit2.Repository, folder: pygit2.Oid, limits: RepositoryLimits) -> Listing:
    """Returns the entries by name. Skips names that are not UTF-8, since JSON cannot represent them."""
    cached = _listing_cache.get(folder)
    if cached is not None:
        return cached
    listing = {name: entry for name, entry in _read_folder(repository, folder, limits) if name and _is_utf8_name(name)}
    return _listing_cache.store(folder, listing)


def validate_tree_size(
    repository: pygit2.Repository, root: pygit2.Oid, limits: RepositoryLimits, raise_if_stopped: Callable[[], None]
) -> None:
    """Raises RepositoryTooLarge unless everything below this folder is within the limits.

    Reads each distinct folder once, even if many paths lead to it, so it is fast also for a tree with too many paths
    to walk. Calls `raise_if_stopped` for each folder.
    """
    extents: dict[pygit2.Oid, Extent] = {}
    contents: dict[pygit2.Oid, list[tuple[str, TreeEntry]]] = {}
    stack = [(root, 0)]
    while stack:
        raise_if_stopped()
        folder, depth = stack[-1]
        extent = extents.get(folder) or _extent_cache.get(folder)
        if extent is None:
            if depth > limits.depth:
                raise repository_limits.too_deep(limits)
            if folder not in contents:
                contents[folder] = _read_folder(repository, folder, limits)
            subfolders = {entry.oid for _, entry in contents[folder] if entry.mode == FileMode.TREE} - extents.keys()
            if subfolders:
                stack += ((oid, depth + 1) for oid in subfolders)
                if len(stack) + len(extents) > limits.entries + 1:
                    raise repository_limits.too_many_files(limits)
                continue
            extent = _extent_cache.store(folder, _measure_extent(contents.pop(folder), extents))
        _validate_extent(extent, limits)
        extents[folder] = extent
        stack.pop()


def _measure_extent(contents: list[tuple[str, TreeEntry]], extents: Mapping[pygit2.Oid, Extent]) -> Extent:
    entries = len(contents)
    paths = 0
    path_chars = 0
    depth = 0
    for name, entry in contents:
        if entry.mode == FileMode.TREE:
            subfolder = extents[entry.oid]
            entries += subfolder.entries
            paths += subfolder.paths
            path_chars += subfolder.path_chars + subfolder.paths * (len(name) + 1)
            depth = max(depth, subfolder.depth + 1)
        else:
            paths += 1
            path_chars += len(name)
    return Extent(entries, paths, path_chars, depth)


def _validate_extent(extent: Extent, limits: RepositoryLimits) -> None:
    if extent.entries > limits.entries:
        raise repository_limits.too_many_files(limits)
    if extent.depth > limits.depth:
        raise repository_limits.too_deep(limits)
    if extent.path_chars > limits.path_chars:
        raise repository_limits.paths_too_long(limits)


def _read_folder(
    repository: pygit2.Repository, folder: pygit2.Oid, limits: RepositoryLimits
) -> list[tuple[str, TreeEntry]]:
    kind, size = repository.odb.read_header(folder)
    if kind != ObjectType.TREE:
        raise RepositoryFailed(f"The repository is damaged: {str(folder)[:12]} is not a folder.")
    if size > limits.folder_bytes:
        raise repository_limits.too_many_files(limits)
    try:
        tree = repository[folder].peel(pygit2.Tree)
    except pygit2.GitError as error:
        raise RepositoryFailed(f"The repository is damaged: a folder cannot be read ({error}).") from None
    if len(tree) > limits.entries:
        raise repository_limits.too_many_files(limits)
    entries = [(item.name or "", TreeEntry(int(item.filemode), item.id)) for item in tree]
    if any(len(name) > MAX_NAME_CHARS for name, _ in entries):
        raise repository_limits.name_too_long()
    return entries


def _is_utf8_name(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= c <= "\udcff" for c in name)
