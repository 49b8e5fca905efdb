"""A run that is not long: each key is stored as its distance from the one before, so a search decodes whole pages."""

import numpy as np

from copydesk.analytics.stores.duckdb.folding.runs.run_file import FoundVisits, RunFile
from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    Keys,
    Positions,
    drop_repeated,
    expand_ranges,
    find_ranges,
)


class ChainedRunFile(RunFile):
    """An open run that is not long."""

    def _find_keys(self, keys: Keys, by_reading: bool) -> FoundVisits | None:
        page_numbers = drop_repeated(expand_ranges(*self._find_pages(keys)))
        return self._find_on_pages(keys, page_numbers, by_reading) if len(page_numbers) else None

    def _find_on_pages(self, keys: Keys, page_numbers: Positions, by_reading: bool) -> FoundVisits | None:
        """Searches keys on pages. Returns None if none has one."""
        blocks = self._read_blocks(page_numbers, by_reading)
        key_counts = self._count_keys(page_numbers)
        page_keys = self._layout.decode_keys(blocks.read_keys(key_counts), key_counts, self._fences[page_numbers])
        matches, first, counts = find_ranges(page_keys, keys)
        if not len(matches):
            return None
        found = expand_ranges(first, counts)  # a key may be on several pages
        ends = np.cumsum(key_counts)
        page = np.searchsorted(ends, found, "right")
        position = found - (ends - key_counts)[page]
        return self._read_found(blocks, page_numbers, key_counts, np.repeat(keys[matches], counts), page, position)
