"""A run: a file of visits sorted by key, which is never changed. Visits are found by a binary search in its keys.

The columns follow each other (key, scope, day, bits, and fences, which are every 512th key), then a footer: a mark, the
number of rows, and a CRC-32 of each column, which is checked when the whole run is read.
"""

import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Iterable
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    NO_VISITS,
    Keys,
    Positions,
    VisitRows,
    expand_ranges,
    find_sorted,
    join_visits,
    sort_distinct,
)
from copydesk.analytics.stores.errors import StoreDamaged
from copydesk.core.errors import StoreUnavailable

COLUMN_TYPES: tuple[Any, ...] = (np.int64, np.int32, np.uint16, np.uint8)
"""The types of a key, a scope, a day and the bits. Numbers are little-endian, as on every supported machine."""
COLUMN_BYTES = (8, 4, 2, 1)
ROW_BYTES = sum(COLUMN_BYTES)
FENCE_ROWS = 512
FENCE_BYTES = FENCE_ROWS * COLUMN_BYTES[0]
"""The keys between two fences are one page of memory. A search for few keys reads one such page for each of them."""
FOOTER = struct.Struct("<8sQ5I")
MARK = b"visits02"
UNFENCED_FOOTER = struct.Struct("<8sQ4I")
UNFENCED_MARK = b"visits01"
"""Earlier versions wrote runs without fences. A merge replaces them."""
READ_BYTES = 8_000_000
MAX_LOOKUPS_AT_ONCE = 2_000
DENSE_ROWS_PER_KEY = 2_000
"""A search for more keys than one in this many rows uses the mapped file: Linux maps 64 kB for each page that is read,
which costs more than reading one page but serves several searches."""
MAX_HELD_ROWS = 400_000
"""Searches in runs of up to this many rows use the mapped file too, and its memory is kept."""


