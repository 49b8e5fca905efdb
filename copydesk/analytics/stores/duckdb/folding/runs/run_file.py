"""A run: a file of visits sorted by key, which is never changed.

A run has a filter of the keys, then pages of visits, then fences, which are the first keys of the pages, then the
number of keys of each page, less one, and a footer: a mark, the number of rows, the layout of the pages, the number of
bits of the filter, the checksums (CRC-32) of the pages, the fences with the numbers of keys, and the filter, and a
checksum of the footer. Fences and filter are checked before their first use, pages when the whole run is read. Runs of
the fourth format have no numbers of keys, and the filter after the fences.
"""

import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Callable
from functools import cached_property
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.runs.earlier_pages import unpack_earlier_layout
from copydesk.analytics.stores.duckdb.folding.runs.key_filter import (
    MIN_LONG_ROWS,
    count_filter_bytes,
    select_possible,
)
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import (
    LAYOUT,
    PageContents,
    PageLayout,
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

MARK, EARLIER_MARK = b"visits05", b"visits04"
FENCE_BYTES = 8
FOOTER = struct.Struct(f"<8sQ{LAYOUT.size}sQ4I")
READ_BYTES = 8_000_000
MAX_LOOKUPS_AT_ONCE = 2_000
"""A search for more keys does not use the filter of a long run, which takes much memory and leaves more keys."""
DENSE_ROWS_PER_KEY = 2_000
"""A search for more keys than one in this many rows uses the mapped file: Linux maps 64 kB for each page that is read,
which costs more than reading one page but serves several searches."""
MAX_MAPPED_ROWS = 500_000
"""A search in the mapped file returns its memory after about this many rows, because it may read them all."""
MAX_HELD_ROWS = 400_000
"""Searches in runs of up to this many rows use the mapped file too, and its memory is kept."""
Bytes = NDArray[np.uint8]


class RunFile:
    """An open run."""

    def __init__(self, path: Path, rows: int) -> None:
        """Opens a run with this many rows. Raises StoreDamaged if the file is missing or has another size."""
        self.path = path
        self.rows = rows
        self._descriptor, self._map = open_mapped(path, self)
        self._layout, self._filter_bits, *checksums = self._read_footer()
        self._page_checksum, self._fence_checksum, self._filter_checksum = checksums
        self._page_count = self._layout.count_pages(rows)
        filter_bytes = count_filter_bytes(self._filter_bits)
        end = len(self._map) - FOOTER.size
        if self.is_earlier:
            self._page_start, self._filter_start = 0, end - filter_bytes
            self._fence_start, self._fence_end = end - filter_bytes - FENCE_BYTES * self._page_count, end - filter_bytes
        else:
            self._page_start, self._filter_start = filter_bytes, 0
            self._fence_start, self._fence_end = end - (FENCE_BYTES + 1) * self._page_count, end
        if self._fence_start < self._page_start:
            raise StoreDamaged

    def _read_footer(self) -> tuple[PageLayout, int, int, int, int]:
        """Returns the layout, the bits of the filter, and the checksums of the pages, the fences and the filter."""
        start = len(self._map) - FOOTER.size
        if start < 0:
            raise StoreDamaged
        mark, rows, layout, filter_bits, *checksums, own_checksum = FOOTER.unpack_from(self._map, start)
        is_whole = zlib.crc32(self._map[start:-4]) == own_checksum
        self.is_earlier = mark == EARLIER_MARK
        if mark not in (MARK, EARLIER_MARK) or (rows, is_whole) != (self.rows, True):
            raise StoreDamaged
        return (unpack_earlier_layout if self.is_earlier else unpack_layout)(layout), filter_bits, *checksums

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
        self._check_part(self._fence_start, self._fence_end, self._fence_checksum)
        fences = np.frombuffer(self._map[self._fence_start : self._fence_end], np.int64, self._page_count)
        self.release_memory()
        return fences

    @cached_property
    def _key_counts(self) -> NDArray[np.uint8]:
        """The number of keys of each page, less one."""
        if self.is_earlier:
            return np.zeros(self._page_count, np.uint8)
        _ = self._fences  # checks this part
        start = self._fence_start + FENCE_BYTES * self._page_count
        return np.frombuffer(self._map[start : self._fence_end], np.uint8)

    @cached_property
    def _page_starts(self) -> Positions:
        """Where each page begins in the file, and where the last one ends. Raises StoreDamaged if that is elsewhere."""
        sizes = self._layout.measure_pages(self._key_counts.astype(np.int64) + 1)
        starts = self._page_start + np.concatenate(([0], np.cumsum(sizes)))
        if starts[-1] != self._fence_start:
            raise StoreDamaged
        return starts

    @cached_property
    def _filter(self) -> Bytes:
        """Raises StoreDamaged if the filter is damaged."""
        size = count_filter_bytes(self._filter_bits)
        self._check_part(self._filter_start, self._filter_start + size, self._filter_checksum)
        return np.frombuffer(self._map, np.uint8, size, self._filter_start)

    def _check_part(self, start: int, end: int, wanted_checksum: int) -> None:
        """Raises StoreDamaged if a part of the file is not what was written."""
        if compute_checksum(memoryview(self._map)[start:end], self.release_memory) != wanted_checksum:
            raise StoreDamaged

    def load_index(self) -> None:
        """Loads what every search needs. Raises StoreDamaged if it is damaged."""
        _ = self._fences, self._page_starts, self._filter

    def select_possible(self, keys: Keys) -> Keys:
        """Returns these keys without most of those that the run does not have."""
        return select_possible(self._filter, self._filter_bits, keys) if self._filter_bits else keys

    def find(self, keys: Keys) -> tuple[Positions, VisitRows]:
        """Returns the visits with these keys, which must be sorted and distinct, and their positions."""
        if self.rows < MIN_LONG_ROWS or len(keys) <= MAX_LOOKUPS_AT_ONCE:
            keys = self.select_possible(keys)
        if not len(keys):
            return NO_POSITIONS, NO_VISITS
        read_pages = self._read_mapped
        batches = -(-len(keys) // MAX_LOOKUPS_AT_ONCE)
        if self.rows > MAX_HELD_ROWS:
            spanned_rows = self._estimate_spanned_rows(keys)
            if len(keys) * DENSE_ROWS_PER_KEY > spanned_rows:
                batches = max(batches, -(-spanned_rows // MAX_MAPPED_ROWS))
            else:
                read_pages = self._read_single
        if batches == 1:
            return self._find(keys, read_pages)
        found = [self._find(some_keys, read_pages) for some_keys in np.array_split(keys, batches)]
        if self.rows > MAX_HELD_ROWS:
            self.release_memory()  # that of the filter, which a search for few keys keeps
        return np.concatenate([positions for positions, _ in found]), join_visits([rows for _, rows in found])

    def _estimate_spanned_rows(self, keys: Keys) -> int:
        """Returns about how many rows are between the first and the last of these keys, which are sorted."""
        span = int(keys[-1]) - int(keys[0])
        return (span * self.rows >> 63) + 1

    def _find(self, keys: Keys, read_pages: Callable[[Positions], PageContents]) -> tuple[Positions, VisitRows]:
        """Reads the pages that may have the keys."""
        last_page = np.searchsorted(self._fences, keys, "right") - 1  # -1 if the key is before all others
        first_page = last_page.copy()
        fenced = np.flatnonzero(self._fences[last_page] == keys)  # these may begin on an earlier page
        first_page[fenced] = np.searchsorted(self._fences, keys[fenced]) - 1
        first_page = np.maximum(first_page, 0)
        page_numbers = drop_repeated(expand_ranges(first_page, last_page + 1 - first_page))  # as sorted as the keys
        pages = read_pages(page_numbers)
        page_keys = self._layout.decode_keys(pages)
        matches, first, counts = find_ranges(page_keys.keys, keys)
        if not len(matches):
            return NO_POSITIONS, NO_VISITS
        first_rows = page_keys.first_rows[first]
        counts = page_keys.first_rows[first + counts] - first_rows
        places = expand_ranges(first_rows, counts)
        page, row = self._layout.split_places(places)
        rows = VisitRows(np.repeat(keys[matches], counts), *self._layout.decode_others(pages, places))
        if pages.content is self._map and self.rows > MAX_HELD_ROWS:
            self.release_memory()
        return page_numbers[page] * self._layout.page_rows + row, rows

    def _describe_pages(self, numbers: Positions, content: bytes | mmap.mmap, starts: Positions) -> PageContents:
        """Describes the pages with these numbers, which are in order, and begin at these places of a content."""
        rows = len(numbers) * self._layout.page_rows
        if len(numbers) and numbers[-1] == self._page_count - 1:
            rows -= self._page_count * self._layout.page_rows - self.rows  # those that fill up the last page
        key_counts = self._key_counts[numbers].astype(np.int64) + 1
        return PageContents(content, starts, key_counts, self._fences[numbers], rows)

    def _read_mapped(self, numbers: Positions) -> PageContents:
        return self._describe_pages(numbers, self._map, self._page_starts[numbers])

    def _read_single(self, numbers: Positions) -> PageContents:
        starts = self._page_starts[numbers]
        sizes = self._page_starts[numbers + 1] - starts
        try:
            content = b"".join(map(os.pread, repeat(self._descriptor), sizes.tolist(), starts.tolist()))
        except OSError as error:
            raise StoreUnavailable from error
        return self._describe_pages(numbers, content, np.cumsum(sizes) - sizes)

    def read_rows(self, first: int, end: int) -> VisitRows:
        """Returns the visits at these positions."""
        end = min(end, self.rows)
        page_rows = self._layout.page_rows
        first_page = first // page_rows
        pages = self._read_mapped(np.arange(first_page, self._layout.count_pages(end)))
        keys, first_rows = self._layout.decode_keys(pages)
        rows = np.arange(first, end) - first_page * page_rows
        keys = np.repeat(keys, np.diff(first_rows))[first - first_page * page_rows :][: len(rows)]
        return VisitRows(keys, *self._layout.decode_others(pages, rows))

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
        self._check_part(self._page_start, self._fence_start, self._page_checksum)
        self._check_part(self._fence_start, self._fence_end, self._fence_checksum)
        end = self._filter_start + count_filter_bytes(self._filter_bits)
        self._check_part(self._filter_start, end, self._filter_checksum)

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
