"""Computes how the index of visitors changes when visits change.

The index counts links: each day of a visitor has a link to their previous day. The links of human, AI and either are
counted apart, because a visitor may have come as AI on one day and as a human on the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.scope_table import ALL_CLASS_BITS, HUMAN_BIT, ScopeTable
from copydesk.analytics.stores.duckdb.folding.visit_rows import (
    Bits,
    Days,
    Keys,
    Positions,
    Scopes,
    VisitRows,
    find_group_starts,
    group_visits,
    join_visits,
    sort_positions,
)

HUMAN, AI, EITHER = 1, 2, 4
REMOVED, ADDED = 0, 1
NO_LINK = 0
MAX_JOINED_ROWS = 200_000
"""More rows are joined in ranges of days, because joining takes several times their memory."""
END_DAY = 1 << 16
"""The day after the last one that a row can have."""
ChangedVisits = tuple[VisitRows, Bits, Bits]
"""Visits with their class bits before a change and after it."""


@dataclass(frozen=True, slots=True)
class VisitChanges:
    """Visits with their class bits before a change (`was`) and after it (`now`); each scope, key and day once.

    Sorted by key, scope and day. Days of visitors have the same form, with kinds (human, AI, either) as bits.
    """

    key: Keys
    scope: Scopes
    day: Days
    was: Bits
    now: Bits

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: NDArray[np.int64]) -> "VisitChanges":
        return VisitChanges(self.key[rows], self.scope[rows], self.day[rows], self.was[rows], self.now[rows])


@dataclass(frozen=True, slots=True)
class IndexRows:
    """Rows of the index: how many more visitors came on `day`, and previously on `prev` (0 means never)."""

    scope: Scopes
    day: Days
    prev: Days
    human: NDArray[np.int32]
    ai: NDArray[np.int32]
    total: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.scope)

    def columns(self) -> list[NDArray[Any]]:
        return [self.scope, self.day, self.prev, self.human, self.ai, self.total]

    def select_days(self, first_day: int, end_day: int) -> "IndexRows":
        """Returns the rows of these days, if all are ordered by day."""
        first, end = np.searchsorted(self.day, [first_day, end_day])
        return IndexRows(*(column[first:end] for column in self.columns()))


_NO_DAYS, _NO_NUMBERS = np.empty(0, np.uint16), np.empty(0, np.int32)
NO_ROWS = IndexRows(_NO_NUMBERS, _NO_DAYS, _NO_DAYS, _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS)


def add_to_known(known: VisitRows, new: VisitRows) -> ChangedVisits:
    """Returns known visits and new ones with their bits before and after the new ones are added."""
    rows = join_visits([known, new])
    return rows, np.concatenate((known.bits, np.zeros(len(new), np.uint8))), rows.bits


def combine_visits(rows: VisitRows, was: Bits, now: Bits) -> VisitChanges:
    """Returns each scope, key and day once, with the bits before and after a change of all its rows."""
    return _group_changes(rows.key, rows.scope, rows.day, was, now)


def find_whole_keys(key: Keys, is_changed: NDArray[np.bool_]) -> Positions:
    """Returns the positions of all rows whose key has a change; the keys must be sorted."""
    starts = find_group_starts(key)
    if not len(starts):
        return starts
    lengths = np.diff(np.append(starts, len(key)))
    return np.flatnonzero(np.repeat(np.logical_or.reduceat(is_changed, starts), lengths))


def count_links(scopes: ScopeTable, visits: VisitChanges) -> IndexRows:
    """Returns the change of the index. All visits with the same key must be included."""
    links = [np.empty(0, np.int64)]
    for days in (_find_own_days(scopes, visits), _find_parent_days(scopes, visits)):
        chain = _number_chains(days)
        codes = days.scope.astype(np.int64) << 32 | days.day.astype(np.int64) << 16
        all_kinds = int(np.bitwise_or.reduce(days.was | days.now))
        for kind in (HUMAN, AI, EITHER):
            if not all_kinds & kind:
                continue
            old_links, new_links = (_link_days(codes, chain, bits & kind != 0) for bits in (days.was, days.now))
            changed = np.flatnonzero(old_links != new_links)
            for some_links, sign in ((old_links[changed], REMOVED), (new_links[changed], ADDED)):
                links.append(some_links[some_links != NO_LINK] << 4 | kind << 1 | sign)
    return _sum_links(np.concatenate(links))


def join_index_rows(parts: Sequence[IndexRows]) -> Iterator[IndexRows]:
    """Yields the sums of equal rows, without those that cancel out, ordered by day.

    Each part must be ordered by day. Many rows are yielded in ranges of days.
    """
    if len(parts) == 1:
        yield parts[0]
        return
    for first_day, end_day in pairwise(_split_days(parts)):
        yield _join_sorted([part.select_days(first_day, end_day) for part in parts])


def _split_days(parts: Sequence[IndexRows]) -> list[int]:
    """Returns the first days of ranges with about MAX_JOINED_ROWS rows each, and the day after the last range."""
    if sum(map(len, parts)) <= MAX_JOINED_ROWS:
        return [0, END_DAY]
    rows_by_day = np.zeros(END_DAY, np.int64)
    for part in parts:
        rows_by_day += np.bincount(part.day, minlength=END_DAY)
    days = np.flatnonzero(rows_by_day)
    rows_before = np.cumsum(rows_by_day) - rows_by_day
    return [*days[find_group_starts(rows_before[days] // MAX_JOINED_ROWS)].tolist(), END_DAY]


def _join_sorted(parts: Sequence[IndexRows]) -> IndexRows:
    scope, day, prev, *numbers = (
        np.concatenate(columns) for columns in zip(*(part.columns() for part in parts), strict=True)
    )
    codes: NDArray[np.uint64] = day.astype(np.uint64) << np.uint64(48)
    codes |= prev.astype(np.uint64) << np.uint64(32)
    codes |= scope.astype(np.uint64)
    order = np.argsort(codes, kind="stable")  # fast, because each part is sorted
    starts = find_group_starts(codes[order])
    human, ai, total = (_sum_groups(column[order], starts) for column in numbers)
    changed = np.flatnonzero((human != 0) | (ai != 0) | (total != 0))
    first = order[starts[changed]]
    return IndexRows(scope[first], day[first], prev[first], human[changed], ai[changed], total[changed])


def _find_own_days(scopes: ScopeTable, visits: VisitChanges) -> VisitChanges:
    """Returns the days of visitors by page and by agent, with kinds (human, AI, either) instead of class bits.

    All views of an agent count as its own, whatever their class.
    """
    is_agent = scopes.is_agent[visits.scope]
    human_bit = np.where(is_agent, 0, HUMAN_BIT).astype(np.uint8)
    ai_bits = np.where(is_agent, ALL_CLASS_BITS, scopes.ai[visits.scope]).astype(np.uint8)
    was, now = (find_kinds(bits, human_bit, ai_bits) for bits in (visits.was, visits.now))
    return VisitChanges(visits.key, visits.scope, visits.day, was, now)


def _find_parent_days(scopes: ScopeTable, visits: VisitChanges) -> VisitChanges:
    """Returns the days of visitors of the sites and of the kinds of sources: a visit of an agent also counts for its
    site, a visit from a host for the kind of the host."""
    parts = visits.take(np.flatnonzero(scopes.parent[visits.scope]))
    human_bit = np.full(len(parts), HUMAN_BIT, np.uint8)
    was, now = (find_kinds(bits, human_bit, scopes.ai[parts.scope]) for bits in (parts.was, parts.now))
    counted = np.flatnonzero((was | now) != 0)
    parent = scopes.parent[parts.scope]
    return _group_changes(parts.key[counted], parent[counted], parts.day[counted], was[counted], now[counted])


def find_kinds(bits: Bits, human_bit: Bits | int, ai_bits: Bits | int) -> Bits:
    """Returns the kinds (human, AI, either) of visits with these class bits."""
    human = (bits & human_bit) != 0
    ai = (bits & ai_bits) != 0
    kinds: Bits = human * np.uint8(HUMAN) | ai * np.uint8(AI) | (human | ai) * np.uint8(EITHER)
    return kinds


def _group_changes(key: Keys, scope: Scopes, day: Days, was: Bits, now: Bits) -> VisitChanges:
    order, starts = group_visits(key, scope, day)
    first = order[starts]
    if not len(starts):
        return VisitChanges(key, scope, day, was, now)
    return VisitChanges(
        key[first], scope[first], day[first],
        np.bitwise_or.reduceat(was[order], starts), np.bitwise_or.reduceat(now[order], starts),
    )  # fmt: skip


def _number_chains(days: VisitChanges) -> NDArray[np.int64]:
    """Returns a number for each sorted day that is the same for all days of a visitor in a scope."""
    is_first = np.zeros(len(days), np.bool_)
    is_first[1:] = (days.key[1:] != days.key[:-1]) | (days.scope[1:] != days.scope[:-1])
    return np.cumsum(is_first)


def _link_days(codes: NDArray[np.int64], chain: NDArray[np.int64], came: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the links of sorted days: the scope, the day and the previous day of the same visitor, as one number.

    A code is a link without its previous day. Days on which the visitor did not come have no link.
    """
    rows = np.flatnonzero(came)
    linked_codes, linked_chain = codes[rows], chain[rows]
    previous_days = linked_codes[:-1] >> 16 & 0xFFFF
    linked_codes[1:] |= previous_days * (linked_chain[1:] == linked_chain[:-1])
    links = np.full(len(codes), NO_LINK)
    links[rows] = linked_codes
    return links