class RunFile:
    """An open run."""

    def __init__(self, path: Path, rows: int) -> None:
        """Opens a run with this many rows. Raises StoreDamaged if the file is missing or has another size."""
        self.path = path
        self.rows = rows
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._descriptor)
            self._map = mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ)
        except (FileNotFoundError, ValueError):
            raise StoreDamaged from None
        except OSError as error:
            raise StoreUnavailable from error
        self._starts = starts = list_column_starts(rows)
        self._checksums = self._read_footer(FOOTER, MARK, starts[-1])
        if not self._checksums:
            self._checksums = self._read_footer(UNFENCED_FOOTER, UNFENCED_MARK, rows * ROW_BYTES)
        if not self._checksums:
            raise StoreDamaged
        columns = zip(COLUMN_TYPES, starts[:4], strict=True)
        self._visits = VisitRows(*(np.frombuffer(self._map, dtype, rows, start) for dtype, start in columns))

    def _read_footer(self, footer: struct.Struct, mark: bytes, start: int) -> list[int]:
        """Returns the checksums of the columns, or none if the file has no such footer there."""
        if len(self._map) != start + footer.size:
            return []
        found_mark, rows, *checksums = footer.unpack_from(self._map, start)
        return checksums if (found_mark, rows) == (mark, self.rows) else []

    @property
    def key(self) -> Keys:
        return self._visits.key

    @cached_property
    def _fences(self) -> Keys:
        if len(self._checksums) == len(COLUMN_BYTES):
            return self._visits.key[::FENCE_ROWS].copy()
        return np.frombuffer(self._map, np.int64, count_fences(self.rows), self.rows * ROW_BYTES).copy()

    def find(self, keys: Keys) -> tuple[Positions, VisitRows]:
        """Returns the visits with these keys, which must be sorted and distinct, and their positions."""
        is_held = self.rows <= MAX_HELD_ROWS
        find = self._find_mapped if is_held or len(keys) * DENSE_ROWS_PER_KEY > self.rows else self._find_by_reading
        positions, parts = [np.empty(0, np.int64)], [NO_VISITS]
        for first in range(0, len(keys), MAX_LOOKUPS_AT_ONCE):
            some_positions, rows = find(keys[first : first + MAX_LOOKUPS_AT_ONCE])
            positions.append(some_positions)
            parts.append(rows)
            if not is_held:
                self.release_memory()
        return np.concatenate(positions), join_visits(parts)

    def _find_mapped(self, keys: Keys) -> tuple[Positions, VisitRows]:
        positions = find_sorted(self._visits.key, keys)
        return positions, self.take(positions)

    def _find_by_reading(self, keys: Keys) -> tuple[Positions, VisitRows]:
        """Reads the pages that have the keys, and then their visits."""
        first_page = np.maximum(np.searchsorted(self._fences, keys) - 1, 0)
        end_page = np.searchsorted(self._fences, keys, "right")
        pages = sort_distinct(expand_ranges(first_page, np.maximum(end_page - first_page, 0)))
        start = pages * FENCE_BYTES
        read_keys = np.frombuffer(self._read(start, np.minimum(self._starts[1] - start, FENCE_BYTES)), np.int64)
        first = np.searchsorted(read_keys, keys)
        counts = np.searchsorted(read_keys, keys, "right") - first
        matches = np.flatnonzero(counts)
        first, counts = first[matches], counts[matches]
        first = pages[first // FENCE_ROWS] * FENCE_ROWS + first % FENCE_ROWS
        columns = [
            np.frombuffer(self._read(column_start + first * width, counts * width), dtype)
            for column_start, width, dtype in zip(self._starts[1:4], COLUMN_BYTES[1:], COLUMN_TYPES[1:], strict=True)
        ]
        return expand_ranges(first, counts), VisitRows(np.repeat(keys[matches], counts), *columns)

    def _read(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> bytes:
        """Returns these parts of the file, one after the other."""
        try:
            return b"".join(map(os.pread, repeat(self._descriptor), lengths.tolist(), starts.tolist()))
        except OSError as error:
            raise StoreUnavailable from error

    def take(self, positions: Positions | slice) -> VisitRows:
        return self._visits.take(positions)

    def verify(self) -> None:
        """Reads the whole run. Raises StoreDamaged if its content is not what was written."""
        for column, checksum in zip([*self._visits.columns(), self._fences], self._checksums, strict=False):
            found = 0
            content = column.data.cast("B")
            for first in range(0, len(content), READ_BYTES):
                found = zlib.crc32(content[first : first + READ_BYTES], found)
                self.release_memory()
            if found != checksum:
                raise StoreDamaged

    def release_memory(self) -> None:
        """Returns the pages of the file that this process holds to the operating system, which may keep them."""
        self._map.madvise(mmap.MADV_DONTNEED)


def get_run_folder(database_path: Path) -> Path:
    return database_path.with_name(f"{database_path.name}.visits")


def get_run_path(database_path: Path, run_id: int) -> Path:
    return get_run_folder(database_path) / f"{run_id:08}.run"


def write_run(path: Path, rows: int, parts: Iterable[VisitRows]) -> None:
    """Writes a run and flushes it to the disk. The parts must be in order and have this many rows together."""
    starts = list_column_starts(rows)
    checksums = [0] * len(COLUMN_BYTES)
    fences = [NO_VISITS.key]
    done = 0
    with path.open("wb") as file:
        for part in parts:
            fences.append(part.key[-done % FENCE_ROWS :: FENCE_ROWS].copy())
            for number, column in enumerate(part.columns()):
                content = column.data.cast("B")
                checksums[number] = zlib.crc32(content, checksums[number])
                file.seek(starts[number] + done * COLUMN_BYTES[number])
                file.write(content)
            done += len(part)
        if done != rows:
            raise ValueError(f"A run of {rows} rows got {done}.")
        fence_bytes = np.concatenate(fences).data.cast("B")
        file.seek(rows * ROW_BYTES)
        file.write(fence_bytes)
        file.write(FOOTER.pack(MARK, rows, *checksums, zlib.crc32(fence_bytes)))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def list_column_starts(rows: int) -> list[int]:
    """Returns where each column and the footer start in the file."""
    starts = [rows * sum(COLUMN_BYTES[:number]) for number in range(len(COLUMN_BYTES) + 1)]
    return [*starts, starts[-1] + 8 * count_fences(rows)]


def count_fences(rows: int) -> int:
    return -(-rows // FENCE_ROWS)


def sync_folder(folder: Path) -> None:
    """Makes new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
