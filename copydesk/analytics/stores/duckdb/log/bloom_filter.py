"""A Bloom filter of events. It may take a new event for a known one, never a known one for a new one."""

import zlib
from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BITS_PER_EVENT = 20
"""The false positive rate is about 1 in 2,900 for a full filter."""
WORD_BITS = 64
WORD_BYTES = 8
BLOCK_BYTES = 4096
"""A filter from a file has a checksum (CRC-32) for each block of this size."""
BLOCK_WORDS = BLOCK_BYTES // WORD_BYTES
MIN_ARRAY_EVENTS = 32
"""From this many events on, numpy is faster than a loop."""

Events = NDArray[np.int64]
Indexes = NDArray[np.int64]
Words = NDArray[np.uint64]
Checksums = NDArray[np.uint32]


class FilterDamaged(Exception):
    """The file of a filter is missing, or not what was written."""


class BloomFilter:
    """A filter with room for this many events: new, or with the words of a file, which `unchecked` belongs to."""

    def __init__(
        self,
        capacity: int,
        words: "array[int] | memoryview[int] | None" = None,
        count: int = 0,
        unchecked: "UncheckedBlocks | None" = None,
    ) -> None:
        self.capacity = capacity
        self.count = count
        self._word_count = count_words(capacity)
        self._words = array("Q", bytes(self._word_count * WORD_BYTES)) if words is None else words
        self._array: Words = np.frombuffer(self._words, np.uint64)
        self._unchecked = unchecked

    @property
    def is_full(self) -> bool:
        return self.count > self.capacity

    def split_known(self, events: Sequence[int]) -> tuple[list[int], list[int]]:
        """Returns the events that it may contain, and those that it does not contain.

        Raises FilterDamaged if a part that this reads is damaged.
        """
        if len(events) >= MIN_ARRAY_EVENTS:
            some_events = np.array(events, np.int64)
            is_known = self._contains(some_events)
            return some_events[is_known].tolist(), some_events[~is_known].tolist()
        words, word_count = self._words, self._word_count
        unchecked = self._get_unchecked()
        known: list[int] = []
        unknown: list[int] = []
        for event in events:
            quotient, first_index = divmod(event, word_count)
            if unchecked is not None:
                unchecked.check_word(first_index)
                unchecked.check_word(quotient % word_count)
            first_bits = BIT_PAIRS[event >> 51] | BIT_PAIRS[event >> 39 & 4095]  # an event sets four bits in two words
            if words[first_index] & first_bits == first_bits:
                second_bits = BIT_PAIRS[event >> 12 & 4095] | BIT_PAIRS[event & 4095]
                if words[quotient % word_count] & second_bits == second_bits:
                    known.append(event)
                    continue
            unknown.append(event)
        return known, unknown

    def add(self, events: Sequence[int]) -> list[int]:
        """Adds events. Returns those that it may have contained before, or that occur twice.

        Raises FilterDamaged if a part that this changes is damaged.
        """
        if len(events) >= MIN_ARRAY_EVENTS and len(set(events)) == len(events):
            some_events = np.array(events, np.int64)
            is_known = self._contains(some_events)
            self.add_array(some_events[~is_known])
            return list(some_events[is_known].tolist())
        words, word_count = self._words, self._word_count
        unchecked = self._get_unchecked()
        possible_duplicates = []
        added = 0
        for event in events:
            quotient, first_index = divmod(event, word_count)
            second_index = quotient % word_count
            if unchecked is not None:
                unchecked.check_word(first_index)
                unchecked.check_word(second_index)
            first_bits = BIT_PAIRS[event >> 51] | BIT_PAIRS[event >> 39 & 4095]
            second_bits = BIT_PAIRS[event >> 12 & 4095] | BIT_PAIRS[event & 4095]
            word = words[first_index]
            if word & first_bits == first_bits and words[second_index] & second_bits == second_bits:
                possible_duplicates.append(event)
            else:
                words[first_index] = word | first_bits
                words[second_index] |= second_bits
                added += 1
        self.count += added
        return possible_duplicates

    def add_array(self, events: Events) -> None:
        """Adds many events, like `add`."""
        quotients, first_indexes = np.divmod(events, self._word_count)
        second_indexes = quotients % self._word_count
        if (unchecked := self._get_unchecked()) is not None:
            unchecked.check_words(first_indexes)
            unchecked.check_words(second_indexes)
        _set_bits(self._array, first_indexes, _get_first_bits(events))
        _set_bits(self._array, second_indexes, _get_second_bits(events))
        self.count += len(events)

    def copy(self) -> "FilterCopy":
        """Returns a copy for writing it to a file while events are added."""
        unchecked = self._get_unchecked()
        return FilterCopy(self.capacity, self.count, self._array.copy(), unchecked and unchecked.copy())

    def borrow(self) -> "FilterCopy":
        """Returns the filter for writing it to a file, without a copy. No event may be added until it is written."""
        return FilterCopy(self.capacity, self.count, self._array, self._get_unchecked())

    def _contains(self, events: Events) -> NDArray[np.bool_]:
        quotients, first_indexes = np.divmod(events, self._word_count)
        first_bits = _get_first_bits(events)
        unchecked = self._get_unchecked()
        if unchecked is not None:
            unchecked.check_words(first_indexes)
        is_known: NDArray[np.bool_] = self._array[first_indexes] & first_bits == first_bits
        candidates = np.flatnonzero(is_known)
        if len(candidates):
            second_indexes = quotients[candidates] % self._word_count
            second_bits = _get_second_bits(events[candidates])
            if unchecked is not None:
                unchecked.check_words(second_indexes)
            is_known[candidates] = self._array[second_indexes] & second_bits == second_bits
        return is_known

    def _get_unchecked(self) -> "UncheckedBlocks | None":
        if self._unchecked is not None and not self._unchecked.remaining:
            self._unchecked = None
        return self._unchecked


