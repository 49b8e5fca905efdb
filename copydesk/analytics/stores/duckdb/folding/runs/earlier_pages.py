"""Reads the pages of runs of the fourth format, which have a key for each visit, as a distance from the first one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.runs.run_pages import (
    LAYOUT,
    WHOLE_KEY_BYTES,
    Counts,
    PageContents,
    PageKeys,
    PageLayout,
    VisitBounds,
)
from copydesk.analytics.stores.duckdb.folding.visit_rows import Positions
from copydesk.analytics.stores.errors import StoreDamaged

KEY_PARTS = {6: [("low", "<u4"), ("high", "<u2")], 7: [("low", "<u4"), ("high", "<u2"), ("top", "u1")]}
KEY_BYTES_BY_MARK = {0: 8, 1: 6}
"""Maps what the first version of this format wrote to the bytes of a key. Later versions wrote the bytes."""
MAX_PAGE_ROWS = 1 << 15


@dataclass(frozen=True)
class EarlierPageLayout(PageLayout):
    """How the pages of a file of the fourth format are encoded. All have the same size."""

    @cached_property
    def page_type(self) -> np.dtype[np.void]:
        keys = KEY_PARTS.get(self.key_bytes, [("key", "<i8")])
        others = [("packed", "<u4")] if self.is_packed else [("scope", "<i4"), ("day", "<u2"), ("bits", "u1")]
        return np.dtype([(name, kind, self.page_rows) for name, kind in (*keys, *others)])

    def measure_pages(self, key_counts: Counts) -> Counts:
        return np.full(len(key_counts), self.page_type.itemsize)

    def decode_keys(self, pages: PageContents) -> PageKeys:
        chosen, numbers = self._find_pages(pages)
        if self.key_bytes == WHOLE_KEY_BYTES:
            keys = chosen["key"][numbers]
        else:
            key_bytes = np.zeros((len(numbers), self.page_rows, WHOLE_KEY_BYTES), np.uint8)  # faster than shifts
            key_bytes.view("<u4")[:, :, 0] = chosen["low"][numbers]
            key_bytes.view("<u2")[:, :, 2] = chosen["high"][numbers]
            if self.key_bytes == 7:
                key_bytes[:, :, 6] = chosen["top"][numbers]
            keys = key_bytes.view("<i8")[:, :, 0]
            keys += pages.fences[:, np.newaxis]
        return PageKeys(keys.reshape(-1)[: pages.rows], np.arange(pages.rows + 1))

    def decode_others(self, pages: PageContents, rows: Positions) -> list[NDArray[Any]]:
        chosen, numbers = self._find_pages(pages)
        page, row = self.split_places(rows)
        names = ["packed"] if self.is_packed else ["scope", "day", "bits"]
        columns = [chosen[name][numbers[page], row] for name in names]
        return self._unpack_others(columns[0]) if self.is_packed else columns

    def _find_pages(self, pages: PageContents) -> tuple[NDArray[np.void], Positions]:
        """Returns an array with the pages, and their positions in it."""
        size = self.page_type.itemsize
        return np.frombuffer(pages.content, self.page_type, len(pages.content) // size), pages.starts // size


def unpack_earlier_layout(content: bytes) -> EarlierPageLayout:
    """Returns the layout of a file of the fourth format. Raises StoreDamaged if there is no such layout."""
    page_rows, key_bytes, class_bits, first_day, last_day, max_scope = LAYOUT.unpack(content)
    key_bytes = KEY_BYTES_BY_MARK.get(key_bytes, key_bytes)
    if not 1 <= page_rows <= MAX_PAGE_ROWS or page_rows & (page_rows - 1) or not 6 <= key_bytes <= WHOLE_KEY_BYTES:
        raise StoreDamaged
    return EarlierPageLayout(page_rows, key_bytes, class_bits, VisitBounds(max_scope, first_day, last_day))
