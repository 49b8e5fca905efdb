"""Encodes visits as pages, which are groups of 128 visits, so that one read finds all about a key.

A page has the columns of its visits one after the other. Keys are sorted hashes, so those of a page are close together:
6 or 7 bytes say how far each is from the first one, which the file has elsewhere. Scope, day and class bits share 4
bytes if they fit.
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
WHOLE_KEY_BYTES = 8
MIN_ROWS_BY_KEY_BYTES = {6: 12_000_000, 7: 50_000}
"""How many rows a file must have for keys of so many bytes: 128 of so many hashes are hardly ever farther apart than 48
or 56 bits say, unless every key occurs about ten times."""
KEY_PARTS = {6: [("low", "<u4"), ("high", "<u2")], 7: [("low", "<u4"), ("high", "<u2"), ("top", "u1")]}
KEY_BYTES_BY_MARK = {0: 8, 1: 6}
"""Maps what the first version of this format wrote to the bytes of a key. Later versions write the bytes."""
MAX_PAGE_ROWS = 1 << 15
CLASS_BIT_COUNT = sum(CLASS_BITS.values()).bit_length()
LAYOUT = struct.Struct("<IBBHHI")
Pages = NDArray[np.void]


class KeysTooFarApart(Exception):
    """Two keys of a page are too far apart for the bytes that a key has."""


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
    key_bytes: int
    """6 or 7 for distances, 8 for whole keys."""
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
        keys = KEY_PARTS.get(self.key_bytes, [("key", "<i8")])
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
        if self.key_bytes == WHOLE_KEY_BYTES:
            self._fill(pages, "key", visits.key)
        else:
            first_keys = np.repeat(visits.key[:: self.page_rows], self.page_rows)[: len(visits)]
            distance = visits.key - first_keys
            if len(distance) and int(distance.max()) >> 8 * self.key_bytes:
                raise KeysTooFarApart
            self._fill(pages, "low", distance.astype(np.uint32))
            self._fill(pages, "high", (distance >> 32).astype(np.uint16))
            if self.key_bytes == 7:
                self._fill(pages, "top", (distance >> 48).astype(np.uint8))
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
        if self.key_bytes == WHOLE_KEY_BYTES:
            return np.ascontiguousarray(pages["key"]).reshape(-1)
        key_bytes = np.zeros((len(pages), self.page_rows, WHOLE_KEY_BYTES), np.uint8)  # filled faster than shifted
        key_bytes.view("<u4")[:, :, 0] = pages["low"]
        key_bytes.view("<u2")[:, :, 2] = pages["high"]
        if self.key_bytes == 7:
            key_bytes[:, :, 6] = pages["top"]
        keys: Keys = key_bytes.view("<i8")[:, :, 0]
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
            self.page_rows, self.key_bytes, self.class_bits, bounds.first_day, bounds.last_day, bounds.max_scope
        )


def list_layouts(rows: int, bounds: VisitBounds) -> list[PageLayout]:
    """Returns the layouts that a file of so many rows may have, the smallest first. The last one fits all keys."""
    narrow = [key_bytes for key_bytes, min_rows in MIN_ROWS_BY_KEY_BYTES.items() if rows >= min_rows]
    return [PageLayout(PAGE_ROWS, key_bytes, CLASS_BIT_COUNT, bounds) for key_bytes in (*narrow, WHOLE_KEY_BYTES)]


def unpack_layout(content: bytes) -> PageLayout:
    """Returns the layout that `pack` returned as bytes. Raises StoreDamaged if there is no such layout."""
    page_rows, key_bytes, class_bits, first_day, last_day, max_scope = LAYOUT.unpack(content)
    key_bytes = KEY_BYTES_BY_MARK.get(key_bytes, key_bytes)
    if not 1 <= page_rows <= MAX_PAGE_ROWS or page_rows & (page_rows - 1) or not 6 <= key_bytes <= WHOLE_KEY_BYTES:
        raise StoreDamaged
    return PageLayout(page_rows, key_bytes, class_bits, VisitBounds(max_scope, first_day, last_day))
