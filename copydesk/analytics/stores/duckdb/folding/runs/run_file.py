"""A run: a file of visits sorted by key, which is never changed.

A run has a filter of the keys, then pages of visits, each followed by its keys, the fences, which are the first keys of
the pages, the number of keys of each page, less one, and a footer: a mark, the number of rows, the layout of the pages,
the number of bits of the filter, the checksums (CRC-32) of the pages with their keys, the fences with the numbers of
keys, and the filter, and a checksum of the footer. Fences and filter are checked before their first use, the rest when
the whole run is read. Merges also sort the visits of a key by scope and day, which makes folds faster; no result
depends on it.
"""

import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.runs.key_filter import (
    MIN_LONG_ROWS,
    count_filter_bytes,
    select_possible,
)
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import (
    LAYOUT,
    WHOLE_KEY_BYTES,
    Counts,
    PageBlocks,
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
    SelectVisits,
    VisitRows,
    expand_ranges,
    find_group_starts,
    join_visits,
)
from copydesk.analytics.stores.errors import StoreDamaged
from copydesk.core.errors import StoreUnavailable

FENCE_BYTES = 8
MARK = b"visits01"
FOOTER = struct.Struct(f"<8sQ{LAYOUT.size}sQ4I")
READ_BYTES = 8_000_000
MAX_LOOKUPS_AT_ONCE = 2_000
"""A search for more keys uses the filter of a long run batch by batch, and returns its memory after each."""
KEYS_PER_BATCH = 4_000
"""A search for more keys reads the pages of so many at a time, because its arrays should stay small."""
DENSE_ROWS_PER_KEY = 2_000
"""A search for more keys than one in this many rows uses the mapped file: Linux maps 64 kB for each page that is read,
which costs more than reading one page but serves several searches."""
MAX_MAPPED_ROWS = 1_500_000
"""A search in the mapped file returns its memory after about this many rows, because it may read them all."""
MAX_HELD_ROWS = 400_000
"""Searches in runs of up to this many rows use the mapped file too, and its memory is kept."""
Bytes = NDArray[np.uint8]


class FoundVisits(NamedTuple):
    """Visits that a search has found, in groups of neighbors in the file that have the same key."""

    visits: VisitRows
    first_positions: Positions
    """The position of the first visit of each group."""
    counts: Counts
    """How many visits each group has."""

    @property
    def positions(self) -> Positions:
        return expand_ranges(self.first_positions, self.counts)


