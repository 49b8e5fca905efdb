"""Reads runs of the fourth format, whose pages have a key for each visit, as a distance from the first one. A rewrite
in the background replaces them by runs of the current format."""

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from copydesk.analytics.stores.duckdb.folding.runs.key_filter import count_filter_bytes
from copydesk.analytics.stores.duckdb.folding.runs.run_file import FENCE_BYTES, FoundKeys, RunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import (
    LAYOUT,
    WHOLE_KEY_BYTES,
    PageLayout,
    Pages,
    VisitBounds,
)
from copydesk.analytics.stores.duckdb.folding.visit_rows import Keys, Positions, find_ranges
from copydesk.analytics.stores.errors import StoreDamaged

EARLIER_PAGE_MARK, EARLIER_PAGE_FOOTER = b"visits04", struct.Struct(f"<8sQ{LAYOUT.size}sQ4I")
"""The mark, the rows, the layout, the bits of the filter, the checksums of pages, fences and filter, and its own."""
KEY_PARTS = {6: [("low", "<u4"), ("high", "<u2")], 7: [("low", "<u4"), ("high", "<u2"), ("top", "u1")]}
KEY_BYTES_BY_MARK = {0: 8, 1: 6}
"""Maps what the first version of this format wrote to the bytes of a key. Later versions wrote the bytes."""
MAX_PAGE_ROWS = 1 << 15
NO_CHECKSUM = 0
"""The checksum of no bytes. Keys are no part of their own."""


@dataclass(frozen=True)
class EarlierPageLayout(PageLayout):
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


def unpack_earlier_layout(content: bytes) -> EarlierPageLayout:
    """Returns the layout of a file of the fourth format. Raises StoreDamaged if there is no such layout."""
    page_rows, key_bytes, class_bits, first_day, last_day, max_scope = LAYOUT.unpack(content)
    key_bytes = KEY_BYTES_BY_MARK.get(key_bytes, key_bytes)
    if not 1 <= page_rows <= MAX_PAGE_ROWS or page_rows & (page_rows - 1) or not 6 <= key_bytes <= WHOLE_KEY_BYTES:
        raise StoreDamaged
    return EarlierPageLayout(page_rows, key_bytes, class_bits, VisitBounds(max_scope, first_day, last_day))


class EarlierPageRun(RunFile):
    """An open run of the fourth format."""

    mark, footer = EARLIER_PAGE_MARK, EARLIER_PAGE_FOOTER
    is_earlier = True
    _layout: EarlierPageLayout

    def _unpack_layout(self, content: bytes) -> EarlierPageLayout:
        return unpack_earlier_layout(content)

    def _find_parts(self, end: int) -> None:
        self._page_start = 0
        self._key_start = self._fence_start = self._page_count * self._layout.page_type.itemsize
        self._filter_start = self._fence_end = self._fence_start + FENCE_BYTES * self._page_count
        if self._filter_start + count_filter_bytes(self._filter_bits) != end:
            raise StoreDamaged
        self._checksums = [self._checksums[0], NO_CHECKSUM, *self._checksums[1:]]

    def load_index(self) -> None:
        _ = self._fences, self._filter

    def _find_keys(self, keys: Keys, page_numbers: Positions, by_reading: bool) -> FoundKeys | None:
        pages = self._read_pages(page_numbers, by_reading)
        all_keys = self._layout.decode_all_keys(pages, self._fences[page_numbers])[: self._count_rows(page_numbers)]
        matches, first, counts = find_ranges(all_keys, keys)
        return FoundKeys(keys[matches], page_numbers, pages, first, counts) if len(matches) else None

    def _read_all_keys(self, first_page: int, end_page: int) -> Keys:
        return self._layout.decode_all_keys(self._pages[first_page:end_page], self._fences[first_page:end_page])
