"""Which events may have been logged before: a filter that never says no to one that was."""

from collections.abc import Iterable

from copydesk.analytics.duckdb.database import Connection

BITS_PER_EVENT = 16
SMALLEST = 1 << 16
"""Events that there is room for at the least; full, a filter is wrong about 5 new events in 1,000."""


class Seen:
    """Three bitmaps with a bit per event each, whose sizes differ. DuckDB makes them in one pass over the events."""

    def __init__(self, connection: Connection) -> None:
        [(known,)] = connection.execute("select count(*) from events").fetchall()
        self.count = int(known)
        self.room = max(SMALLEST, 2 * self.count)
        size = self.room * BITS_PER_EVENT // 3 // 8
        self._sizes = tuple(8 * (size + step) for step in (0, 1, 3))
        if known:
            made = [f"bitstring_agg((id % {bits})::bigint, 0, {bits - 1})::blob" for bits in self._sizes]
            [blobs] = connection.execute(f"select {', '.join(made)} from events").fetchall()  # noqa: S608 - numbers alone
            self._maps = tuple(map(bytearray, blobs))
        else:
            self._maps = tuple(bytearray(bits // 8) for bits in self._sizes)

    def may_hold(self, event: int) -> bool:
        for bitmap, bits in zip(self._maps, self._sizes, strict=True):
            place = event % bits
            if not bitmap[place >> 3] & (128 >> (place & 7)):
                return False
        return True

    def add(self, events: Iterable[int]) -> None:
        for event in events:
            self.count += 1
            for bitmap, bits in zip(self._maps, self._sizes, strict=True):
                place = event % bits
                bitmap[place >> 3] |= 128 >> (place & 7)

    @property
    def full(self) -> bool:
        return self.count > self.room
