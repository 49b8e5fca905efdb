"""Measures how much disk space the data folder uses."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SIDE_FILE_PATTERN = re.compile(r"(?:-wal|-shm|\.wal|\.visits|\.events|\.blocks)$")
"""The end of the names of files that belong to a database."""
SCAN_BUDGET_SECONDS = 0.05
"""Mirrors may contain very many files. A scan that takes longer stops, and `is_whole` is then false."""


@dataclass(frozen=True)
class DiskUsage:
    total: int
    free: int
    parts: tuple[tuple[str, int], ...]
    """The files and folders directly in the data folder with their sizes in bytes, largest first."""
    is_whole: bool

    @property
    def used(self) -> int:
        return sum(size for _, size in self.parts)


def measure_disk_usage(folder: Path) -> DiskUsage:
    deadline = time.monotonic() + SCAN_BUDGET_SECONDS
    usage = shutil.disk_usage(folder)
    sizes: dict[str, int] = {}
    for name, size in _iterate_sizes(folder):
        part = SIDE_FILE_PATTERN.sub("", name)
        sizes[part] = sizes.get(part, 0) + size
        if time.monotonic() > deadline:
            return DiskUsage(usage.total, usage.free, _sort_by_size(sizes), is_whole=False)
    return DiskUsage(usage.total, usage.free, _sort_by_size(sizes), is_whole=True)


def _iterate_sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """Yields the size of every file, with the name of the top-level file or folder it belongs to.

    Top-level files come first, so that the databases are measured even if the time runs out in the folders."""
    subfolders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                subfolders.append(entry)
            else:
                yield entry.name, _file_size(entry)
    for subfolder in subfolders:
        yield from ((subfolder.name, size) for size in _iterate_sizes_below(subfolder.path))


def _iterate_sizes_below(folder: str) -> Iterator[int]:
    try:
        with os.scandir(folder) as scan:
            entries = list(scan)
    except OSError:  # the folder was removed since it was listed
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _iterate_sizes_below(entry.path)
        else:
            yield _file_size(entry)


def _file_size(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def _sort_by_size(sizes: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sizes.items(), key=lambda part: -part[1]))
