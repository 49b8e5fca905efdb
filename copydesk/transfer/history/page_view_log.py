"""Counts page views and their visitors by day and by page, with 24 bytes of memory for each page view."""

from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from copydesk.analytics.history import HistoryCounts

GROUP_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Any odd number: multiplying by it gives every group another value of 64 bits."""


class CountedViews(NamedTuple):
    """The counts of each group, from group 0 on."""

    days: Sequence[HistoryCounts]
    pages: Sequence[HistoryCounts]
    duplicate_count: int


class PageViewLog:
    """Knows visitors and events by hashes of 64 bits.

    With 5 million page views, a wrong count has a probability below one in a million.
    """

    def __init__(self) -> None:
        self._days, self._pages = array("I"), array("I")
        self._visitors, self._events = array("Q"), array("Q")

    def add(self, day: int, page: int, visitor_id: str, event_id: str | None) -> None:
        """Adds a page view to the groups of its day and its page. None means an event that is like no other."""
        self._events.append(len(self._events) if event_id is None else _hash_text(event_id))
        self._days.append(day)
        self._pages.append(page)
        self._visitors.append(_hash_text(visitor_id))

    def count(self, day_count: int, page_count: int) -> CountedViews:
        """Counts every event once, also if several files contain it."""
        events, visitors = np.frombuffer(self._events, np.uint64), np.frombuffer(self._visitors, np.uint64)
        days, pages = np.frombuffer(self._days, np.uint32), np.frombuffer(self._pages, np.uint32)
        duplicate_count = len(events) - len(np.unique(events))
        if duplicate_count:
            _, first_positions = np.unique(events, return_index=True)
            visitors, days, pages = visitors[first_positions], days[first_positions], pages[first_positions]
        return CountedViews(
            _count_groups(days, visitors, day_count), _count_groups(pages, visitors, page_count), duplicate_count
        )


def _count_groups(groups: Any, visitors: Any, group_count: int) -> Sequence[HistoryCounts]:
    views = np.bincount(groups, minlength=group_count)
    pairs = visitors ^ (groups.astype(np.uint64) * GROUP_MULTIPLIER)
    _, first_positions = np.unique(pairs, return_index=True)
    visitor_counts = np.bincount(groups[first_positions], minlength=group_count)
    return [HistoryCounts(*counts) for counts in zip(visitor_counts.tolist(), views.tolist(), strict=True)]


def _hash_text(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