def _sum_links(links: NDArray[np.int64]) -> IndexRows:
    """Returns the sums of equal links, without those that cancel out, ordered by day.

    The low bits of a link are its kind, and whether it was added or removed.
    """
    links = np.sort(links)
    codes, kinds = links >> 4, links >> 1 & 7
    numbers = np.where(links & 1 == ADDED, np.int32(1), np.int32(-1))
    starts = find_group_starts(codes)
    human, ai, total = (
        _sum_groups(np.where(kinds == kind, numbers, np.int32(0)), starts) for kind in (HUMAN, AI, EITHER)
    )
    changed = np.flatnonzero((human != 0) | (ai != 0) | (total != 0))
    codes = codes[starts][changed]
    day_prev = codes & 0xFFFFFFFF
    order = sort_positions(day_prev)
    codes, day_prev, changed = codes[order], day_prev[order], changed[order]
    return IndexRows(
        (codes >> 32).astype(np.int32), (day_prev >> 16).astype(np.uint16), (day_prev & 0xFFFF).astype(np.uint16),
        human[changed], ai[changed], total[changed],
    )  # fmt: skip


def _sum_groups(numbers: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns the sum of each group of numbers; the groups begin at these places."""
    sums: NDArray[np.int32] = np.add.reduceat(numbers, starts, dtype=np.int32) if len(starts) else numbers
    return sums
