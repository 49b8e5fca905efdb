"""Which events may have been logged before: a filter that never says no to one that was."""

from array import array
from collections.abc import Callable, Iterable, Sequence

from copydesk.analytics.stores.duckdb.database import Connection

BITS_PER_EVENT = 24
"""Full, a filter is wrong about 1 new event in 7,000; half full, as it is made, about 1 in 100,000."""
SMALLEST = 1 << 16
"""Events that a filter has room for at the least, and of which one is made at once: in about 50 ms."""
WORD = 64
PLACES = ((57, 51, 45, 39), (18, 12, 6, 0))
"""An event has four bits in either of two words: where in the event the numbers of the bits begin, six bits long."""
PIECE = 3 << 17
"""Words that DuckDB makes in one pass: it has four bitmaps of them in memory, which are 13 MB."""


class Seen:
    """To make a filter takes most of a second for a million events, so that it is done beside the writers. Until the
    first is there, every event may have been logged before."""

    def __init__(self, connection: Connection) -> None:
        self._is_whole = count(connection) <= SMALLEST
        self._filter = (self._is_whole and over_all(connection)) or Filter(0)
        self._meanwhile: list[int] | None = None

    def doubtful(self, events: Sequence[int]) -> list[int]:
        """Those that may have been logged; from now on that is all of them."""
        known = self._filter.add(events)
        if self._meanwhile is not None:
            self._meanwhile += events
        return known if self._is_whole else list(events)

    @property
    def wants_making(self) -> bool:
        return not self._is_whole or self._filter.is_full

    def begin_making(self) -> None:
        """What comes from now on is not yet stored where the filter is made from."""
        self._meanwhile = []

    def replace(self, made: "Filter") -> None:
        made.add(self._meanwhile or ())
        self._filter, self._is_whole, self._meanwhile = made, True, None


class Filter:
    def __init__(self, room: int) -> None:
        self.room, self.count = max(room, SMALLEST), 0
        self.size = self.room * BITS_PER_EVENT // WORD
        self.words = array("Q", bytes(self.size * WORD // 8))

    def add(self, events: Iterable[int]) -> list[int]:
        """Those that it may have held before."""
        words, size, pairs, known, new = self.words, self.size, PAIRS, [], 0
        for event in events:
            rest, first = divmod(event, size)
            second = rest % size
            high = pairs[event >> 51] | pairs[event >> 39 & 4095]
            low = pairs[event >> 12 & 4095] | pairs[event & 4095]
            held = words[first]
            if held & high == high and words[second] & low == low:
                known.append(event)
            else:
                words[first] = held | high
                words[second] |= low
                new += 1
        self.count += new
        return known

    @property
    def is_full(self) -> bool:
        return self.count > self.room


def over_all(connection: Connection, stopped: Callable[[], bool] = lambda: False) -> Filter | None:
    """Half full with the events that are stored; None when it was stopped."""
    known = count(connection)
    made = Filter(2 * known)
    made.count = known
    for first in range(0, made.size if known else 0, PIECE):
        if stopped():
            return None
        length = min(PIECE, made.size - first)
        made.words[first : first + length] = array("Q", _piece(connection, made.size, first, length))
    return made


def count(connection: Connection) -> int:
    [(known,)] = connection.execute("select count(*) from events").fetchall()
    return int(known)


def _piece(connection: Connection, size: int, first: int, length: int) -> bytes:
    made = 0
    for word, places in zip((f"id % {size}", f"id // {size} % {size}"), PLACES, strict=True):
        bits = (
            f"bitstring_agg(word * {WORD} + (id >> {place} & 63)::bigint, 0, {length * WORD - 1})" for place in places
        )
        [(some,)] = connection.execute(
            f"select ({' | '.join(bits)})::blob from (select id, ({word})::bigint - {first} as word from events)"  # noqa: S608 - numbers alone
            f" where word between 0 and {length - 1}"
        ).fetchall()
        made |= int.from_bytes(some or b"")
    return made.to_bytes(length * WORD // 8)


def _bit(number: int) -> int:
    """DuckDB counts bits from the left, byte by byte; a word is read with its first byte lowest."""
    return 1 << (number & ~7) + 7 - (number & 7)


PAIRS = [_bit(pair >> 6) | _bit(pair & 63) for pair in range(1 << 12)]
