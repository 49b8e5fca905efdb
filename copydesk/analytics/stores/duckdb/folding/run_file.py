"""A run: a file of visits sorted by key, which is never changed. Visits are found by a binary search in its keys.

The columns follow each other (key, scope, day, bits, and fences, which are every 128th key), then a filter of the keys
and a footer: a mark, the number of rows, the number of rows between two fences, the number of bits of the filter, and a
CRC-32 of each column and the filter, which are checked when the whole run is read.
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
    NO_POSITIONS,
    NO_VISITS,
    Keys,
    Positions,
    VisitRows,
    expand_ranges,
    find_ranges,
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
FENCE_ROWS = 128
"""A page is the keys between two fences. A search for few keys reads one page for each of them."""
OLD_FENCE_ROWS = 512
FILTER_BITS_PER_ROW = 4
MAX_FILTERED_ROWS = 16_000_000
"""Larger runs have no filter. There are few of them, and the filters of all others take at most about 32 MB."""
FOOTER = struct.Struct("<8sQIQ6I")
MARK = b"visits03"
UNFILTERED_FOOTER = struct.Struct("<8sQ5I")
UNFILTERED_MARK = b"visits02"
UNFENCED_FOOTER = struct.Struct("<8sQ4I")
UNFENCED_MARK = b"visits01"
"""Earlier versions wrote runs without a filter, and before that without fences. A merge replaces them."""
READ_BYTES = 8_000_000
MAX_LOOKUPS_AT_ONCE = 2_000
DENSE_ROWS_PER_KEY = 2_000
"""A search for more keys than one in this many rows uses the mapped file: Linux maps 64 kB for each page that is read,
which costs more than reading one page but serves several searches."""
MAX_MAPPED_ROWS = 500_000
"""A search in the mapped file returns its memory after about this many rows, because it may read them all."""
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
        self._fence_rows, self._filter_bits = OLD_FENCE_ROWS, 0
        self._checksums = self._read_footer()
        self._starts = list_column_starts(rows, self._fence_rows)
        columns = zip(COLUMN_TYPES, self._starts[:4], strict=True)
        self._visits = VisitRows(*(np.frombuffer(self._map, dtype, rows, start) for dtype, start in columns))

    def _read_footer(self) -> list[int]:
        """Returns the checksums of the columns, the fences and the filter, as far as the file has them."""
        end = len(self._map)
        if end >= FOOTER.size:
            mark, rows, fence_rows, filter_bits, *checksums = FOOTER.unpack_from(self._map, end - FOOTER.size)
            if (mark, rows) == (MARK, self.rows) and fence_rows:
                size = list_column_starts(rows, fence_rows)[-1] + count_filter_bytes(filter_bits) + FOOTER.size
                if size != end:
                    raise StoreDamaged
                self._fence_rows, self._filter_bits = fence_rows, filter_bits
                return checksums
        for footer, wanted_mark, start in (
            (UNFILTERED_FOOTER, UNFILTERED_MARK, list_column_starts(self.rows, OLD_FENCE_ROWS)[-1]),
            (UNFENCED_FOOTER, UNFENCED_MARK, self.rows * ROW_BYTES),
        ):
            if end == start + footer.size:
                mark, rows, *checksums = footer.unpack_from(self._map, start)
                if (mark, rows) == (wanted_mark, self.rows):
                    return checksums
        raise StoreDamaged

    @property
    def key(self) -> Keys:
        return self._visits.key

    @cached_property
    def _fences(self) -> Keys:
        if len(self._checksums) == len(COLUMN_BYTES):
            fences = self._visits.key[:: self._fence_rows].copy()
            self.release_memory()
            return fences
        size = 8 * count_fences(self.rows, self._fence_rows)
        return np.frombuffer(self._read(np.array([self._starts[4]]), np.array([size])), np.int64)

    @cached_property
    def _filter(self) -> NDArray[np.uint8]:
        """The bit of a key is set if the run has a key with this bit. Raises StoreDamaged if the filter is damaged."""
        if not self._filter_bits:
            return np.empty(0, np.uint8)
        size = count_filter_bytes(self._filter_bits)
        content = self._read(np.array([self._starts[5]]), np.array([size]))
        if zlib.crc32(content) != self._checksums[-1]:
            raise StoreDamaged
        return np.frombuffer(content, np.uint8)

    def select_possible(self, keys: Keys) -> Keys:
        """Returns these keys without most of those that the run does not have."""
        if not self._filter_bits:
            return keys
        bit = find_filter_bits(keys, self._filter_bits)
        possible: Keys = keys[(self._filter[bit >> 3] >> (bit & 7).astype(np.uint8) & 1) != 0]
        return possible

    def find(self, keys: Keys) -> tuple[Positions, VisitRows]:
        """Returns the visits with these keys, which must be sorted and distinct, and their positions."""
        keys = self.select_possible(keys)
        if not len(keys):
            return NO_POSITIONS, NO_VISITS
        find = self._find_mapped
        batches = -(-len(keys) // MAX_LOOKUPS_AT_ONCE)
        if self.rows > MAX_HELD_ROWS:
            spanned_rows = self._estimate_spanned_rows(keys)
            if len(keys) * DENSE_ROWS_PER_KEY > spanned_rows:
                batches = max(batches, -(-spanned_rows // MAX_MAPPED_ROWS))
            else:
                find = self._find_by_reading
        if batches == 1:
            return find(keys)
        found = [find(some_keys) for some_keys in np.array_split(keys, batches)]
        return np.concatenate([positions for positions, _ in found]), join_visits([rows for _, rows in found])

    def _estimate_spanned_rows(self, keys: Keys) -> int:
        """Returns about how many rows are between the first and the last of these keys, which are sorted."""
        span = int(keys[-1]) - int(keys[0])
        return (span * self.rows >> 63) + 1

    def _find_mapped(self, keys: Keys) -> tuple[Positions, VisitRows]:
        positions = find_sorted(self._visits.key, keys)
        rows = self.take(positions)
        if self.rows > MAX_HELD_ROWS:
            self.release_memory()
        return positions, rows

    def _find_by_reading(self, keys: Keys) -> tuple[Positions, VisitRows]:
        """Reads the pages that have the keys, and then their visits."""
        last_page = np.searchsorted(self._fences, keys, "right") - 1  # -1 if the key is before all others
        first_page = last_page.copy()
        fenced = np.flatnonzero(self._fences[last_page] == keys)  # these may begin on an earlier page
        first_page[fenced] = np.searchsorted(self._fences, keys[fenced]) - 1
        first_page = np.maximum(first_page, 0)
        pages = sort_distinct(expand_ranges(first_page, last_page + 1 - first_page))
        page_bytes = self._fence_rows * COLUMN_BYTES[0]
        start = pages * page_bytes
        read_keys = np.frombuffer(self._read(start, np.minimum(self._starts[1] - start, page_bytes)), np.int64)
        matches, first, counts = find_ranges(read_keys, keys)
        if not len(matches):
            return NO_POSITIONS, NO_VISITS
        first = pages[first // self._fence_rows] * self._fence_rows + first % self._fence_rows
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
        columns = [*self._visits.columns(), self._fences, self._filter]
        for column, checksum in zip(columns, self._checksums, strict=False):
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
    starts = list_column_starts(rows, FENCE_ROWS)
    checksums = [0] * len(COLUMN_BYTES)
    fences = [NO_VISITS.key]
    filter_bits = rows * FILTER_BITS_PER_ROW if rows <= MAX_FILTERED_ROWS else 0
    key_filter = np.zeros(count_filter_bytes(filter_bits), np.uint8)
    done = 0
    with path.open("wb") as file:
        for part in parts:
            fences.append(part.key[-done % FENCE_ROWS :: FENCE_ROWS].copy())
            if filter_bits:
                _add_to_filter(key_filter, filter_bits, part.key)
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
        file.write(key_filter.data)
        checksums += [zlib.crc32(fence_bytes), zlib.crc32(key_filter.data)]
        file.write(FOOTER.pack(MARK, rows, FENCE_ROWS, filter_bits, *checksums))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def find_filter_bits(keys: Keys, filter_bits: int) -> Positions:
    """Returns the bit of each key in a filter. Keys are hashes of 63 bits, and their order is that of their bits."""
    bits: Positions = (keys >> 31) * filter_bits >> 32
    return bits


def count_filter_bytes(filter_bits: int) -> int:
    return -(-filter_bits // 8)


def _add_to_filter(key_filter: NDArray[np.uint8], filter_bits: int, sorted_keys: Keys) -> None:
    """Sets the bits of these keys."""
    if not len(sorted_keys):
        return
    bits = find_filter_bits(sorted_keys, filter_bits)
    first_byte = int(bits[0]) >> 3
    is_set = np.zeros(int(bits[-1]) + 1 - first_byte * 8, np.bool_)
    is_set[bits - first_byte * 8] = True
    content = np.packbits(is_set, bitorder="little")
    key_filter[first_byte : first_byte + len(content)] |= content


def list_column_starts(rows: int, fence_rows: int) -> list[int]:
    """Returns where each column and the filter start in the file."""
    starts = [rows * sum(COLUMN_BYTES[:number]) for number in range(len(COLUMN_BYTES) + 1)]
    return [*starts, starts[-1] + 8 * count_fences(rows, fence_rows)]


def count_fences(rows: int, fence_rows: int) -> int:
    return -(-rows // fence_rows)


def sync_folder(folder: Path) -> None:
    """Makes new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