class RunFile:
    """An open run. Those that are not long are `ChainedRunFile`s; `open_run` distinguishes them."""

    def __init__(self, path: Path, rows: int) -> None:
        """Opens a run with this many rows. Raises StoreDamaged if the file is missing or has another size."""
        self.path = path
        self.rows = rows
        self._descriptor, self._map = open_mapped(path, self)
        self._layout, self._filter_bits, self._checksums = self._read_footer()
        self._page_count = self._layout.count_pages(rows)
        self._find_parts(len(self._map) - FOOTER.size)

    def _read_footer(self) -> tuple[PageLayout, int, Sequence[int]]:
        """Returns the layout, the bits of the filter, and the checksums of the other parts."""
        start = len(self._map) - FOOTER.size
        if start < 0:
            raise StoreDamaged
        mark, rows, layout, filter_bits, *checksums, own_checksum = FOOTER.unpack_from(self._map, start)
        is_whole = zlib.crc32(self._map[start:-4]) == own_checksum
        if (mark, rows, is_whole) != (MARK, self.rows, True):
            raise StoreDamaged
        return unpack_layout(layout), filter_bits, checksums

    def _find_parts(self, end: int) -> None:
        """Finds where each part begins; the footer begins at the end. Raises StoreDamaged if they do not fit."""
        self._filter_start = 0
        self._page_start = count_filter_bytes(self._filter_bits)
        self._fence_start, self._fence_end = end - (FENCE_BYTES + 1) * self._page_count, end
        if self._page_start + self._page_count * self._layout.page_type.itemsize > self._fence_start:
            raise StoreDamaged

    def __len__(self) -> int:
        return self.rows

    @property
    def bounds(self) -> VisitBounds:
        return self._layout.bounds

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
    def _later_keys(self) -> NDArray[np.unsignedinteger[Any]]:
        """For each page, how many keys are stored before its own, without the first ones of pages; then the total.

        Raises StoreDamaged if the fences, or the numbers of keys, are damaged.
        """
        _ = self._fences  # checks this part
        content = self._map[self._fence_start + FENCE_BYTES * self._page_count : self._fence_end]
        number_type = np.uint32 if self.rows < 1 << 32 else np.uint64  # half the memory
        later_keys: NDArray[np.unsignedinteger[Any]] = np.zeros(self._page_count + 1, number_type)
        np.cumsum(np.frombuffer(content, np.uint8), dtype=number_type, out=later_keys[1:])
        if self._find_places(np.array([self._page_count]), later_keys[-1:].astype(np.int64))[0] != self._fence_start:
            raise StoreDamaged
        return later_keys

    def _count_keys(self, page_numbers: Positions) -> Counts:
        """Returns how many keys each of these pages has."""
        return self._count_later_keys(page_numbers + 1) - self._count_later_keys(page_numbers) + 1

    def _count_later_keys(self, page_numbers: Positions) -> Counts:
        """Returns how many keys are stored before those of each of these pages, without the first ones of pages."""
        return self._later_keys[page_numbers].astype(np.int64)

    def _locate_pages(self, page_numbers: Positions) -> tuple[Positions, Positions]:
        """Returns where in the file pages begin, and where their keys end."""
        starts = self._find_places(page_numbers, self._count_later_keys(page_numbers))
        return starts, self._find_places(page_numbers + 1, self._count_later_keys(page_numbers + 1))

    def _find_places(self, page_numbers: Positions, later_keys: Counts) -> Positions:
        """Returns where in the file pages begin; `later_keys` says how many keys are stored before each of them."""
        page_size = self._layout.page_type.itemsize + self._layout.key_bytes
        return self._page_start + page_numbers * page_size + later_keys * self._layout.key_bytes

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
        _ = self._fences, self._later_keys, self._filter

    def release_index(self) -> None:
        """Frees the fences and the numbers of keys, also while a thread reads the run, which loads them again."""
        for name in ("_fences", "_later_keys"):
            self.__dict__.pop(name, None)
        self.release_memory()

    def select_possible(self, keys: Keys) -> Keys:
        """Returns these keys without most of those that the run does not have."""
        return select_possible(self._filter, self._filter_bits, keys)

    def find(self, keys: Keys) -> tuple[Positions, VisitRows]:
        """Returns the visits with these keys, which must be sorted and distinct, and their positions."""
        found = list(self._search(keys))
        positions = np.concatenate([part.positions for part in found] or [NO_POSITIONS])
        return positions, join_visits([part.visits for part in found])

    def find_selected(self, keys: Keys, select: SelectVisits) -> VisitRows:
        """Returns those of the visits with these keys that `select` selects. The keys must be sorted and distinct."""
        return join_visits([select(found.visits) for found in self._search(keys)])

    def _search(self, keys: Keys) -> Iterator[FoundVisits]:
        """Yields the visits with these keys, in parts, and releases the memory of the file after each part."""
        is_long = self.rows >= MIN_LONG_ROWS and len(keys) > MAX_LOOKUPS_AT_ONCE
        if not is_long:
            keys = self.select_possible(keys)
        if not len(keys):
            return
        by_reading = False
        batches = -(-len(keys) // KEYS_PER_BATCH)
        if self.rows > MAX_HELD_ROWS:
            spanned_rows = self._estimate_spanned_rows(keys)
            if len(keys) * DENSE_ROWS_PER_KEY > spanned_rows:
                batches = max(batches, -(-spanned_rows // MAX_MAPPED_ROWS))
            else:
                by_reading = True
        for some_keys in np.array_split(keys, batches):
            possible_keys = self.select_possible(some_keys) if is_long else some_keys
            if (found := self._find_keys(possible_keys, by_reading)) is not None:
                yield found
            if self.rows > MAX_HELD_ROWS and (is_long or batches > 1 or not by_reading):
                self.release_memory()  # also that of the filter, which a search for few keys keeps

    def _estimate_spanned_rows(self, keys: Keys) -> int:
        """Returns about how many rows are between the first and the last of these keys, which are sorted."""
        span = int(keys[-1]) - int(keys[0])
        return (span * self.rows >> 63) + 1

    def _find_pages(self, keys: Keys) -> tuple[Positions, Counts]:
        """Returns the first of the pages that may have each key, and the number of these pages."""
        last_page = np.searchsorted(self._fences, keys, "right") - 1  # -1 if the key is before all others
        first_page = last_page.copy()
        fenced = np.flatnonzero(self._fences[last_page] == keys)  # these may begin on an earlier page
        first_page[fenced] = np.searchsorted(self._fences, keys[fenced]) - 1
        first_page = np.maximum(first_page, 0)
        return first_page, last_page + 1 - first_page

    def _find_keys(self, keys: Keys, by_reading: bool) -> FoundVisits | None:
        """Searches keys on the pages that may have them. Returns None if none has one."""
        first_page, page_counts = self._find_pages(keys)
        keys = np.repeat(keys, page_counts)  # a key may be on several pages
        page_of_key = expand_ranges(first_page, page_counts)  # as sorted as the keys
        if not len(page_of_key):
            return None
        starts = find_group_starts(page_of_key)
        page_numbers = page_of_key[starts]
        blocks = self._read_blocks(page_numbers, by_reading)
        key_counts = self._count_keys(page_numbers)
        block = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(keys))))
        matches, position = blocks.find_keys(block, keys - self._fences[page_of_key], key_counts)
        if not len(matches):
            return None
        return self._read_found(blocks, page_numbers, key_counts, keys[matches], block[matches], position)

    def _read_found(
        self,
        blocks: PageBlocks,
        page_numbers: Positions,
        key_counts: Counts,
        keys: Keys,
        page: Positions,
        position: Positions,
    ) -> FoundVisits:
        """Returns the visits with these keys: each is on one of these pages, at a position among its keys."""
        has_key = np.zeros(len(page_numbers), np.bool_)
        has_key[page] = True
        found_pages = np.flatnonzero(has_key)
        found = position + (np.cumsum(key_counts * has_key) - key_counts)[page]  # keys on other pages are not counted
        rows = self._count_rows(page_numbers[found_pages])
        first_rows = self._layout.find_first_rows(blocks.read_flags(found_pages), key_counts[found_pages], rows)
        first_row, counts = first_rows[found], first_rows[found + 1] - first_rows[found]
        first_row &= self._layout.page_rows - 1
        first_positions = page_numbers[page] * self._layout.page_rows + first_row
        others = blocks.read_others(np.repeat(page, counts), expand_ranges(first_row, counts))
        return FoundVisits(VisitRows(np.repeat(keys, counts), *others), first_positions, counts)

    def _count_rows(self, page_numbers: Positions) -> int:
        """Returns how many visits are on these pages, at least one. The last page of the file may not be full."""
        rows = len(page_numbers) * self._layout.page_rows
        if page_numbers[-1] == self._page_count - 1:
            rows -= self._page_count * self._layout.page_rows - self.rows
        return rows

    def _read_blocks(self, page_numbers: Positions, by_reading: bool) -> PageBlocks:
        """Returns pages with their keys."""
        starts, ends = self._locate_pages(page_numbers)
        if not by_reading:
            return PageBlocks(self._map, starts, self._layout)
        content = self._read_bytes(starts, ends) + bytes(WHOLE_KEY_BYTES)
        return PageBlocks(content, np.cumsum(ends - starts) - (ends - starts), self._layout)

    def _read_bytes(self, starts: Positions, ends: Positions) -> bytes:
        """Reads the bytes between these places, which are in order. Reads neighbors at once."""
        gaps = np.flatnonzero(starts[1:] != ends[:-1])
        starts, ends = starts[np.concatenate(([0], gaps + 1))], ends[np.append(gaps, -1)]
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
        keys, pages = self._read_whole_pages(first_page, end_page)
        return VisitRows(keys[places], *self._layout.read_others(pages, places))

    def _read_whole_pages(self, first_page: int, end_page: int) -> tuple[Keys, Pages]:
        """Returns the key of each visit on these pages, and the pages."""
        page_numbers = np.arange(first_page, end_page)
        blocks = self._read_blocks(page_numbers, by_reading=False)
        pages = blocks.read_pages()
        key_counts = self._count_keys(page_numbers)
        keys = self._layout.decode_keys(blocks.read_keys(key_counts), key_counts, self._fences[first_page:end_page])
        first_rows = self._layout.find_first_rows(pages["flags"], key_counts, self._count_rows(page_numbers))
        return np.repeat(keys, np.diff(first_rows)), pages

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
        for (start, end), checksum in zip(self._list_parts(), self._checksums, strict=True):
            self._check_part(start, end, checksum)

    def _list_parts(self) -> list[tuple[int, int]]:
        """Returns where the parts that have checksums begin and end."""
        filter_end = self._filter_start + count_filter_bytes(self._filter_bits)
        return [
            (self._page_start, self._fence_start),
            (self._fence_start, self._fence_end),
            (self._filter_start, filter_end),
        ]

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
