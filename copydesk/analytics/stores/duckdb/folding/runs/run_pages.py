"""Encodes visits as pages, which are groups of 64 or 128 visits.

A page has the scopes, days and class bits of its visits, and flags, one bit for each visit, which say whether it has
another key than the visit before. The keys without repetitions follow the page. Keys are sorted hashes, so those of a
page are close together. In long files, 6 bytes say how far each is from the first one, so that a binary search reads
few of them. In short files, keys are farther apart, so 6 or 7 bytes say how far each is from the one before, and a
search decodes all keys of a page. The first key of a page is its fence, which is stored elsewhere with the number of
its keys. Scope, day and class bits share 4 bytes if they fit.
"""

import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.base import CLASS_BITS
from copydesk.analytics.stores.duckdb.folding.visit_rows import Keys, Positions, VisitRows
from copydesk.analytics.stores.errors import StoreDamaged

MAX_PAGE_ROWS = 256
"""The number of keys of a page, less one, has one byte."""
WHOLE_KEY_BYTES, WHOLE_KEY_BITS = 8, 63
CLASS_BIT_COUNT = sum(CLASS_BITS.values()).bit_length()
LAYOUT = struct.Struct("<IBBHHI?")
Counts = NDArray[np.int64]
Pages = NDArray[np.void]
Flags = NDArray[np.uint8]
"""A row of bytes for each page, with one bit for each visit."""


class PageSize(NamedTuple):
    """The sizes of pages and keys in files with at least so many rows."""

    min_rows: int
    page_rows: int
    """A power of two: a bit mask turns a row among those of several pages into a row of its page."""
    key_bytes: int
    """6 or 7 for distances, 8 for distances of any size."""


MIN_RELATIVE_ROWS = 6_000_000
"""Files with at least so many rows have keys as distances from the first one of the page."""
PAGE_SIZES = (
    PageSize(64_000_000, 128, 6),
    PageSize(MIN_RELATIVE_ROWS, 64, 6),
    PageSize(MIN_RELATIVE_ROWS, 64, 7),
    PageSize(MIN_RELATIVE_ROWS, 64, WHOLE_KEY_BYTES),
    PageSize(1_500_000, 128, 6),
    PageSize(5_000, 128, 7),
    PageSize(0, 128, WHOLE_KEY_BYTES),
)
"""The first that fits is used: hashes in so long a file are hardly ever farther apart than these bytes say, unless
every key occurs many times. Pages of 64 visits are searched faster, but have more fences, which are all in memory."""


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


class EncodedPages(NamedTuple):
    pages: Pages
    keys: bytes
    """The keys of all pages, as distances; 0 for the first key of a page."""
    key_counts: Counts
    """How many keys each page has."""


