"""A Bloom filter of logged events. It may take a new event for a logged one, never a logged one for a new one."""

from array import array
from collections.abc import Callable, Iterable, Sequence

from copydesk.analytics.stores.duckdb.database import DuckConnection

BITS_PER_EVENT = 24
"""The false positive rate is about 1 in 7,000 for a full filter, and 1 in 100,000 for a half full one, as after a
rebuild."""
MIN_CAPACITY_EVENTS = 1 << 16
"""The smallest capacity. A filter of up to this many events is fast to build, so it is built at once, not in a
thread."""
WORD_BITS = 64
BIT_OFFSETS = ((57, 51, 45, 39), (18, 12, 6, 0))
"""An event sets four bits in each of two words. Each bit number is six bits of the event; these are their offsets."""
WORDS_PER_PASS = 3 << 17
"""Words that DuckDB computes in one pass. It holds four bitmaps of this size in memory, together 13 MB."""


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
            first_bits = bit_pairs[event >> 51] | bit_pairs[event >> 39 & 4095]
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

    @property
    def is_full(self) -> bool:
        return self.count > self.capacity


def build_bloom_filter(
    connection: DuckConnection, should_stop: Callable[[], bool] = lambda: False
) -> BloomFilter | None:
    """Returns a filter of the stored events with twice the capacity that they need, or None if it was stopped."""
    event_count = count_events(connection)
    bloom_filter = BloomFilter(2 * event_count)
    bloom_filter.count = event_count
    for start in range(0, bloom_filter.word_count if event_count else 0, WORDS_PER_PASS):
        if should_stop():
            return None
        length = min(WORDS_PER_PASS, bloom_filter.word_count - start)
        bloom_filter.words[start : start + length] = array(
            "Q", _build_words(connection, bloom_filter.word_count, start, length)
        )
    return bloom_filter


def count_events(connection: DuckConnection) -> int:
    [(event_count,)] = connection.execute("select count(*) from events").fetchall()
    return int(event_count)


def _build_words(connection: DuckConnection, word_count: int, start: int, length: int) -> bytes:
    bitmap = 0
    for word_index, offsets in zip(
        (f"id % {word_count}", f"id // {word_count} % {word_count}"), BIT_OFFSETS, strict=True
    ):
        bits = (
            f"bitstring_agg(word * {WORD_BITS} + (id >> {offset} & 63)::bigint, 0, {length * WORD_BITS - 1})"
            for offset in offsets
        )
        [(blob,)] = connection.execute(
            f"select ({' | '.join(bits)})::blob from (select id, ({word_index})::bigint - {start} as word from events)"  # noqa: S608 - only numbers
            f" where word between 0 and {length - 1}"
        ).fetchall()
        bitmap |= int.from_bytes(blob or b"")
    return bitmap.to_bytes(length * WORD_BITS // 8)


def _bit_mask(bit: int) -> int:
    """Returns the mask of a bit. DuckDB numbers bits from the left of each byte; words are read as little-endian."""
    return 1 << (bit & ~7) + 7 - (bit & 7)


BIT_PAIRS = [_bit_mask(pair >> 6) | _bit_mask(pair & 63) for pair in range(1 << 12)]
