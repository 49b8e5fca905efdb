"""The views that were logged since the last fold, in memory, so that a small fold does not read them again."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.ids.id_tables import ViewRow
from copydesk.core.clock import DAY

MAX_VIEWS_IN_MEMORY = 5_000
"""A fold of more views reads them from the database."""


@dataclass(frozen=True, slots=True)
class ViewColumns:
    """Views; a visitor of -1 means that the view has none, and a source of 0 that it is no arrival."""

    page: NDArray[np.int32]
    agent: NDArray[np.int32]
    source: NDArray[np.int32]
    kind: NDArray[np.uint8]
    visitor: NDArray[np.int64]
    day: NDArray[np.uint16]


class UnfoldedViews:
    """The last committed views, without a gap in their numbers. Thread-safe: views are logged during a fold.

    `discard` must be called after each transaction that changes or deletes views, before the next fold.
    """

    def __init__(self, max_views: int = MAX_VIEWS_IN_MEMORY) -> None:
        self._max_views = max_views
        self._lock = threading.Lock()
        self._rows: list[ViewRow] = []
        """In the order of their numbers."""

    def add(self, rows: Sequence[ViewRow]) -> None:
        """Adds views that were committed after those added before."""
        if not rows:
            return
        with self._lock:
            has_gap = bool(self._rows) and self._rows[-1][0] + 1 != rows[0][0]
            if has_gap or len(self._rows) + len(rows) > self._max_views:
                self._rows = []
            if len(rows) <= self._max_views:
                self._rows.extend(rows)

    def find(self, after: int, upto: int) -> ViewColumns | None:
        """Returns the views after one number up to another, or None if one of them is not in memory."""
        with self._lock:
            if not self._rows or self._rows[0][0] > after + 1 or self._rows[-1][0] < upto:
                return None
            first = self._rows[0][0]
            rows = self._rows[after + 1 - first : upto + 1 - first]
        return _columns_from_rows(rows)

    def remove(self, upto: int) -> None:
        """Removes the views up to this number, which are folded."""
        with self._lock:
            if self._rows and self._rows[0][0] <= upto:
                del self._rows[: upto + 1 - self._rows[0][0]]

    def discard(self) -> None:
        """Removes all views."""
        with self._lock:
            self._rows = []


def _columns_from_rows(rows: Sequence[ViewRow]) -> ViewColumns:
    _, _, page, agent, _, kind, time, visitor, _, _, source = zip(*rows, strict=True)
    return ViewColumns(
        page=np.array(page, np.int32),
        agent=np.array(agent, np.int32),
        source=np.array(source, np.int32),
        kind=np.array(kind, np.uint8),
        visitor=np.array([-1 if number is None else number for number in visitor], np.int64),
        day=(np.array(time, np.int64) // DAY).astype(np.uint16),
    )
