"""Visits as columns: who came to which scope on which day, and as which classes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Scopes = NDArray[np.int32]
Days = NDArray[np.uint16]
Bits = NDArray[np.uint8]
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class VisitRows:
    """Visits. The key is the visitor xor the scope's salt. Rows with the same scope, key and day add up their bits."""

    key: Keys
    scope: Scopes
    day: Days
    bits: Bits

    def __len__(self) -> int:
        return len(self.key)

    def columns(self) -> list[Keys | Scopes | Days | Bits]:
        return [self.key, self.scope, self.day, self.bits]

    def take(self, rows: Positions | NDArray[np.bool_] | slice) -> "VisitRows":
        """Returns the rows at these positions, or the rows of a mask."""
        return VisitRows(self.key[rows], self.scope[rows], self.day[rows], self.bits[rows])

    def sort_by_key(self) -> "VisitRows":
        return self.take(sort_positions(self.key))

    def sort(self) -> "VisitRows":
        """Returns the visits sorted by key, scope and day."""
        return self.take(group_visits(self.key, self.scope, self.day)[0])

    def find(self, keys: Keys) -> "tuple[Positions, VisitRows]":
        """Returns the visits with these keys, and their positions. All keys must be sorted, and these be distinct."""
        positions = find_sorted(self.key, keys)
        return positions, self.take(positions)

    def find_selected(self, keys: Keys, select: "SelectVisits") -> "VisitRows":
        """Returns those of the visits with these keys that `select` selects."""
        return select(self.find(keys)[1])

    def read_rows(self, first: int, end: int) -> "VisitRows":
        """Returns the visits at these positions."""
        return self.take(slice(first, end))

    def get_key(self, position: int) -> int:
        return int(self.key[position])

    def find_end(self, key: int) -> int:
        """Returns the position after all visits with this key or a smaller one, if the visits are sorted by key."""
        return int(np.searchsorted(self.key, key, "right"))

    def release_memory(self) -> None:
        """Does nothing: only files have memory that can be read again."""


SelectVisits = Callable[[VisitRows], VisitRows]
"""Selects some of a part of the visits, whose keys are in no other part."""
NO_VISITS = VisitRows(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint16), np.empty(0, np.uint8))


NO_POSITIONS: Positions = np.empty(0, np.int64)


def join_visits(parts: Sequence[VisitRows]) -> VisitRows:
    if len(parts) == 1:
        return parts[0]
    return VisitRows(
        np.concatenate([part.key for part in parts] or [NO_VISITS.key]),
        np.concatenate([part.scope for part in parts] or [NO_VISITS.scope]),
        np.concatenate([part.day for part in parts] or [NO_VISITS.day]),
        np.concatenate([part.bits for part in parts] or [NO_VISITS.bits]),
    )


def insert_sorted(rows: VisitRows, new_rows: VisitRows) -> VisitRows:
    """Returns both, sorted by key, if both are sorted by key."""
    if not len(rows):
        return new_rows
    places = np.searchsorted(rows.key, new_rows.key) + np.arange(len(new_rows))
    is_old = np.ones(len(rows) + len(new_rows), np.bool_)
    is_old[places] = False
    columns: list[NDArray[Any]] = []
    for column, new_column in zip(rows.columns(), new_rows.columns(), strict=True):
        both = np.empty(len(is_old), column.dtype)
        both[places], both[is_old] = new_column, column
        columns.append(both)
    return VisitRows(*columns)


def keep_all(rows: VisitRows) -> VisitRows:
    """Selects all visits."""
    return rows


class SortedVisits(Protocol):
    """Visits sorted by key, in memory or in a file."""

    def __len__(self) -> int: ...

    def find(self, keys: Keys) -> tuple[Positions, VisitRows]: ...

    def find_selected(self, keys: Keys, select: SelectVisits) -> VisitRows: ...

    def read_rows(self, first: int, end: int) -> VisitRows: ...

    def get_key(self, position: int) -> int: ...

    def find_end(self, key: int) -> int: ...

    def release_memory(self) -> None: ...


def merge_sorted(sources: Sequence[SortedVisits], rows: int) -> Iterator[VisitRows]:
    """Yields the visits of all sources, sorted by key, scope and day, in parts of about this many rows of each source.

    All visits with the same key are in the same part.
    """
    positions = [0] * len(sources)
    while True:
        ends = [position + rows for position in positions]
        bounds = [source.get_key(end) for source, end in zip(sources, ends, strict=True) if end < len(source)]
        parts = []
        for number, source in enumerate(sources):
            first, end = positions[number], source.find_end(min(bounds)) if bounds else len(source)
            parts.append(source.read_rows(first, end))
            positions[number] = end
        if merged := join_visits([part for part in parts if len(part)] or [NO_VISITS]):
            yield merged.sort()
        if not bounds:
            return


def find_sorted(sorted_keys: Keys, wanted_keys: Keys) -> Positions:
    """Returns the positions of all rows with one of these keys, which must be sorted and distinct."""
    _, first, counts = find_ranges(sorted_keys, wanted_keys)
    return expand_ranges(first, counts)


