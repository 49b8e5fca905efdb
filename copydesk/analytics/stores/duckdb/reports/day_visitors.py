"""The visitors of one day with their hours, in memory, so that views that are folded later can be added."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.visit_rows import contain_keys, sort_positions

HOURS = 24
Hours = NDArray[np.uint32]
"""Hours of a day, one bit for each."""
ALL_HOURS = (1 << HOURS) - 1
NO_VISITOR = -1


@dataclass(frozen=True, slots=True)
class DayVisitors:
    """The visitors of a project on a day. Arrays are never changed, because several threads read them."""

    visitor: NDArray[np.int64]
    """Sorted and distinct."""
    human: Hours
    """The hours in which each visitor came as a person."""
    ai: Hours
    """The hours in which each visitor came as AI."""
    visitors_by_hour: NDArray[np.int64]
    """For each hour: human, AI and all visitors."""
    views_by_hour: NDArray[np.int64]
    """For each hour: human and AI views."""

    def __len__(self) -> int:
        return len(self.visitor)

    def add(self, other: "DayVisitors") -> "DayVisitors":
        """Returns the visitors of these views and of other views of the same day."""
        if not len(other):
            return DayVisitors(
                self.visitor, self.human, self.ai, self.visitors_by_hour, self.views_by_hour + other.views_by_hour
            )
        places = np.searchsorted(self.visitor, other.visitor)
        is_known = contain_keys(self.visitor, other.visitor)
        known_places, is_new = places[is_known], ~is_known
        human, ai = self.human.copy(), self.ai.copy()
        human[known_places] |= other.human[is_known]
        ai[known_places] |= other.ai[is_known]
        visitor = np.insert(self.visitor, places[is_new], other.visitor[is_new])
        human = np.insert(human, places[is_new], other.human[is_new])
        ai = np.insert(ai, places[is_new], other.ai[is_new])
        changed_hours = int(np.bitwise_or.reduce(other.human | other.ai))
        visitors_by_hour = _count_visitors(human, ai, self.visitors_by_hour, changed_hours)
        return DayVisitors(visitor, human, ai, visitors_by_hour, self.views_by_hour + other.views_by_hour)

    def select_hours(self, first: int, end: int) -> "DayVisitors":
        """Returns only the hours from `first` to before `end`."""
        if (first, end) == (0, HOURS):
            return self
        bits = np.uint32(ALL_HOURS >> (HOURS - max(0, end - first)) << first)
        is_selected = (np.arange(HOURS) >= first) & (np.arange(HOURS) < end)
        return DayVisitors(
            self.visitor, self.human & bits, self.ai & bits,
            self.visitors_by_hour * is_selected[:, None], self.views_by_hour * is_selected[:, None],
        )  # fmt: skip

    def count_visitors(self) -> tuple[int, int, int]:
        """Returns how many visitors came as people, as AI, and in all."""
        human, ai = np.count_nonzero(self.human), np.count_nonzero(self.ai)
        return int(human), int(ai), int(np.count_nonzero(self.human | self.ai))

    def list_hours(self, day: int) -> list[tuple[int, ...]]:
        """Returns a row of the whole day, whose hour is -1, and one for each hour: the hour since 1970, human, AI and
        all visitors, and human and AI views."""
        rows = [
            (day * HOURS + hour, *self.visitors_by_hour[hour].tolist(), *self.views_by_hour[hour].tolist())
            for hour in range(HOURS)
        ]
        return [(-1, *self.count_visitors(), *self.views_by_hour.sum(axis=0).tolist()), *rows]


NO_DAY_VISITORS = DayVisitors(
    np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32),
    np.zeros((HOURS, 3), np.int64), np.zeros((HOURS, 2), np.int64),
)  # fmt: skip


def build_day_visitors(columns: Mapping[str, NDArray[Any]]) -> DayVisitors:
    """Builds the visitors of a day from rows of a visitor, an hour, and the human and AI views of both."""
    views = [np.bincount(columns["hour"], columns[kind], HOURS) for kind in ("human", "ai")]
    views_by_hour = np.column_stack(views).astype(np.int64)
    order = np.flatnonzero(columns["visitor"] != NO_VISITOR)
    order = order[sort_positions(columns["visitor"][order])]
    visitor = columns["visitor"][order]
    if not len(visitor):
        return DayVisitors(
            visitor, NO_DAY_VISITORS.human, NO_DAY_VISITORS.ai, NO_DAY_VISITORS.visitors_by_hour, views_by_hour
        )
    starts = np.flatnonzero(np.concatenate(([True], visitor[1:] != visitor[:-1])))
    bit = np.uint32(1) << columns["hour"][order].astype(np.uint32)
    human, ai = (
        np.bitwise_or.reduceat(np.where(columns[kind][order] > 0, bit, np.uint32(0)), starts)
        for kind in ("human", "ai")
    )
    visitors_by_hour = _count_visitors(human, ai, NO_DAY_VISITORS.visitors_by_hour, ALL_HOURS)
    return DayVisitors(visitor[starts], human, ai, visitors_by_hour, views_by_hour)


def _count_visitors(human: Hours, ai: Hours, known: NDArray[np.int64], changed_hours: int) -> NDArray[np.int64]:
    """Returns the visitors of each hour, where only those of the changed hours are counted."""
    counts = known.copy()
    either = human | ai
    for hour in range(HOURS):
        bit = np.uint32(1 << hour)
        if changed_hours & int(bit):
            counts[hour] = [np.count_nonzero(hours & bit) for hours in (human, ai, either)]
    return counts
