"""A Bloom filter of logged events. It may take a new event for a logged one, never a logged one for a new one."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection

BITS_PER_EVENT = 20
"""The false positive rate is about 1 in 2,900 for a full filter, and 1 in 9,000 after a rebuild."""
SPARE_CAPACITY = 1.25
"""A rebuilt filter has room for this many times the stored events: more memory, or more rebuilds."""
MIN_CAPACITY_EVENTS = 1 << 16
"""The smallest capacity. A filter of up to this many events is fast to build, so it is built at once, not in a
thread."""
WORD_BITS = 64
EVENTS_PER_READ = 1_000_000
SELECT_EVENTS = "select id from events where rowid >= $first and rowid < $end"


class EventFilter:
    """The filter of a store, which grows by rebuilding. Building takes long with many events, so a thread does it while
    writers continue. Until the first filter is complete, every event is a possible duplicate."""

    def __init__(self, connection: DuckConnection) -> None:
        self._is_complete = count_events(connection) <= MIN_CAPACITY_EVENTS
        bloom_filter = build_bloom_filter(connection) if self._is_complete else None
        self._bloom_filter = bloom_filter or BloomFilter(0)
        self._added_during_rebuild: list[int] | None = None

    def find_possible_duplicates(self, events: Sequence[int]) -> list[int]:
        """Returns the events that may have been logged before, and adds all of them to the filter."""
        possible_duplicates = self._bloom_filter.add(events)
        if self._added_during_rebuild is not None:
            self._added_during_rebuild += events
        return possible_duplicates if self._is_complete else list(events)

    @property
    def needs_rebuild(self) -> bool:
        return not self._is_complete or self._bloom_filter.is_full

    def begin_rebuild(self) -> None:
        """Starts to record new events, because the snapshot that the filter is built from does not have them."""
        self._added_during_rebuild = []

    def finish_rebuild(self, bloom_filter: "BloomFilter") -> None:
        bloom_filter.add(self._added_during_rebuild or ())
        self._bloom_filter = bloom_filter
        self._is_complete = True
        self._added_during_rebuild = None


class BloomFilter:
    def __init__(self, capacity: int) -> None:
        self.capacity = max(capacity, MIN_CAPACITY_EVENTS)
        self.count = 0
        self.word_count = self.capacity * BITS_PER_EVENT // WORD_BITS
        self.words = array("Q", bytes(self.word_count * WORD_BITS // 8))

    def add(self, events: Iterable[int]) -> list[int]:
        """Adds events. Returns those that it may have contained before."""
        words = self.words
        word_count = self.word_count
        bit_pairs = BIT_PAIRS
        possible_duplicates = []
        added = 0
        for event in events:
            quotient, first_index = divmod(event, word_count)
            second_index = quotient % word_count
            first_bits = bit_pairs[event >> 51] | bit_pairs[event >> 39 & 4095]  # an event sets four bits in two words
            second_bits = bit_pairs[event >> 12 & 4095] | bit_pairs[event & 4095]
            word = words[first_index]
            if word & first_bits == first_bits and words[second_index] & second_bits == second_bits:
                possible_duplicates.append(event)
            else:
                words[first_index] = word | first_bits
                words[second_index] |= second_bits
                added += 1
        self.count += added
        return possible_duplicates

    def add_array(self, events: NDArray[np.int64]) -> None:
        """Adds many events, like `add`."""
        words = np.frombuffer(self.words, np.uint64)
        quotients, first_indexes = np.divmod(events, self.word_count)
        _set_bits(words, first_indexes, PAIR_MASKS[events >> 51] | PAIR_MASKS[events >> 39 & 4095])
        second_bits = PAIR_MASKS[events >> 12 & 4095] | PAIR_MASKS[events & 4095]
        _set_bits(words, quotients % self.word_count, second_bits)
        self.count += len(events)

    @property
    def is_full(self) -> bool:
        return self.count > self.capacity


def _set_bits(words: NDArray[np.uint64], indexes: NDArray[np.int64], bits: NDArray[np.uint64]) -> None:
    """Sets bits of words, like `np.bitwise_or.at` in a third of the time.

    If a word occurs several times, only the last of its bits are set, so those that were not are set again.
    """
    while len(indexes):
        words[indexes] |= bits
        missing = np.flatnonzero(words[indexes] & bits != bits)
        indexes, bits = indexes[missing], bits[missing]


def build_bloom_filter(
    connection: DuckConnection, should_stop: Callable[[], bool] = lambda: False
) -> BloomFilter | None:
    """Returns a filter of the stored events with room for more, or None if it was stopped."""
    event_count = count_events(connection)
    bloom_filter = BloomFilter(int(event_count * SPARE_CAPACITY))
    for events in _read_events(connection, event_count):
        if should_stop():
            return None
        bloom_filter.add_array(events)
    return bloom_filter


def _read_events(connection: DuckConnection, event_count: int) -> Iterator[NDArray[np.int64]]:
    """Yields the stored events in parts. Many events must be committed: the row numbers of others have large gaps."""
    if event_count <= EVENTS_PER_READ:
        yield connection.execute("select id from events").fetchnumpy()["id"]
        return
    [(last_row,)] = connection.execute("select max(rowid) from events").fetchall()
    for first_row in range(0, last_row + 1, EVENTS_PER_READ):
        params = {"first": first_row, "end": first_row + EVENTS_PER_READ}
        yield connection.execute(SELECT_EVENTS, params).fetchnumpy()["id"]


def count_events(connection: DuckConnection) -> int:
    [(event_count,)] = connection.execute("select count(*) from events").fetchall()
    return int(event_count)


BIT_PAIRS = [1 << (pair >> 6) | 1 << (pair & 63) for pair in range(1 << 12)]
"""Two bits of a word, by twelve bits of an event."""
PAIR_MASKS = np.array(BIT_PAIRS, np.uint64)