class FilterCopy:
    """The content of a filter at some time."""

    def __init__(self, capacity: int, count: int, words: Words, unchecked: "UncheckedBlocks | None") -> None:
        self.capacity = capacity
        self.count = count
        self.words = words.data.cast("B")
        self._unchecked = unchecked

    def compute_checksums(self) -> Checksums:
        """Returns the checksums of the blocks. Raises FilterDamaged if a block is not what its own file should have."""
        checksums = [zlib.crc32(get_block(self.words, number)) for number in range(count_blocks(len(self.words)))]
        result = np.array(checksums, np.uint32)
        if self._unchecked is not None:
            self._unchecked.compare(result)
        return result


class UncheckedBlocks:
    """The blocks of a mapped file that were not read yet. Each is checked before its first use, so that opening a large
    file takes no longer than a small one."""

    def __init__(self, content: memoryview, checksums: Checksums, is_unchecked: bytearray | None = None) -> None:
        self._content = content
        self._checksums = checksums
        self._is_unchecked = is_unchecked or bytearray(b"\1" * len(checksums))
        self.remaining = sum(self._is_unchecked)

    def check_word(self, index: int) -> None:
        """Raises FilterDamaged if the block of this word is damaged."""
        if self._is_unchecked[index // BLOCK_WORDS]:
            self._check_block(index // BLOCK_WORDS)

    def check_words(self, indexes: Indexes) -> None:
        """Raises FilterDamaged if a block of these words is damaged."""
        blocks = indexes // BLOCK_WORDS
        unchecked = blocks[np.frombuffer(self._is_unchecked, np.uint8)[blocks] != 0]
        for block in set(unchecked.tolist()):
            self._check_block(block)

    def copy(self) -> "UncheckedBlocks":
        return UncheckedBlocks(self._content, self._checksums, bytearray(self._is_unchecked))

    def compare(self, checksums: Checksums) -> None:
        """Raises FilterDamaged if an unchecked block has another checksum than these."""
        unchecked = np.flatnonzero(np.frombuffer(self._is_unchecked, np.uint8))
        if (checksums[unchecked] != self._checksums[unchecked]).any():
            raise FilterDamaged

    def _check_block(self, number: int) -> None:
        if zlib.crc32(get_block(self._content, number)) != self._checksums[number]:
            raise FilterDamaged
        self._is_unchecked[number] = 0
        self.remaining -= 1


def count_words(capacity: int) -> int:
    return max(capacity * BITS_PER_EVENT // WORD_BITS, 1)


def count_blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES)


def get_block(content: memoryview, number: int) -> memoryview:
    return content[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]


def _get_first_bits(events: Events) -> Words:
    bits: Words = PAIR_MASKS[events >> 51] | PAIR_MASKS[events >> 39 & 4095]
    return bits


def _get_second_bits(events: Events) -> Words:
    bits: Words = PAIR_MASKS[events >> 12 & 4095] | PAIR_MASKS[events & 4095]
    return bits


def _set_bits(words: Words, indexes: Indexes, bits: Words) -> None:
    """Sets bits of words, like `np.bitwise_or.at` in a third of the time.

    If a word occurs several times, only the last of its bits are set, so those that were not are set again.
    """
    while len(indexes):
        words[indexes] |= bits
        missing = np.flatnonzero(words[indexes] & bits != bits)
        indexes, bits = indexes[missing], bits[missing]


BIT_PAIRS = [1 << (pair >> 6) | 1 << (pair & 63) for pair in range(1 << 12)]
"""Two bits of a word, by twelve bits of an event."""
PAIR_MASKS = np.array(BIT_PAIRS, np.uint64)
