"""Reads runs of two earlier formats with pages. A rewrite in the background replaces them by runs of the current one.

Pages of the fourth format have a key for each visit, as a distance from the first one. Those of the fifth format are
the same as in short files now, but all keys follow the last page, and the first key of a page is not among them.
"""

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.runs.chained_run_file import ChainedRunFile
from copydesk.analytics.stores.duckdb.folding.runs.key_filter import count_filter_bytes
from copydesk.analytics.stores.duckdb.folding.runs.run_file import FENCE_BYTES, FoundVisits
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import (
    LAYOUT,
    WHOLE_KEY_BYTES,
    Counts,
    Flags,
    PageBlocks,
    PageLayout,
    Pages,
    VisitBounds,
)
from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    Keys,
    Positions,
    VisitRows,
    drop_repeated,
    expand_ranges,
    find_ranges,
)
from copydesk.analytics.stores.errors import StoreDamaged

FIXED_PAGE_MARK, FIXED_PAGE_FOOTER = b"visits04", struct.Struct(f"<8sQ{LAYOUT.size}sQ4I")
"""The mark, the rows, the layout, the bits of the filter, the checksums of pages, fences and filter, and its own."""
SPLIT_PAGE_MARK, SPLIT_PAGE_FOOTER = b"visits05", struct.Struct(f"<8sQ{LAYOUT.size}sQ5I")
"""The same, with a checksum of the keys after that of the pages."""
KEY_PARTS = {6: [("low", "<u4"), ("high", "<u2")], 7: [("low", "<u4"), ("high", "<u2"), ("top", "u1")]}
KEY_BYTES_BY_MARK = {0: 8, 1: 6}
"""Maps what the first version of this format wrote to the bytes of a key. Later versions wrote the bytes."""
MAX_PAGE_ROWS = 1 << 15


@dataclass(frozen=True)
class FixedPageLayout(PageLayout):
    """How the pages of a file of the fourth format are encoded."""

    @cached_property
    def page_type(self) -> np.dtype[np.void]:
        keys = KEY_PARTS.get(self.key_bytes, [("key", "<i8")])
        return np.dtype([(name, kind, self.page_rows) for name, kind in (*keys, *self.other_types)])

    def decode_all_keys(self, pages: Pages, fences: Keys) -> Keys:
        """Returns the keys of all visits of pages with these fences, with what fills up the last page."""
        if self.key_bytes == WHOLE_KEY_BYTES:
            return np.ascontiguousarray(pages["key"]).reshape(-1)
        key_bytes = np.zeros((len(pages), self.page_rows, WHOLE_KEY_BYTES), np.uint8)  # filled faster than shifted
        key_bytes.view("<u4")[:, :, 0] = pages["low"]
        key_bytes.view("<u2")[:, :, 2] = pages["high"]
        if self.key_bytes == 7:
            key_bytes[:, :, 6] = pages["top"]
        keys: Keys = key_bytes.view("<i8")[:, :, 0]
        keys += fences[:, np.newaxis]
        return keys.reshape(-1)


def unpack_fixed_layout(content: bytes) -> FixedPageLayout:
    """Returns the layout of a file of the fourth format. Raises StoreDamaged if there is no such layout."""
    page_rows, key_bytes, class_bits, first_day, last_day, max_scope = LAYOUT.unpack(content)
    key_bytes = KEY_BYTES_BY_MARK.get(key_bytes, key_bytes)
    if not 1 <= page_rows <= MAX_PAGE_ROWS or page_rows & (page_rows - 1) or not 6 <= key_bytes <= WHOLE_KEY_BYTES:
        raise StoreDamaged
    return FixedPageLayout(page_rows, key_bytes, class_bits, VisitBounds(max_scope, first_day, last_day))


class UniformPageRun(ChainedRunFile):
    """An open run whose pages are next to each other."""

    @property
    def is_earlier(self) -> bool:
        return True

    def read_pages(self, page_numbers: Positions, by_reading: bool) -> Pages:
        """Returns pages."""
        page_type = self._layout.page_type
        if not by_reading:
            pages: Pages = np.frombuffer(self._map, page_type, self._page_count, self._page_start)
            return pages[page_numbers]
        starts = self._page_start + page_numbers * page_type.itemsize
        return np.frombuffer(self._read_bytes(starts, starts + page_type.itemsize), page_type)


