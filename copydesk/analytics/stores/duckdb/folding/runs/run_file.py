"""A run: a file of visits sorted by key, which is never changed.

A run has a filter of the keys, then pages of visits, their keys, the fences, which are the first keys of the pages, the
number of keys of each page, less one, and a footer: a mark, the number of rows, the layout of the pages, the number of
bits of the filter, the checksums (CRC-32) of the pages, the keys, the fences with the numbers of keys, and the filter,
and a checksum of the footer. Fences and filter are checked before their first use, the rest when the whole run is read.
"""

import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.runs.key_filter import (
    MIN_LONG_ROWS,
    count_filter_bytes,
    select_possible,
)
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import (
    LAYOUT,
    Counts,
    PageLayout,
    Pages,
    VisitBounds,
    unpack_layout,
)
from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    NO_POSITIONS,
    NO_VISITS,
    Keys,
    Positions,
    VisitRows,
    drop_repeated,
    expand_ranges,
    find_ranges,
    join_visits,
)
from copydesk.analytics.stores.errors import StoreDamaged
from copydesk.core.errors import StoreUnavailable

MARK = b"visits05"
FENCE_BYTES = 8
FOOTER = struct.Struct(f"<8sQ{LAYOUT.size}sQ5I")
READ_BYTES = 8_000_000
MAX_LOOKUPS_AT_ONCE = 2_000
"""A search for more keys does not use the filter of a long run, which takes much memory and leaves more keys."""
KEYS_PER_BATCH = 4_000
"""A search for more keys reads the pages of so many at a time, because its arrays should stay small."""
DENSE_ROWS_PER_KEY = 2_000
"""A search for more keys than one in this many rows uses the mapped file: Linux maps 64 kB for each page that is read,
which costs more than reading one page but serves several searches."""
MAX_MAPPED_ROWS = 500_000
"""A search in the mapped file returns its memory after about this many rows, because it may read them all."""
MAX_HELD_ROWS = 400_000
"""Searches in runs of up to this many rows use the mapped file too, and its memory is kept."""
Bytes = NDArray[np.uint8]


class FoundKeys(NamedTuple):
    """Keys that a search has found on some pages."""

    keys: Keys
    page_numbers: Positions
    pages: Pages
    first_rows: Positions
    """The row of the first visit with each key, among those of all these pages."""
    row_counts: Counts
    """How many visits have each key."""


