"""A run that is not long: each key is stored as its distance from the one before, so a search decodes whole pages."""

import numpy as np

from copydesk.analytics.stores.duckdb.folding.runs.run_file import FoundKeys, RunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import (
    MIN_RELATIVE_ROWS,
    ChainedPageLayout,
    PageLayout,
    unpack_layout,
)
from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    Keys,
    Positions,
    drop_repeated,
    expand_ranges,
    find_ranges,
)


class ChainedRunFile(RunFile):
    """An open run that is not long."""

    mark = ChainedPageLayout.mark

    @property
    def is_earlier(self) -> bool:
        """Whether it is long: the version before this one wrote all runs so."""
        return self.rows >= MIN_RELATIVE_ROWS

    def _unpack_layout(self, content: bytes) -> PageLayout:
        return unpack_layout(content, ChainedPageLayout)

    def _find_keys(self, keys: Keys, by_reading: bool) -> FoundKeys | None:
        page_numbers = drop_repeated(expand_ranges(*self._find_pages(keys)))
        return self._find_on_pages(keys, page_numbers, by_reading) if len(page_numbers) else None

    def _find_on_pages(self, keys: Keys, page_numbers: Positions, by_reading: bool) -> FoundKeys | None:
        """Searches keys on pages. Returns None if none has one."""
        blocks = self._read_blocks(page_numbers, by_reading)
        key_counts = self._count_keys(page_numbers)
        page_keys = self._layout.decode_keys(blocks.read_keys(key_counts), key_counts, self._fences[page_numbers])
        matches, first, counts = find_ranges(page_keys, keys)
        if not len(matches):
            return None
        found = expand_ranges(first, counts)  # a key may be on several pages
        page = np.searchsorted(np.cumsum(key_counts), found, "right")
        has_key = np.zeros(len(page_numbers), np.bool_)
        has_key[page] = True
        found -= np.cumsum(np.where(has_key, 0, key_counts))[page]  # keys on other pages are not counted
        page_numbers = page_numbers[has_key]
        pages = blocks.take(np.flatnonzero(has_key))
        first_rows = self._layout.find_first_rows(pages, key_counts[has_key], self._count_rows(page_numbers))
        row_counts = first_rows[found + 1] - first_rows[found]
        return FoundKeys(np.repeat(keys[matches], counts), page_numbers, pages, first_rows[found], row_counts)
