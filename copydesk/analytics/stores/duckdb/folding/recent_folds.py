"""The rows that recent folds added to the index, in memory, so that a report need not read the whole index again."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from copydesk.analytics.stores.duckdb.folding.links import IndexRows

MAX_ROWS_IN_MEMORY, MAX_FOLDS_IN_MEMORY = 100_000, 1_000


class FoldedRows(NamedTuple):
    """The rows that a fold of the views after one number up to another added to the index."""

    after: int
    upto: int
    rows: Sequence[IndexRows]

    def count_rows(self) -> int:
        return sum(map(len, self.rows))


class RecentFolds:
    """The rows of the last committed folds, without a gap between them. Thread-safe."""

    def __init__(self, max_rows: int = MAX_ROWS_IN_MEMORY, max_folds: int = MAX_FOLDS_IN_MEMORY) -> None:
        self._max_rows = max_rows
        self._max_folds = max_folds
        self._lock = threading.Lock()
        self._folds: deque[FoldedRows] = deque()
        self._row_count = 0

    def add(self, after: int, upto: int, rows: Sequence[IndexRows] | None) -> None:
        """Adds a fold that was committed after those added before. The oldest leave if there are too many.

        All leave if the rows of this one are unknown (None), because no rows are found across a gap.
        """
        with self._lock:
            if rows is None or (self._folds and self._folds[-1].upto != after):
                self._folds.clear()
                self._row_count = 0
            if rows is None:
                return
            self._folds.append(FoldedRows(after, upto, rows))
            self._row_count += self._folds[-1].count_rows()
            while self._row_count > self._max_rows or len(self._folds) > self._max_folds:
                self._row_count -= self._folds.popleft().count_rows()

    def find(self, after: int, upto: int) -> list[IndexRows] | None:
        """Returns the rows of the folds of the views after one number up to another, or None if some are missing."""
        with self._lock:
            folds = [fold for fold in self._folds if fold.after >= after and fold.upto <= upto]
        if after != upto and not (folds and folds[0].after == after and folds[-1].upto == upto):
            return None
        return [rows for fold in folds for rows in fold.rows]
