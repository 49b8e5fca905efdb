"""A filter of the keys of a run: one bit for several keys, set if the run has one of them.

Keys are hashes of 63 bits, so their leading bits choose the bit, and the filter of sorted keys is written in order.
"""

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.visit_rows import Keys, Positions

FILTER_BITS_PER_ROW, FILTER_BITS_PER_ROW_OF_LONG_RUNS = 3, 2
"""Filters are in memory while views are folded a few at a time. If every second row has another key, three bits leave
15% of the keys that a run does not have, and two bits 22%."""
FILTER_BITS_MULTIPLE = 32
"""Filters have whole groups of four bytes, because pages follow."""
MIN_LONG_ROWS = 16_000_000
MAX_FILTER_BITS = (1 << 31) - FILTER_BITS_MULTIPLE
"""More would not fit into the 63 bits in which the bit of a key is computed."""


def choose_filter_bits(rows: int) -> int:
    """Returns how many bits the filter of a run has."""
    bits_per_row = FILTER_BITS_PER_ROW if rows < MIN_LONG_ROWS else FILTER_BITS_PER_ROW_OF_LONG_RUNS
    return min(-(-rows * bits_per_row // FILTER_BITS_MULTIPLE) * FILTER_BITS_MULTIPLE, MAX_FILTER_BITS)


def count_filter_bytes(filter_bits: int) -> int:
    return -(-filter_bits // 8)


def find_filter_bits(keys: Keys, filter_bits: int) -> Positions:
    """Returns the bit of each key."""
    bits: Positions = (keys >> 31) * filter_bits >> 32
    return bits


class FilterBuilder:
    """Builds a filter from sorted keys, and returns its bytes as they become known."""

    def __init__(self, filter_bits: int) -> None:
        self._filter_bits = filter_bits
        self._finished_bytes = 0
        self._last_byte = 0
        """The byte after the finished ones, which further keys may change."""

    def add(self, sorted_keys: Keys) -> NDArray[np.uint8]:
        """Sets the bits of these keys, which follow the earlier ones. Returns the bytes that no later key changes."""
        if not len(sorted_keys):
            return np.empty(0, np.uint8)
        bits = find_filter_bits(sorted_keys, self._filter_bits) - self._finished_bytes * 8
        is_set = np.zeros(int(bits[-1]) + 1, np.bool_)
        is_set[bits] = True
        content = np.packbits(is_set, bitorder="little")
        content[0] |= self._last_byte
        self._last_byte = int(content[-1])
        self._finished_bytes += len(content) - 1
        return content[:-1]

    def finish(self) -> bytes:
        """Returns the bytes after all that were returned before."""
        left_bytes = count_filter_bytes(self._filter_bits) - self._finished_bytes
        return bytes([self._last_byte]).ljust(left_bytes, b"\0")[:left_bytes]


def select_possible(key_filter: NDArray[np.uint8], filter_bits: int, keys: Keys) -> Keys:
    """Returns these keys without most of those that the run does not have."""
    bit = find_filter_bits(keys, filter_bits)
    possible: Keys = keys[(key_filter[bit >> 3] >> (bit & 7).astype(np.uint8) & 1) != 0]
    return possible
