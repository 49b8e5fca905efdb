"""A run in one of the first three formats: columns (key, scope, day, bits) that follow each other. A rewrite in the
background replaces it by a run of the current format."""

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np

from copydesk.analytics.stores.duckdb.folding.runs.run_file import compute_checksum, open_mapped
from copydesk.analytics.stores.duckdb.folding.runs.run_pages import VisitBounds, find_bounds, join_bounds
from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    Keys,
    Positions,
    SelectVisits,
    VisitRows,
    find_sorted,
    join_visits,
)
from copydesk.analytics.stores.errors import StoreDamaged

COLUMN_TYPES: tuple[Any, ...] = (np.int64, np.int32, np.uint16, np.uint8)
ROW_BYTES = 15
FENCE_BYTES = 8
FILTERED_MARK, FILTERED_FOOTER = b"visits03", struct.Struct("<8sQIQ6I")
"""The rows, the rows between two fences, the bits of a filter, and the checksums of columns, fences and filter."""
FENCED_MARK, FENCED_FOOTER, FENCE_ROWS = b"visits02", struct.Struct("<8sQ5I"), 512
"""The rows, and the checksums of columns and fences. The first version had no fences."""
FIRST_MARK, FIRST_FOOTER = b"visits01", struct.Struct("<8sQ4I")
EARLIER_FORMATS = ((FILTERED_MARK, FILTERED_FOOTER), (FENCED_MARK, FENCED_FOOTER), (FIRST_MARK, FIRST_FOOTER))
MAX_HELD_ROWS = 400_000
KEYS_PER_SEARCH, KEYS_PER_LONG_SEARCH = 2_000, 100
"""A search returns the memory of the file after so many keys: fewer in long files, where they touch more of it."""
ROWS_PER_READ = 1_000_000


class EarlierRunFile:
    """An open run of one of the first three formats. Only the columns are used: the filter and the fences made searches
    faster."""

    is_earlier = True

    def __init__(self, path: Path, rows: int) -> None:
        """Opens a run with this many rows. Raises StoreDamaged if the file is missing or has another size."""
        self.path = path
        self.rows = rows
        _, self._map = open_mapped(path, self)
        self._checksums = self._read_checksums()
        starts = [rows * bytes_before for bytes_before in (0, 8, 12, 14)]
        columns = zip(COLUMN_TYPES, starts, strict=True)
        self._visits = VisitRows(*(np.frombuffer(self._map, dtype, rows, start) for dtype, start in columns))

    def _read_checksums(self) -> list[int]:
        """Returns the checksums of the columns."""
        end = len(self._map)
        if end >= FILTERED_FOOTER.size:
            mark, rows, fence_rows, filter_bits, *checksums = FILTERED_FOOTER.unpack_from(
                self._map, end - FILTERED_FOOTER.size
            )
            if (mark, rows) == (FILTERED_MARK, self.rows) and fence_rows:
                size = rows * ROW_BYTES + count_fence_bytes(rows, fence_rows) + -(-filter_bits // 8)
                if size + FILTERED_FOOTER.size != end:
                    raise StoreDamaged
                return checksums[:4]
        for footer, wanted_mark, fence_bytes in (
            (FENCED_FOOTER, FENCED_MARK, count_fence_bytes(self.rows, FENCE_ROWS)),
            (FIRST_FOOTER, FIRST_MARK, 0),
        ):
            if end == self.rows * ROW_BYTES + fence_bytes + footer.size:
                mark, rows, *checksums = footer.unpack_from(self._map, end - footer.size)
                if (mark, rows) == (wanted_mark, self.rows):
                    return checksums[:4]
        raise StoreDamaged

    def __len__(self) -> int:
        return self.rows

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return len(self._map)

    @property
    def bounds(self) -> VisitBounds:
        """The bounds of the visits, for which all of them are read."""
        bounds = []
        for first in range(0, self.rows, ROWS_PER_READ):
            bounds.append(find_bounds(self.read_rows(first, first + ROWS_PER_READ)))
            self.release_memory()
        return join_bounds(bounds)

    def find(self, keys: Keys) -> tuple[Positions, VisitRows]:
        """Returns the visits with these keys, which must be sorted and distinct, and their positions."""
        positions, rows = [np.empty(0, np.int64)], []
        most = KEYS_PER_SEARCH if self.rows <= MAX_HELD_ROWS else KEYS_PER_LONG_SEARCH
        for some_keys in np.array_split(keys, -(-len(keys) // most) or 1):
            positions.append(find_sorted(self._visits.key, some_keys))
            rows.append(self._visits.take(positions[-1]))
            self.release_memory()
        return np.concatenate(positions), join_visits(rows)

    def find_selected(self, keys: Keys, select: SelectVisits) -> VisitRows:
        """Returns those of the visits with these keys that `select` selects."""
        return select(self.find(keys)[1])

    def read_rows(self, first: int, end: int) -> VisitRows:
        """Returns the visits at these positions."""
        return self._visits.read_rows(first, end)

    def get_key(self, position: int) -> int:
        return self._visits.get_key(position)

    def find_end(self, key: int) -> int:
        """Returns the position after all visits with this key or a smaller one."""
        return self._visits.find_end(key)

    def verify(self) -> None:
        """Reads the whole run. Raises StoreDamaged if its content is not what was written."""
        for column, wanted in zip(self._visits.columns(), self._checksums, strict=True):
            if compute_checksum(column.data.cast("B"), self.release_memory) != wanted:
                raise StoreDamaged

    def release_memory(self) -> None:
        """Returns the memory of the file that this process holds to the operating system, which may keep it."""
        self._map.madvise(mmap.MADV_DONTNEED)


def count_fence_bytes(rows: int, fence_rows: int) -> int:
    return FENCE_BYTES * -(-rows // fence_rows)
