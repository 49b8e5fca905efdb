"""Which events may have been logged before: a filter that never says no to one that was."""

from collections.abc import Sequence

from copydesk.analytics.duckdb.database import Connection

BITS_PER_EVENT = 16
"""Full, a filter is wrong about 2 new events in 1,000; half full, about 1 in 10,000."""
SMALLEST = 1 << 16
"""Events that a filter has room for at the least, and of which one is made at once: in about 50 ms."""
WORD = 64
PLACES = (58, 52, 46, 40, 34, 28)
"""Where in an event the numbers of its bits begin, which are six bits long. Which word they are in, the rest says."""
PIECE = 1 << 19
"""Words that DuckDB makes in one pass: it has six bitmaps of them in memory, which are 25 MB."""


class Seen:
    """Filters, the last of which takes what is new. One over all that is stored takes half a second for a million
    events, so that it is made beside the writers; until it is there, every event may have been logged before."""

    def __init__(self, connection: Connection) -> None:
        known = count(connection)
        self._is_whole = known <= SMALLEST
        self._filters = [over_all(connection) if self._is_whole else Filter(known)]

    def doubtful(self, events: Sequence[int]) -> list[int]:
        """Those that may have been logged; the others are added."""
        *others, newest = self._filters
        size, words, pairs, found = newest.size, newest.words, PAIRS, []
        for event in events:
            mask = pairs[event >> 52] | pairs[event >> 40 & 4095] | pairs[event >> 28 & 4095]
            word = words[event % size]
            if word & mask == mask:
                found.append(event)
                continue
            words[event % size] = word | mask
            for other in others:
                if other.words[event % other.size] & mask == mask:
                    found.append(event)
                    break
            else:
                if not self._is_whole:
                    found.append(event)
        newest.count += len(events)
        return found

    @property
    def wants_making(self) -> bool:
        return not self._is_whole or self._filters[-1].is_full

    def make_way(self) -> int:
        """How many a filter over all that is stored will replace: all but the last, which must have room meanwhile."""
        if self._filters[-1].is_full:
            self._filters.append(Filter(sum(each.count for each in self._filters)))
        return len(self._filters) - 1

    def replace(self, count: int, made: "Filter") -> None:
        self._filters[:count] = [made]
        self._is_whole = True


class Filter:
    """Six bits per event, all in one word, so that one look tells."""

    def __init__(self, room: int) -> None:
        self.room, self.count = max(room, SMALLEST), 0
        self.size = self.room * BITS_PER_EVENT // WORD
        self.words = memoryview(bytearray(self.size * WORD // 8)).cast("Q")

    @property
    def is_full(self) -> bool:
        return self.count > self.room


def over_all(connection: Connection) -> Filter:
    """Half full with the events that are stored."""
    known = count(connection)
    made = Filter(2 * known)
    made.count = known
    for first in range(0, made.size if known else 0, PIECE):
        length = min(PIECE, made.size - first)
        made.words.cast("B")[first * 8 : (first + length) * 8] = _piece(connection, made.size, first, length)
    return made


def count(connection: Connection) -> int:
    [(known,)] = connection.execute("select count(*) from events").fetchall()
    return int(known)


def _piece(connection: Connection, size: int, first: int, length: int) -> bytes:
    bits = (f"bitstring_agg(word * {WORD} + (id >> {place} & 63)::bigint, 0, {length * WORD - 1})" for place in PLACES)
    [(made,)] = connection.execute(
        f"select ({' | '.join(bits)})::blob from (select id, (id % {size})::bigint - {first} as word from events)"  # noqa: S608 - numbers alone
        f" where word between 0 and {length - 1}"
    ).fetchall()
    return bytes(length * WORD // 8) if made is None else bytes(made)


def _bit(number: int) -> int:
    """DuckDB counts bits from the left, byte by byte; a word is read with its first byte lowest."""
    return 1 << (number & ~7) + 7 - (number & 7)


PAIRS = [_bit(pair >> 6) | _bit(pair & 63) for pair in range(1 << 12)]