@dataclass(frozen=True)
class PageLayout:
    """How the pages of a long file are encoded: keys are distances from the first one of the page."""

    has_chained_keys: ClassVar[bool] = False
    page_rows: int
    key_bytes: int
    class_bits: int
    """How many class bits a visit has."""
    bounds: VisitBounds

    @cached_property
    def _day_bits(self) -> int:
        return (self.bounds.last_day - self.bounds.first_day).bit_length()

    @cached_property
    def is_packed(self) -> bool:
        """Whether scope, day and class bits share 4 bytes."""
        return self.bounds.max_scope.bit_length() + self._day_bits + self.class_bits <= 32

    @cached_property
    def other_types(self) -> list[tuple[str, str]]:
        """The names and types of all columns but the key."""
        return [("packed", "<u4")] if self.is_packed else [("scope", "<i4"), ("day", "<u2"), ("bits", "u1")]

    @cached_property
    def page_type(self) -> np.dtype[np.void]:
        others = [(name, kind, self.page_rows) for name, kind in self.other_types]
        return np.dtype([*others, ("flags", "u1", self.flag_bytes)])

    @cached_property
    def flag_bytes(self) -> int:
        return -(-self.page_rows // 8)

    def get_offset(self, name: str) -> int:
        """Returns where a column begins in a page."""
        fields = self.page_type.fields
        assert fields is not None
        return fields[name][1]

    def count_pages(self, rows: int) -> int:
        return -(-rows // self.page_rows)

    def encode(self, visits: VisitRows) -> EncodedPages:
        """Returns the pages of visits, which must be sorted by key. The last page is filled up with zeros.

        Raises KeysTooFarApart, and ValueError if the visits are not within the bounds.
        """
        self._check_bounds(visits)
        pages = np.zeros(self.count_pages(len(visits)), self.page_type)
        is_stored = np.zeros(len(pages) * self.page_rows, np.bool_)
        np.not_equal(visits.key[1:], visits.key[:-1], out=is_stored[1 : len(visits)])
        is_stored[:: self.page_rows] = True
        rows = np.flatnonzero(is_stored)
        distances = self._measure_distances(visits.key, rows)
        if len(rows) and int(distances.max()) >> 8 * self.key_bytes:
            raise KeysTooFarApart
        keys = distances.astype("<i8").view(np.uint8).reshape(-1, WHOLE_KEY_BYTES)[:, : self.key_bytes].tobytes()
        flags = is_stored.reshape(-1, self.page_rows)
        key_counts = np.count_nonzero(flags, axis=1)
        pages["flags"] = np.packbits(flags, axis=1, bitorder="little")
        self._fill_others(pages, visits)
        return EncodedPages(pages, keys, key_counts)

    def join_blocks(self, encoded: EncodedPages) -> bytes:
        """Returns each of these pages with its keys after it."""
        size, content = self.page_type.itemsize, encoded.pages.view(np.uint8).data
        key_ends = np.cumsum(encoded.key_counts * self.key_bytes).tolist()
        blocks: list[memoryview | bytes] = []
        for page, (start, end) in enumerate(pairwise([0, *key_ends])):
            blocks += (content[page * size : (page + 1) * size], encoded.keys[start:end])
        return b"".join(blocks)

    def _fill_others(self, pages: Pages, visits: VisitRows) -> None:
        columns: dict[str, NDArray[Any]] = {"scope": visits.scope, "day": visits.day, "bits": visits.bits}
        if self.is_packed:
            day = (visits.day - np.uint16(self.bounds.first_day)).astype(np.uint32)
            packed = visits.scope.astype(np.uint32) << np.uint32(self._day_bits) | day
            columns = {"packed": packed << np.uint32(self.class_bits) | visits.bits}
        whole_pages = len(visits) // self.page_rows
        whole_rows = whole_pages * self.page_rows
        for name, _ in self.other_types:
            field, column = pages[name], columns[name]
            field[:whole_pages] = column[:whole_rows].reshape(whole_pages, self.page_rows)
            if whole_rows < len(column):
                field[whole_pages, : len(column) - whole_rows] = column[whole_rows:]

    def _check_bounds(self, visits: VisitRows) -> None:
        """Refuses visits that would be read back as others."""
        if len(visits) and (
            join_bounds([self.bounds, find_bounds(visits)]) != self.bounds
            or int(visits.scope.min()) < 0
            or int(visits.bits.max()) >> self.class_bits
        ):
            raise ValueError(f"Visits are not within {self.bounds} and {self.class_bits} class bits.")

    def _measure_distances(self, key: Keys, rows: Positions) -> Keys:
        return key[rows] - key[rows // self.page_rows * self.page_rows]

    @cached_property
    def _key_mask(self) -> int:
        return (1 << min(8 * self.key_bytes, WHOLE_KEY_BITS)) - 1

    def mask_keys(self, stored: Keys) -> Keys:
        """Returns stored keys, which are in the low bytes, without the bytes that follow them."""
        return stored & self._key_mask

    def decode_keys(self, stored: Keys, key_counts: Counts, fences: Keys) -> Keys:
        """Returns the keys of pages that have so many keys and these fences, from what is stored, in the low bytes.

        A key that occurs on several pages is returned for each.
        """
        keys = self.mask_keys(stored)
        keys += np.repeat(fences, key_counts)
        return keys

    def find_first_rows(self, flags: Flags, key_counts: Counts, rows: int) -> Positions:
        """Returns the row of the first visit with each key of pages with these flags and so many visits, and then this
        number.

        Raises StoreDamaged if a page does not have as many keys as it should, none for its first visit, or one after
        its last visit.
        """
        if (np.bitwise_count(flags).sum(axis=1) != key_counts).any() or not (flags[:, 0] & 1).all():
            raise StoreDamaged
        bits = np.unpackbits(flags, axis=1, count=self.page_rows, bitorder="little")
        first_rows = np.append(np.flatnonzero(bits.view(np.bool_)), rows)
        if first_rows[-2] >= rows:
            raise StoreDamaged
        return first_rows

    def decode_others(self, columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Returns the scopes, days and bits of visits from the columns that pages have."""
        return self._unpack_others(columns[0]) if self.is_packed else columns

    def read_others(self, pages: Pages, places: Positions | slice) -> list[NDArray[Any]]:
        """Returns the scopes, days and bits at these places among the visits of all pages."""
        columns = [np.ascontiguousarray(pages[name]).reshape(-1) for name, _ in self.other_types]
        return self.decode_others([column[places] for column in columns])

    def _unpack_others(self, packed: NDArray[np.uint32]) -> list[NDArray[Any]]:
        bits = (packed & np.uint32((1 << self.class_bits) - 1)).astype(np.uint8)
        packed = packed >> np.uint32(self.class_bits)
        day = (packed & np.uint32((1 << self._day_bits) - 1)).astype(np.uint16)
        day += np.uint16(self.bounds.first_day)
        return [(packed >> np.uint32(self._day_bits)).astype(np.int32), day, bits]

    def pack(self) -> bytes:
        """Returns the layout as a part of a file."""
        bounds = self.bounds
        return LAYOUT.pack(
            self.page_rows, self.key_bytes, self.class_bits, bounds.first_day, bounds.last_day, bounds.max_scope,
            self.has_chained_keys,
        )  # fmt: skip


class ChainedPageLayout(PageLayout):
    """How the pages of a short file are encoded: keys are distances from the one before."""

    has_chained_keys = True

    def _measure_distances(self, key: Keys, rows: Positions) -> Keys:
        distances: Keys = key[rows] - key[rows - 1]
        distances[rows % self.page_rows == 0] = 0  # the first key of a page is its fence
        return distances

    def decode_keys(self, stored: Keys, key_counts: Counts, fences: Keys) -> Keys:
        """Also raises StoreDamaged if the keys are not sorted, because a search in them could fail."""
        keys = self.mask_keys(stored)
        np.cumsum(keys, out=keys)
        first = np.cumsum(key_counts) - key_counts
        keys += np.repeat(fences - keys[first], key_counts)
        if (keys[1:] < keys[:-1]).any():
            raise StoreDamaged
        return keys


class PageBlocks:
    """Pages of a run, each followed by its keys. After the last one, the content has at least two more bytes."""

    def __init__(self, content: bytes | mmap.mmap, starts: Positions, layout: PageLayout) -> None:
        """Keeps where in the content each page begins."""
        self._content = content
        self._starts = starts
        self._layout = layout

    def read_keys(self, key_counts: Counts) -> Keys:
        """Returns what is stored of all keys, in the low bytes, for pages that have so many keys."""
        size = self._layout.key_bytes
        keys_before = np.cumsum(key_counts) - key_counts
        places = np.repeat(self._key_starts - keys_before * size, key_counts)
        places += np.arange(len(places)) * size
        keys: Keys = self._view_at_each_byte(np.dtype("<i8"))[places]
        return keys

    def find_keys(self, numbers: Positions, distances: Keys, key_counts: Counts) -> tuple[Positions, Positions]:
        """Searches keys by their distances from the fences of the pages with these numbers, one on each.

        Returns which of them are there, by their positions, and where each of these is among the keys of its page.
        """
        stored = self._view_at_each_byte(np.dtype("<i8"))
        starts, last = self._key_starts[numbers], key_counts[numbers] - 1
        position, nearest = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
        step = self._layout.page_rows >> 1
        while step:
            next_position = np.minimum(position + step, last)
            key = self._layout.mask_keys(stored[starts + next_position * self._layout.key_bytes])
            is_reached = key <= distances
            np.copyto(position, next_position, where=is_reached)
            np.copyto(nearest, key, where=is_reached)
            step >>= 1
        matches = np.flatnonzero(nearest == distances)
        return matches, position[matches]

    def read_flags(self, numbers: Positions) -> Flags:
        """Returns the flags of pages with these numbers."""
        starts = self._starts[numbers] + self._layout.get_offset("flags")
        flags = self._view_at_each_byte(np.dtype((np.void, self._layout.flag_bytes)))[starts]
        return flags.view(np.uint8).reshape(len(numbers), self._layout.flag_bytes)

    def read_others(self, numbers: Positions, rows: Positions) -> list[NDArray[Any]]:
        """Returns the scopes, days and bits of visits, each given by the number of its page and its row there."""
        starts = self._starts[numbers]
        columns = []
        for name, kind in self._layout.other_types:
            item_type = np.dtype(kind)
            places = starts + (rows * item_type.itemsize + self._layout.get_offset(name))
            columns.append(self._view_at_each_byte(item_type)[places])
        return self._layout.decode_others(columns)

    def read_pages(self) -> Pages:
        """Returns all these pages without their keys."""
        return self._view_at_each_byte(self._layout.page_type)[self._starts]

    @property
    def _key_starts(self) -> Positions:
        return self._starts + self._layout.page_type.itemsize

    def _view_at_each_byte(self, item_type: np.dtype[Any]) -> NDArray[Any]:
        """Returns overlapping items, one that begins at each byte."""
        return np.ndarray(len(self._content) - item_type.itemsize + 1, item_type, self._content, strides=(1,))


def list_layouts(rows: int, bounds: VisitBounds) -> list[PageLayout]:
    """Returns the layouts that a file of so many rows may have, the smallest first. The last one fits all keys."""
    layout_type = PageLayout if rows >= MIN_RELATIVE_ROWS else ChainedPageLayout
    sizes = [size for size in PAGE_SIZES if rows >= size.min_rows]
    return [layout_type(size.page_rows, size.key_bytes, CLASS_BIT_COUNT, bounds) for size in sizes]


def unpack_layout(content: bytes) -> PageLayout:
    """Returns the layout that `pack` returned as bytes. Raises StoreDamaged if there is no such layout."""
    page_rows, key_bytes, class_bits, first_day, last_day, max_scope, has_chained_keys = LAYOUT.unpack(content)
    if not 1 <= page_rows <= MAX_PAGE_ROWS or page_rows & (page_rows - 1) or not 6 <= key_bytes <= WHOLE_KEY_BYTES:
        raise StoreDamaged
    layout_type = ChainedPageLayout if has_chained_keys else PageLayout
    return layout_type(page_rows, key_bytes, class_bits, VisitBounds(max_scope, first_day, last_day))