class SplitBlocks:
    """Pages of a run whose keys are elsewhere in the file."""

    def __init__(self, run: "SplitPageRun", layout: PageLayout, page_numbers: Positions, by_reading: bool) -> None:
        self._run = run
        self._layout = layout
        self._page_numbers = page_numbers
        self._by_reading = by_reading

    def read_keys(self, key_counts: Counts) -> Keys:
        content = self._run.read_stored_keys(self._page_numbers, self._by_reading)
        key_bytes = self._layout.key_bytes
        padded = content + bytes(WHOLE_KEY_BYTES - key_bytes)  # the last one is read with bytes that follow
        stored = np.ndarray(len(content) // key_bytes, "<i8", padded, 0, (key_bytes,))
        distances = np.zeros(len(stored) + len(key_counts), np.int64)
        is_stored = np.ones(len(distances), np.bool_)
        is_stored[np.cumsum(key_counts) - key_counts] = False  # the first key of a page is its fence
        distances[is_stored] = stored
        return distances

    def read_flags(self, numbers: Positions) -> Flags:
        flags: Flags = self._run.read_pages(self._page_numbers[numbers], self._by_reading)["flags"]
        return flags

    def read_others(self, numbers: Positions, rows: Positions) -> list[NDArray[Any]]:
        read_numbers = drop_repeated(numbers)
        pages = self._run.read_pages(self._page_numbers[read_numbers], self._by_reading)
        return self._layout.read_others(pages, np.searchsorted(read_numbers, numbers) * self._layout.page_rows + rows)

    def read_pages(self) -> Pages:
        return self._run.read_pages(self._page_numbers, self._by_reading)


class SplitPageRun(UniformPageRun):
    """An open run of the fifth format, whose keys follow all pages. Visits with the same key are in no order."""

    mark, footer = SPLIT_PAGE_MARK, SPLIT_PAGE_FOOTER

    def _find_parts(self, end: int) -> None:
        super()._find_parts(end)
        self._key_start = self._page_start + self._page_count * self._layout.page_type.itemsize

    def _list_parts(self) -> list[tuple[int, int]]:
        _, *others = super()._list_parts()
        return [(self._page_start, self._key_start), (self._key_start, self._fence_start), *others]

    def _read_blocks(self, page_numbers: Positions, by_reading: bool) -> PageBlocks:
        return SplitBlocks(self, self._layout, page_numbers, by_reading)

    def read_stored_keys(self, page_numbers: Positions, by_reading: bool) -> bytes:
        """Returns the keys of pages but the first one of each."""
        starts, ends = self._locate_pages(page_numbers)
        if by_reading:
            return self._read_bytes(starts, ends)
        return b"".join([self._map[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])

    def _find_places(self, page_numbers: Positions, later_keys: Counts) -> Positions:
        """Returns where in the file the keys of pages begin; the first key of each page is not among them."""
        return self._key_start + later_keys * self._layout.key_bytes


class FixedPageRun(UniformPageRun):
    """An open run of the fourth format, whose pages have a key for each visit."""

    mark, footer = FIXED_PAGE_MARK, FIXED_PAGE_FOOTER
    _layout: FixedPageLayout

    def _unpack_layout(self, content: bytes) -> FixedPageLayout:
        return unpack_fixed_layout(content)

    def _find_parts(self, end: int) -> None:
        self._page_start = 0
        self._fence_start = self._page_count * self._layout.page_type.itemsize
        self._filter_start = self._fence_end = self._fence_start + FENCE_BYTES * self._page_count
        if self._filter_start + count_filter_bytes(self._filter_bits) != end:
            raise StoreDamaged

    def load_index(self) -> None:
        _ = self._fences, self._filter

    def _find_on_pages(self, keys: Keys, page_numbers: Positions, by_reading: bool) -> FoundVisits | None:
        pages = self.read_pages(page_numbers, by_reading)
        all_keys = self._layout.decode_all_keys(pages, self._fences[page_numbers])[: self._count_rows(page_numbers)]
        if (all_keys[1:] < all_keys[:-1]).any():
            raise StoreDamaged
        matches, first, counts = find_ranges(all_keys, keys)
        if not len(matches):
            return None
        others = self._layout.read_others(pages, expand_ranges(first, counts))
        page_rows = self._layout.page_rows
        first_positions = page_numbers[first // page_rows] * page_rows + first % page_rows
        return FoundVisits(VisitRows(np.repeat(keys[matches], counts), *others), first_positions, counts)

    def _read_whole_pages(self, first_page: int, end_page: int) -> tuple[Keys, Pages]:
        pages = self.read_pages(np.arange(first_page, end_page), by_reading=False)
        return self._layout.decode_all_keys(pages, self._fences[first_page:end_page]), pages
