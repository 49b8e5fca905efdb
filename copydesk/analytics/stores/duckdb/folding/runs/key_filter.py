"""A filter of the keys of a run: one bit for several keys, set if the run has one of them.

Keys are hashes of 63 bits, so their leading bits choose the bit, and the filter of sorted keys is written in order.
"""

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.folding.visit_rows import Keys, Positions

FILTER_BITS_PER_ROW = 4
MAX_FILTERED_ROWS = 16_000_000
"""Larger runs have no filter. There are few of them. Folds of few views keep the filters of all others in memory, which
takes at most about 32 MB."""


def choose_filter_bits(rows: int) -> int:
    """Returns how many bits the filter of a run has; 0 means that it has none."""
    return rows * FILTER_BITS_PER_ROW if rows <= MAX_FILTERED_ROWS else 0


def count_filter_bytes(filter_bits: int) -> int:
    return -(-filter_bits // 8)


def find_filter_bits(keys: Keys, filter_bits: int) -> Positions:
    """Returns the bit of each key."""
    bits: Positions = (keys >> 31) * filter_bits >> 32
    return bits


def add_to_filter(key_filter: NDArray[np.uint8], filter_bits: int, sorted_keys: Keys) -> None:
    """Sets the bits of these keys."""
    if not len(sorted_keys) or not filter_bits:
        return
    bits = find_filter_bits(sorted_keys, filter_bits)
    first_byte = int(bits[0]) >> 3
    is_set = np.zeros(int(bits[-1]) + 1 - first_byte * 8, np.bool_)
    is_set[bits - first_byte * 8] = True
    content = np.packbits(is_set, bitorder="little")
    key_filter[first_byte : first_byte + len(content)] |= content


def select_possible(key_filter: NDArray[np.uint8], filter_bits: int, keys: Keys) -> Keys:
    """Returns these keys without most of those that the run does not have."""
    bit = find_filter_bits(keys, filter_bits)
    possible: Keys = keys[(key_filter[bit >> 3] >> (bit & 7).astype(np.uint8) & 1) != 0]
    return possible
