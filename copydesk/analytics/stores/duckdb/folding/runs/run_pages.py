"""Encodes visits as pages, which are groups of 128 visits, so that one read finds all about a key.

A page has the columns of its visits one after the other. Keys are sorted hashes, so those of a page are close together
in a long file: there, 6 bytes say how far each is from the first one, which the file has elsewhere. Scope, day and
class bits share 4 bytes if they fit.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.base import CLASS_BITS
from copydesk.analytics.stores.duckdb.folding.visit_rows import Keys, Positions, VisitRows
from copydesk.analytics.stores.errors import StoreDamaged

PAGE_ROWS = 128
"""A power of two, because places are split into a page and a row."""
MIN_NARROW_ROWS = 12_000_000
"""Keys of files with at least this many rows take 6 bytes: 128 of so many hashes are hardly ever farther apart than 48
bits say, unless every key occurs about ten times."""
MAX_PAGE_ROWS = 1 << 15
CLASS_BIT_COUNT = sum(CLASS_BITS.values()).bit_length()
LAYOUT = struct.Struct("<IBBHHI")
Pages = NDArray[np.void]


class KeysTooFarApart(Exception):
    """Two keys of a page are too far apart for 6 bytes."""


@dataclass(frozen=True, slots=True)
class VisitBounds:
    """The greatest scope and the first and the last day of some visits, which decide how many bits these take."""

    max_scope: int
    first_day: int
    last_day: int


def find_bounds(visits: VisitRows) -> VisitBounds:
    return VisitBounds(int(visits.scope.max()), int(visits.day.min()), int(visits.day.max()))


def join_bounds(bounds: Iterable[VisitBounds]) -> VisitBounds:
    """Returns the bounds of visits that are all within one of these."""
    bounds = list(bounds)
    return VisitBounds(
        max(each.max_scope for each in bounds),
        min(each.first_day for each in bounds),
        max(each.last_day for each in bounds),
    )


@dataclass(frozen=True)
class PageLayout:
    """How the pages of a file are encoded."""

    page_rows: int
    has_narrow_keys: bool
    class_bits: int
    """How many class bits a visit has."""
    bounds: VisitBounds

    @cached_property
    def _row_bits(self) -> int:
        return (self.page_rows - 1).bit_length()

    @cached_property
    def _day_bits(self) -> int:
        return (self.bounds.last_day - self.bounds.first_day).bit_length()

    @cached_property
    def is_packed(self) -> bool:
        """Whether scope, day and class bits share 4 bytes."""
        return self.bounds.max_scope.bit_length() + self._day_bits + self.class_bits <= 32

    @cached_property
    def page_type(self) -> np.dtype[np.void]:
        keys = [("low", "<u4"), ("high", "<u2")] if self.has_narrow_keys else [("key", "<i8")]
        others = [("packed", "<u4")] if self.is_packed else [("scope", "<i4"), ("day", "<u2"), ("bits", "u1")]
        return np.dtype([(name, kind, self.page_rows) for name, kind in (*keys, *others)])

    def count_pages(self, rows: int) -> int:
        return -(-rows // self.page_rows)

    def encode(self, visits: VisitRows) -> Pages:
        """Returns the pages of visits, which must be sorted by key. The last page is filled up with zeros.

        Raises KeysTooFarApart, and ValueError if the visits are not within the bounds.
        """
        self._check_bounds(visits)
        pages = np.zeros(self.count_pages(len(visits)), self.page_type)
        if self.has_narrow_keys:
            first_keys = np.repeat(visits.key[:: self.page_rows], self.page_rows)[: len(visits)]
            distance = visits.key - first_keys
            if len(distance) and int(distance.max()) >> 48:
                raise KeysTooFarApart
            self._fill(pages, "low", distance.astype(np.uint32))
            self._fill(pages, "high", (distance >> 32).astype(np.uint16))
        else:
            self._fill(pages, "key", visits.key)
        if self.is_packed:
            day = (visits.day - np.uint16(self.bounds.first_day)).astype(np.uint32)
            packed = visits.scope.astype(np.uint32) << np.uint32(self._day_bits) | day
            self._fill(pages, "packed", packed << np.uint32(self.class_bits) | visits.bits)
        else:
            for name in ("scope", "day", "bits"):
                self._fill(pages, name, getattr(visits, name))
        return pages

    def _check_bounds(self, visits: VisitRows) -> None:
        """Refuses visits that would be read back as others."""
        if len(visits) and (
            join_bounds([self.bounds, find_bounds(visits)]) != self.bounds
            or int(visits.scope.min()) < 0
            or int(visits.bits.max()) >> self.class_bits
        ):
            raise ValueError(f"Visits are not within {self.bounds} and {self.class_bits} class bits.")

    def _fill(self, pages: Pages, name: str, column: NDArray[Any]) -> None:
        whole_pages = len(column) // self.page_rows
        whole_rows = whole_pages * self.page_rows
        field = pages[name]
        field[:whole_pages] = column[:whole_rows].reshape(whole_pages, self.page_rows)
        if whole_rows < len(column):
            field[whole_pages, : len(column) - whole_rows] = column[whole_rows:]

    def decode_keys(self, pages: Pages, first_keys: Keys) -> Keys:
        """Returns the keys of pages, with what fills up the last one. `first_keys` has the first key of each page."""
        if not self.has_narrow_keys:
            return np.ascontiguousarray(pages["key"]).reshape(-1)
        keys = pages["high"].astype(np.int64)
        keys <<= 32
        keys |= pages["low"]
        keys += first_keys[:, np.newaxis]
        return keys.reshape(-1)

    def decode_others(self, pages: Pages, places: Positions | slice) -> list[NDArray[Any]]:
        """Returns the scopes, days and bits at these places, which are the numbers of rows among those of all pages."""
        if not self.is_packed:
            return [self._select(pages[name], places) for name in ("scope", "day", "bits")]
        packed = self._select(pages["packed"], places)
        bits = (packed & np.uint32((1 << self.class_bits) - 1)).astype(np.uint8)
        packed = packed >> np.uint32(self.class_bits)
        day = (packed & np.uint32((1 << self._day_bits) - 1)).astype(np.uint16)
        day += np.uint16(self.bounds.first_day)
        return [(packed >> np.uint32(self._day_bits)).astype(np.int32), day, bits]

    def _select(self, field: NDArray[Any], places: Positions | slice) -> NDArray[Any]:
        if isinstance(places, slice):
            return np.ascontiguousarray(field).reshape(-1)[places]
        selected: NDArray[Any] = field[self.split_places(places)]
        return selected

    def split_places(self, places: Positions) -> tuple[Positions, Positions]:
        """Returns the page and the row of each place."""
        return places >> self._row_bits, places & (self.page_rows - 1)

    def pack(self) -> bytes:
        """Returns the layout as a part of a file."""
        bounds = self.bounds
        return LAYOUT.pack(
            self.page_rows, self.has_narrow_keys, self.class_bits, bounds.first_day, bounds.last_day, bounds.max_scope
        )


def choose_layout(rows: int, bounds: VisitBounds, may_be_narrow: bool = True) -> PageLayout:
    return PageLayout(PAGE_ROWS, may_be_narrow and rows >= MIN_NARROW_ROWS, CLASS_BIT_COUNT, bounds)


def unpack_layout(content: bytes) -> PageLayout:
    """Returns the layout that `pack` returned as bytes. Raises StoreDamaged if there is no such layout."""
    page_rows, has_narrow_keys, class_bits, first_day, last_day, max_scope = LAYOUT.unpack(content)
    if not 1 <= page_rows <= MAX_PAGE_ROWS or page_rows & (page_rows - 1):
        raise StoreDamaged
    return PageLayout(page_rows, bool(has_narrow_keys), class_bits, VisitBounds(max_scope, first_day, last_day))