class RunFile:
    """An open run."""

    mark, footer = MARK, FOOTER
    is_earlier = False
    """Whether it has an earlier format."""

    def __init__(self, path: Path, rows: int) -> None:
        """Opens a run with this many rows. Raises StoreDamaged if the file is missing or has another size."""
        self.path = path
        self.rows = rows
        self._descriptor, self._map = open_mapped(path, self)
        self._layout, self._filter_bits, self._checksums = self._read_footer()
        self._page_count = self._layout.count_pages(rows)
        self._find_parts(len(self._map) - self.footer.size)
        self._pages: Pages = np.frombuffer(self._map, self._layout.page_type, self._page_count, self._page_start)

    def _read_footer(self) -> tuple[PageLayout, int, Sequence[int]]:
        """Returns the layout, the bits of the filter, and the checksums of the other parts."""
        start = len(self._map) - self.footer.size
        if start < 0:
            raise StoreDamaged
        mark, rows, layout, filter_bits, *checksums, own_checksum = self.footer.unpack_from(self._map, start)
        is_whole = zlib.crc32(self._map[start:-4]) == own_checksum
        if (mark, rows, is_whole) != (self.mark, self.rows, True):
            raise StoreDamaged
        return self._unpack_layout(layout), filter_bits, checksums

    def _unpack_layout(self, content: bytes) -> PageLayout:
        return unpack_layout(content)

    def _find_parts(self, end: int) -> None:
        """Finds where each part begins; the footer begins at the end. Raises StoreDamaged if they do not fit."""
        self._filter_start = 0
        self._page_start = count_filter_bytes(self._filter_bits)
        self._key_start = self._page_start + self._page_count * self._layout.page_type.itemsize
        self._fence_start, self._fence_end = end - (FENCE_BYTES + 1) * self._page_count, end
        if self._key_start > self._fence_start:
            raise StoreDamaged

    def __len__(self) -> int:
        return self.rows

    @property
    def bounds(self) -> VisitBounds:
        return self._layout.bounds

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return len(self._map)

    @cached_property
    def _fences(self) -> Keys:
        """A copy in memory, because a search in a mapped file takes several times as long.

        Raises StoreDamaged if the fences are damaged.
        """
        self._check_part(self._fence_start, self._fence_end, self._checksums[-2])
        fences = np.frombuffer(self._map[self._fence_start : self._fence_end], np.int64, self._page_count)
        self.release_memory()
        return fences

    @cached_property
    def _key_places(self) -> Positions:
        """The places of the keys of each page in the file, and where the last ones end.

        Raises StoreDamaged if the fences, or the numbers of keys, are damaged.
        """
        _ = self._fences  # checks this part
        numbers = np.frombuffer(
            self._map[self._fence_start + FENCE_BYTES * self._page_count : self._fence_end], np.uint8
        )
        places = self._key_start + self._layout.key_bytes * np.concatenate(([0], np.cumsum(numbers, dtype=np.int64)))
        if places[-1] != self._fence_start:
            raise StoreDamaged
        return places

    @cached_property
    def _filter(self) -> Bytes:
        """Raises StoreDamaged if the filter is damaged."""
        size = count_filter_bytes(self._filter_bits)
        self._check_part(self._filter_start, self._filter_start + size, self._checksums[-1])
        return np.frombuffer(self._map, np.uint8, size, self._filter_start)

    def _check_part(self, start: int, end: int, wanted_checksum: int) -> None:
        """Raises StoreDamaged if a part of the file is not what was written."""
        if compute_checksum(memoryview(self._map)[start:end], self.release_memory) != wanted_checksum:
            raise StoreDamaged

    def load_index(self) -> None:
        """Loads what every search needs. Raises StoreDamaged if it is damaged."""
        _ = self._fences, self._key_places, self._filter

    def select_possible(self, keys: Keys) -> Keys:
        """Returns these keys without most of those that the run does not have."""
        return select_possible(self._filter, self._filter_bits, keys) if self._filter_bits else keys

    def find(self, keys: Keys) -> tuple[Positions, VisitRows]:
        """Returns the visits with these keys, which must be sorted and distinct, and their positions."""
        if self.rows < MIN_LONG_ROWS or len(keys) <= MAX_LOOKUPS_AT_ONCE:
            keys = self.select_possible(keys)
        if not len(keys):
            return NO_POSITIONS, NO_VISITS
        by_reading = False
        batches = -(-len(keys) // KEYS_PER_BATCH)
        if self.rows > MAX_HELD_ROWS:
            spanned_rows = self._estimate_spanned_rows(keys)
            if len(keys) * DENSE_ROWS_PER_KEY > spanned_rows:
                batches = max(batches, -(-spanned_rows // MAX_MAPPED_ROWS))
            else:
                by_reading = True
        if batches == 1:
            return self._find(keys, by_reading)
        found = [self._find(some_keys, by_reading) for some_keys in np.array_split(keys, batches)]
        if self.rows > MAX_HELD_ROWS:
            self.release_memory()  # that of the filter, which a search for few keys keeps
        return np.concatenate([positions for positions, _ in found]), join_visits([rows for _, rows in found])

    def _estimate_spanned_rows(self, keys: Keys) -> int:
        """Returns about how many rows are between the first and the last of these keys, which are sorted."""
        span = int(keys[-1]) - int(keys[0])
        return (span * self.rows >> 63) + 1

    def _find(self, keys: Keys, by_reading: bool) -> tuple[Positions, VisitRows]:
        """Reads the pages that may have the keys."""
        last_page = np.searchsorted(self._fences, keys, "right") - 1  # -1 if the key is before all others
        first_page = last_page.copy()
        fenced = np.flatnonzero(self._fences[last_page] == keys)  # these may begin on an earlier page
        first_page[fenced] = np.searchsorted(self._fences, keys[fenced]) - 1
        first_page = np.maximum(first_page, 0)
        page_numbers = drop_repeated(expand_ranges(first_page, last_page + 1 - first_page))  # as sorted as the keys
        if not len(page_numbers):
            return NO_POSITIONS, NO_VISITS
        found = self._find_keys(keys, page_numbers, by_reading)
        if self.rows > MAX_HELD_ROWS and not by_reading:
            self.release_memory()
        if found is None:
            return NO_POSITIONS, NO_VISITS
        places = expand_ranges(found.first_rows, found.row_counts)
        page, row = self._layout.split_places(places)
        others = self._layout.decode_others(found.pages, (page, row))
        rows = VisitRows(np.repeat(found.keys, found.row_counts), *others)
        return found.page_numbers[page] * self._layout.page_rows + row, rows

    def _find_keys(self, keys: Keys, page_numbers: Positions, by_reading: bool) -> FoundKeys | None:
        """Searches keys on pages, and reads the pages that have them. Returns None if none has one."""
        starts, ends = self._key_places[page_numbers], self._key_places[page_numbers + 1]
        key_counts = (ends - starts) // self._layout.key_bytes + 1
        content = self._read_bytes(starts, ends, by_reading)
        page_keys = self._layout.decode_keys(content, key_counts, self._fences[page_numbers])
        matches, first, counts = find_ranges(page_keys, keys)
        if not len(matches):
            return None
        found = expand_ranges(first, counts)  # a key may be on several pages
        page = np.searchsorted(np.cumsum(key_counts), found, "right")
        has_key = np.zeros(len(page_numbers), np.bool_)
        has_key[page] = True
        found -= np.cumsum(np.where(has_key, 0, key_counts))[page]  # keys on other pages are not counted
        page_numbers = page_numbers[has_key]
        pages = self._read_pages(page_numbers, by_reading)
        first_rows = self._layout.find_first_rows(pages, self._count_rows(page_numbers))
        row_counts = first_rows[found + 1] - first_rows[found]
        return FoundKeys(np.repeat(keys[matches], counts), page_numbers, pages, first_rows[found], row_counts)

    def _count_rows(self, page_numbers: Positions) -> int:
        """Returns how many visits are on these pages, at least one. The last page of the file may not be full."""
        rows = len(page_numbers) * self._layout.page_rows
        if page_numbers[-1] == self._page_count - 1:
            rows -= self._page_count * self._layout.page_rows - self.rows
        return rows

    def _read_pages(self, page_numbers: Positions, by_reading: bool) -> Pages:
        if not by_reading:
            return self._pages[page_numbers]
        size = self._layout.page_type.itemsize
        starts = self._page_start + page_numbers * size
        return np.frombuffer(self._read_bytes(starts, starts + size, by_reading), self._layout.page_type)

    def _read_bytes(self, starts: Positions, ends: Positions, by_reading: bool) -> bytes:
        """Returns the bytes between these places, which are in order. Reads neighbors at once."""
        gaps = np.flatnonzero(starts[1:] != ends[:-1])
        starts, ends = starts[np.concatenate(([0], gaps + 1))], ends[np.append(gaps, -1)]
        if not by_reading:
            return b"".join([self._map[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])
        try:
            return b"".join(map(os.pread, repeat(self._descriptor), (ends - starts).tolist(), starts.tolist()))
        except OSError as error:
            raise StoreUnavailable from error

    def read_rows(self, first: int, end: int) -> VisitRows:
        """Returns the visits at these positions."""
        end = min(end, self.rows)
        if first >= end:
            return NO_VISITS
        page_rows = self._layout.page_rows
        first_page, end_page = first // page_rows, self._layout.count_pages(end)
        places = slice(first - first_page * page_rows, end - first_page * page_rows)
        keys = self._read_all_keys(first_page, end_page)
        return VisitRows(keys[places], *self._layout.decode_others(self._pages[first_page:end_page], places))

    def _read_all_keys(self, first_page: int, end_page: int) -> Keys:
        """Returns the key of each visit on these pages."""
        places = self._key_places[first_page : end_page + 1]
        content = self._map[places[0] : places[-1]]
        key_counts = np.diff(places) // self._layout.key_bytes + 1
        keys = self._layout.decode_keys(content, key_counts, self._fences[first_page:end_page])
        rows = self._count_rows(np.arange(first_page, end_page))
        return np.repeat(keys, np.diff(self._layout.find_first_rows(self._pages[first_page:end_page], rows)))

    def get_key(self, position: int) -> int:
        return int(self.read_rows(position, position + 1).key[0])

    def find_end(self, key: int) -> int:
        """Returns the position after all visits with this key or a smaller one."""
        page = int(np.searchsorted(self._fences, key, "right")) - 1
        if page < 0:
            return 0
        first = page * self._layout.page_rows
        keys = self.read_rows(first, first + self._layout.page_rows).key
        return first + int(np.searchsorted(keys, key, "right"))

    def verify(self) -> None:
        """Reads the whole run. Raises StoreDamaged if its content is not what was written."""
        filter_end = self._filter_start + count_filter_bytes(self._filter_bits)
        parts = [
            (self._page_start, self._key_start),
            (self._key_start, self._fence_start),
            (self._fence_start, self._fence_end),
            (self._filter_start, filter_end),
        ]
        for (start, end), checksum in zip(parts, self._checksums, strict=True):
            self._check_part(start, end, checksum)

    def release_memory(self) -> None:
        """Returns the memory of the file that this process holds to the operating system, which may keep it."""
        self._map.madvise(mmap.MADV_DONTNEED)


def open_mapped(path: Path, owner: object) -> tuple[int, mmap.mmap]:
    """Opens a file and maps it. Returns its descriptor, which is closed after the owner was deleted, and the map.

    Raises StoreDamaged if the file is missing or empty.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(owner, os.close, descriptor)
        return descriptor, mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    except (FileNotFoundError, ValueError):
        raise StoreDamaged from None
    except OSError as error:
        raise StoreUnavailable from error


def compute_checksum(content: memoryview, release_memory: Callable[[], None]) -> int:
    """Returns the checksum of a large part of a mapped file, and releases its memory on the way."""
    checksum = 0
    for first in range(0, len(content), READ_BYTES):
        checksum = zlib.crc32(content[first : first + READ_BYTES], checksum)
        release_memory()
    return checksum


def get_run_folder(database_path: Path) -> Path:
    return database_path.with_name(f"{database_path.name}.visits")


def get_run_path(database_path: Path, run_id: int) -> Path:
    return get_run_folder(database_path) / f"{run_id:08}.run"