def find_ranges(sorted_keys: Keys, wanted_keys: Keys) -> tuple[Positions, Positions, Positions]:
    """Returns which of the wanted keys occur, by their positions, and the first row and the number of rows of each."""
    if not len(sorted_keys):
        return NO_POSITIONS, NO_POSITIONS, NO_POSITIONS
    last = len(sorted_keys) - 1
    first = np.searchsorted(sorted_keys, wanted_keys)
    matches = np.flatnonzero(sorted_keys[np.minimum(first, last)] == wanted_keys)
    first = first[matches]
    found_keys = wanted_keys[matches]
    counts = np.ones(len(matches), np.int64)
    repeated = np.flatnonzero((sorted_keys[np.minimum(first + 1, last)] == found_keys) & (first < last))
    counts[repeated] = np.searchsorted(sorted_keys, found_keys[repeated], "right") - first[repeated]
    return matches, first, counts


def expand_ranges(first: Positions, counts: Positions) -> Positions:
    """Returns the numbers of all ranges, each given by its first number and its length."""
    if (counts == 1).all():
        return first
    ends = np.cumsum(counts)
    positions: Positions = np.arange(ends[-1]) + np.repeat(first - ends + counts, counts)
    return positions


def sort_distinct(keys: Keys) -> Keys:
    """Returns each key once, sorted. Much faster than `np.unique`."""
    return drop_repeated(np.sort(keys))


def drop_repeated(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns each number once, if equal ones are neighbors."""
    return ordered[find_group_starts(ordered)]


def find_group_starts(ordered: NDArray[np.integer[Any]]) -> Positions:
    """Returns where each group of equal numbers starts, if equal ones are neighbors."""
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def contain_keys(sorted_keys: Keys, keys: Keys) -> NDArray[np.bool_]:
    """Returns a mask of the keys that are among sorted ones."""
    if not len(sorted_keys):
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    is_contained: NDArray[np.bool_] = sorted_keys[places] == keys
    return is_contained


def split_by_key(rows: VisitRows, ranges: int) -> Iterator[VisitRows]:
    """Yields the visits of each of so many ranges of keys, in the order of the ranges.

    Keys are hashes of 63 bits, so ranges of the same length have about as many keys. At most 65,536 ranges: numbers of
    16 bits are sorted fastest.
    """
    range_number = ((rows.key >> 31) * ranges >> 32).astype(np.uint16)
    order = np.argsort(range_number, kind="stable")
    ends = np.cumsum(np.bincount(range_number, minlength=ranges)).tolist()
    for first, end in pairwise([0, *ends]):
        yield rows.take(order[first:end])


def sort_positions(numbers: NDArray[np.int64]) -> Positions:
    """Returns the same as a stable `np.argsort` of numbers that are not negative, in less than half the time.

    Sorts the numbers with their position in the low bits. If both do not fit into 63 bits, the low bits of the numbers
    are left out; if numbers differ in these only, their order is found by `np.argsort`.
    """
    if not len(numbers):
        return np.empty(0, np.int64)
    position_bits = (len(numbers) - 1).bit_length()
    left_out_bits = max(int(numbers.max()).bit_length() + position_bits - 63, 0)
    packed = np.sort(numbers >> left_out_bits << position_bits | np.arange(len(numbers)))
    positions: Positions = packed & (1 << position_bits) - 1
    if left_out_bits:
        ordered = numbers[positions]
        if (ordered[1:] < ordered[:-1]).any():
            return np.argsort(numbers, kind="stable")
    return positions


def group_visits(key: Keys, scope: Scopes, day: Days) -> tuple[Positions, Positions]:
    """Returns the order by key, scope and day, and where each group of equal rows starts in it.

    Sorts by key first, which is fast, and then only the rows whose key occurs several times.
    """
    scope_day = scope.astype(np.int64) << 16 | day
    order = sort_positions(key)
    ordered_key = key[order]
    is_repeated = np.zeros(len(order), np.bool_)
    np.equal(ordered_key[1:], ordered_key[:-1], out=is_repeated[1:])
    is_tied = is_repeated.copy()
    is_tied[:-1] |= is_repeated[1:]
    tied = np.flatnonzero(is_tied)
    group = np.cumsum(~is_repeated[tied], dtype=np.int64)
    order[tied] = order[tied][_sort_by_two(group, scope_day[order[tied]])]
    ordered_day = scope_day[order]
    is_repeated[1:] &= ordered_day[1:] == ordered_day[:-1]
    return order, np.flatnonzero(~is_repeated)


def _sort_by_two(group: NDArray[np.int64], number: NDArray[np.int64]) -> Positions:
    """Returns the positions in the order of the numbers within each group. Groups are sorted; nothing is negative."""
    bits = int(number.max(initial=0)).bit_length()
    if len(group) and bits + int(group[-1]).bit_length() > 63:
        return np.lexsort((number, group))
    return sort_positions(group << bits | number)


def match_visits(rows: VisitRows, wanted: VisitRows) -> NDArray[np.bool_]:
    """Returns a mask of the rows whose scope, key and day are among the wanted ones."""
    if not len(wanted) or not len(rows):
        return np.zeros(len(rows), np.bool_)
    both = join_visits([rows, wanted])
    order, starts = group_visits(both.key, both.scope, both.day)
    is_wanted = np.logical_or.reduceat(order >= len(rows), starts)
    mask = np.empty(len(both), np.bool_)
    mask[order] = np.repeat(is_wanted, np.diff(np.append(starts, len(both))))
    return mask[: len(rows)]
