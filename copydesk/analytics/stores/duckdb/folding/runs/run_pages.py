"""Encodes visits as pages, which are groups of 128 visits, so that one read finds all about a key.

A page has the scopes, days and class bits of its visits, then flags, one bit for each visit, which say whether it has
another key than the visit before, and then the keys without repetitions. Keys are sorted hashes, so neighbors are close
together: 6 or 7 bytes say how far each is from the one before. The first key and the number of keys of each page are
elsewhere in the file. Scope, day and class bits share 4 bytes if they fit.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.base import CLASS_BITS
from copydesk.analytics.stores.duckdb.folding.visit_rows import Keys, Positions, VisitRows
from copydesk.analytics.stores.errors import StoreDamaged

PAGE_ROWS = 128
"""A power of two, because places are split into a page and a row."""
MAX_PAGE_ROWS = 256
"""The number of keys of a page, less one, has one byte."""
WHOLE_KEY_BYTES = 8
MIN_ROWS_BY_KEY_BYTES = {6: 1_500_000, 7: 5_000}
"""How many rows a file must have for keys of so many bytes: two neighbors of so many hashes are hardly ever farther
apart than 48 or 56 bits say, unless every key occurs several times."""
ALIGNED_BYTES = 4
"""Pages begin at multiples of this, because numpy reads aligned numbers faster."""
CLASS_BIT_COUNT = sum(CLASS_BITS.values()).bit_length()
LAYOUT = struct.Struct("<IBBHHI")
Counts = NDArray[np.int64]


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


class PageContents(NamedTuple):
    """Some pages of a file."""

    content: bytes | mmap
    starts: Positions
    """Where each page begins in the content."""
    key_counts: Counts
    """How many keys each page has."""
    fences: Keys
    """The first key of each page."""
    rows: int
    """How many visits the pages have. All but the last one are full."""


class PageKeys(NamedTuple):
    """The keys of some pages. A key that goes on on the next page occurs again there."""

    keys: Keys
    first_rows: Positions
    """The row of the first visit with each key, among the visits of these pages; and then the number of visits."""


class EncodedPages(NamedTuple):
    content: bytes
    key_counts: Counts
    """How many keys each page has."""


@dataclass(frozen=True)
class PageLayout:
    """How the pages of a file are encoded."""

    page_rows: int
    key_bytes: int
    """6 or 7 for distances, 8 for distances of any size."""
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
    def _other_types(self) -> list[tuple[str, str, int]]:
        """The name, the type and the place in a page of each column except the key."""
        if self.is_packed:
            return [("packed", "<u4", 0)]
        return [("scope", "<i4", 0), ("day", "<u2", 4 * self.page_rows), ("bits", "u1", 6 * self.page_rows)]

    @cached_property
    def _flags_place(self) -> int:
        return self.page_rows * (4 if self.is_packed else 7)

    @cached_property
    def _flag_bytes(self) -> int:
        return -(-self.page_rows // 8)

    @property
    def _keys_place(self) -> int:
        return self._flags_place + self._flag_bytes

    def count_pages(self, rows: int) -> int:
        return -(-rows // self.page_rows)

    def measure_pages(self, key_counts: Counts) -> Counts:
        """Returns the bytes of pages with so many keys."""
        used = self._keys_place + self.key_bytes * (key_counts - 1)
        return -(-used // ALIGNED_BYTES) * ALIGNED_BYTES

    def encode(self, visits: VisitRows) -> EncodedPages:
        """Returns the pages of visits, which must be sorted by key. The last page is filled up with zeros.

        Raises KeysTooFarApart, and ValueError if the visits are not within the bounds.
        """
        self._check_bounds(visits)
        is_new = np.zeros(self.count_pages(len(visits)) * self.page_rows, np.bool_)
        np.not_equal(visits.key[1:], visits.key[:-1], out=is_new[1 : len(visits)])
        is_new[:: self.page_rows] = False  # these are fences
        rows = np.flatnonzero(is_new)
        distances = visits.key[rows] - visits.key[rows - 1]
        if len(rows) and int(distances.max()) >> 8 * self.key_bytes:
            raise KeysTooFarApart
        flags = is_new.reshape(-1, self.page_rows)
        key_counts = np.count_nonzero(flags, axis=1) + 1
        flags[:, 0] = True
        fixed = np.zeros((len(flags), self._keys_place), np.uint8)
        self._fill_others(fixed, visits)
        fixed[:, self._flags_place :] = np.packbits(flags, axis=1, bitorder="little")
        keys = distances.astype("<i8").view(np.uint8).reshape(-1, WHOLE_KEY_BYTES)[:, : self.key_bytes].tobytes()
        return EncodedPages(self._join_pages(fixed.tobytes(), keys, key_counts), key_counts)

    def _fill_others(self, fixed: NDArray[np.uint8], visits: VisitRows) -> None:
        columns: dict[str, NDArray[Any]] = {"scope": visits.scope, "day": visits.day, "bits": visits.bits}
        if self.is_packed:
            day = (visits.day - np.uint16(self.bounds.first_day)).astype(np.uint32)
            packed = visits.scope.astype(np.uint32) << np.uint32(self._day_bits) | day
            columns = {"packed": packed << np.uint32(self.class_bits) | visits.bits}
        for name, kind, place in self._other_types:
            values = np.zeros((len(fixed), self.page_rows), kind)
            values.reshape(-1)[: len(visits)] = columns[name]
            fixed[:, place : place + values.itemsize * self.page_rows] = values.view(np.uint8)

    def _join_pages(self, fixed: bytes, keys: bytes, key_counts: Counts) -> bytes:
        """Returns pages from their parts of the same size, and their keys."""
        fixed_ends = np.arange(1, len(key_counts) + 1) * self._keys_place
        key_bytes = (key_counts - 1) * self.key_bytes
        key_ends = np.cumsum(key_bytes)
        unused = self.measure_pages(key_counts) - self._keys_place - key_bytes
        fixed_view, key_view, zeros = memoryview(fixed), memoryview(keys), memoryview(bytes(ALIGNED_BYTES))
        return b"".join(
            chain.from_iterable(
                zip(
                    _slice(fixed_view, fixed_ends - self._keys_place, fixed_ends),
                    _slice(key_view, key_ends - key_bytes, key_ends),
                    _slice(zeros, np.zeros(len(unused), np.int64), unused),
                    strict=True,
                )
            )
        )

    def _check_bounds(self, visits: VisitRows) -> None:
        """Refuses visits that would be read back as others."""
        if len(visits) and (
            join_bounds([self.bounds, find_bounds(visits)]) != self.bounds
            or int(visits.scope.min()) < 0
            or int(visits.bits.max()) >> self.class_bits
        ):
            raise ValueError(f"Visits are not within {self.bounds} and {self.class_bits} class bits.")

    def decode_keys(self, pages: PageContents) -> PageKeys:
        if not len(pages.starts):
            return PageKeys(np.empty(0, np.int64), np.zeros(1, np.int64))
        starts = pages.starts + self._keys_place
        ends = starts + self.key_bytes * (pages.key_counts - 1)
        with memoryview(pages.content) as view:
            content = b"".join(_slice(view, starts, ends))
        count = len(content) // self.key_bytes
        content += bytes(WHOLE_KEY_BYTES)  # the last number is read with some bytes that follow
        steps = np.zeros(count + len(starts), np.int64)
        first = np.cumsum(pages.key_counts) - pages.key_counts
        is_stored = np.ones(len(steps), np.bool_)
        is_stored[first] = False
        distances = np.ndarray(count, "<i8", content, 0, (self.key_bytes,))
        steps[is_stored] = (
            distances & ((1 << 8 * self.key_bytes) - 1) if self.key_bytes < WHOLE_KEY_BYTES else distances
        )
        keys: Keys = np.cumsum(steps)
        keys += np.repeat(pages.fences - keys[first], pages.key_counts)
        return PageKeys(keys, np.append(self._find_first_rows(pages), pages.rows))

    def _find_first_rows(self, pages: PageContents) -> Positions:
        """Returns the rows whose flags are set."""
        all_flags = np.ndarray(
            (len(pages.content) - self._flag_bytes) // ALIGNED_BYTES + 1,
            f"V{self._flag_bytes}", pages.content, 0, (ALIGNED_BYTES,),
        )  # fmt: skip
        flags = all_flags[(pages.starts + self._flags_place) // ALIGNED_BYTES].view(np.uint8)
        bits = np.unpackbits(flags.reshape(len(pages.starts), -1), axis=1, count=self.page_rows, bitorder="little")
        return np.flatnonzero(bits.view(np.bool_))

    def decode_others(self, pages: PageContents, rows: Positions) -> list[NDArray[Any]]:
        """Returns the scopes, days and bits of these rows, which are numbers of visits among those of all pages."""
        page, row = self.split_places(rows)
        start = pages.starts[page]
        columns = []
        for _, kind, place in self._other_types:
            size = np.dtype(kind).itemsize
            column = np.frombuffer(pages.content, kind, len(pages.content) // size)
            columns.append(column[(start + place) // size + row])
        return self._unpack_others(columns[0]) if self.is_packed else columns

    def _unpack_others(self, packed: NDArray[np.uint32]) -> list[NDArray[Any]]:
        bits = (packed & np.uint32((1 << self.class_bits) - 1)).astype(np.uint8)
        packed = packed >> np.uint32(self.class_bits)
        day = (packed & np.uint32((1 << self._day_bits) - 1)).astype(np.uint16)
        day += np.uint16(self.bounds.first_day)
        return [(packed >> np.uint32(self._day_bits)).astype(np.int32), day, bits]

    def split_places(self, places: Positions) -> tuple[Positions, Positions]:
        """Returns the page and the row of each place."""
        return places >> self._row_bits, places & (self.page_rows - 1)

    def pack(self) -> bytes:
        """Returns the layout as a part of a file."""
        bounds = self.bounds
        return LAYOUT.pack(
            self.page_rows, self.key_bytes, self.class_bits, bounds.first_day, bounds.last_day, bounds.max_scope
        )


def _slice(content: memoryview, starts: Positions, ends: Positions) -> list[memoryview]:
    return [content[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def list_layouts(rows: int, bounds: VisitBounds) -> list[PageLayout]:
    """Returns the layouts that a file of so many rows may have, the smallest first. The last one fits all keys."""
    narrow = [key_bytes for key_bytes, min_rows in MIN_ROWS_BY_KEY_BYTES.items() if rows >= min_rows]
    return [PageLayout(PAGE_ROWS, key_bytes, CLASS_BIT_COUNT, bounds) for key_bytes in (*narrow, WHOLE_KEY_BYTES)]


def unpack_layout(content: bytes) -> PageLayout:
    """Returns the layout that `pack` returned as bytes. Raises StoreDamaged if there is no such layout."""
    page_rows, key_bytes, class_bits, first_day, last_day, max_scope = LAYOUT.unpack(content)
    if not 1 <= page_rows <= MAX_PAGE_ROWS or page_rows & (page_rows - 1) or not 6 <= key_bytes <= WHOLE_KEY_BYTES:
        raise StoreDamaged
    return PageLayout(page_rows, key_bytes, class_bits, VisitBounds(max_scope, first_day, last_day))
