"""What the data folder takes of the disk."""

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BUDGET_SECONDS = 0.05
"""Mirrors may hold very many files; what is not counted by then is said to be missing."""


@dataclass(frozen=True)
class Disk:
    total: int
    free: int
    parts: tuple[tuple[str, int], ...]
    """What lies in the data folder, largest first."""
    is_whole: bool

    @property
    def used(self) -> int:
        return sum(size for _, size in self.parts)


def disk(folder: Path) -> Disk:
    until = time.monotonic() + BUDGET_SECONDS
    usage = shutil.disk_usage(folder)
    sizes: dict[str, int] = {}
    for name, size in _sizes(folder):
        part = name.removesuffix("-wal").removesuffix("-shm").removesuffix(".wal")
        sizes[part] = sizes.get(part, 0) + size
        if time.monotonic() > until:
            return Disk(usage.total, usage.free, _largest_first(sizes), is_whole=False)
    return Disk(usage.total, usage.free, _largest_first(sizes), is_whole=True)


def _sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """The files, each under the name that it or its folder has at the top: files first, then what lies deeper."""
    deeper = []
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                deeper.append(entry)
            else:
                yield entry.name, _size(entry)
    for top in deeper:
        yield from ((top.name, size) for size in _below(top.path))


def _below(folder: str) -> Iterator[int]:
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except OSError:  # it was removed meanwhile
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path)
        else:
            yield _size(entry)


def _size(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _largest_first(sizes: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sizes.items(), key=lambda part: -part[1]))
