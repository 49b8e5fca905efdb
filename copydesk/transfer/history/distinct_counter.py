"""Counts distinct values in groups, with 12 bytes of memory for each value that is added."""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np


class DistinctCounter:
    """Counts by hashes of 64 bits: with 5 million values, a wrong count has a probability below one in a million."""

    def __init__(self) -> None:
        self._groups = array("I")
        self._hashes = array("Q")

    def add(self, group: int, value: str) -> None:
        text = f"{group}\0{value}".encode("utf-8", "surrogatepass")
        self._groups.append(group)
        self._hashes.append(int.from_bytes(blake2b(text, digest_size=8).digest()))

    def count(self, group_count: int) -> Sequence[int]:
        """Returns the number of distinct values of each group, from group 0 on."""
        if not self._groups:
            return [0] * group_count
        _, first_positions = np.unique(np.frombuffer(self._hashes, np.uint64), return_index=True)
        groups = np.frombuffer(self._groups, np.uint32)[first_positions]
        counts: list[int] = np.bincount(groups, minlength=group_count).tolist()
        return counts
