"""The filter of logged events: a large base, which does not change, and a tail for the events since."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.log.bloom_filter import BloomFilter, FilterDamaged
from copydesk.analytics.stores.duckdb.log.event_coverage import count_events, read_events

MIN_CAPACITY_EVENTS = 1 << 16
"""The smallest capacity of a tail. A filter of up to this many events is fast to build, so it is built at once, not in
a thread, and has no base and no files."""
EVENTS_PER_TAIL_EVENT = 4
"""The base has this many times the events of a full tail: a larger tail needs more memory, a smaller more rebuilds."""
SAVES_PER_TAIL = 16
"""How often a tail is saved until it is full."""


class EventFilter:
    """The filter of a store. Loading it takes long with many events, so a thread does it while writers continue; until
    then, every event is a possible duplicate. The caller holds the write lock of the log during each call."""

    def __init__(self, min_capacity: int = MIN_CAPACITY_EVENTS) -> None:
        self._min_capacity = min_capacity
        self.base: BloomFilter | None = None
        self.base_id: int | None = None
        """The id of the base's file; None without a file."""
        self.tail: BloomFilter | None = None
        """None if the filter is not loaded."""
        self.is_damaged = False
        """A file turned out to be damaged, so the filter must be built from the stored events."""
        self._added_during_load: list[int] | None = None
        self._added_events = 0
        self._saved_events = -1
        """How many of the added events the last save has; -1 if nothing was saved."""
        self._attempted_events = 0
        """How many events were added before the last attempt to save them."""

    def find_possible_duplicates(self, events: Sequence[int]) -> list[int]:
        """Returns the events that may have been logged before, and adds all of them to the filter."""
        if self._added_during_load is not None:
            self._added_during_load += events
        if self.tail is None:
            return list(events)
        try:
            if self.base is None:
                possible_duplicates = self.tail.add(events)
            else:
                possible_duplicates, new_events = self.base.split_known(events)
                possible_duplicates += self.tail.add(new_events)
        except FilterDamaged:
            self.discard_damaged()
            return list(events)
        self._added_events += len(events)
        return possible_duplicates

    @property
    def needs_load(self) -> bool:
        return self.tail is None or self.tail.is_full

    @property
    def needs_save(self) -> bool:
        """Returns whether enough events were added since the last attempt to save the filter."""
        if self.tail is None or self.base is None:
            return False
        least = max(self._min_capacity, self.tail.capacity // SAVES_PER_TAIL)
        return self._added_events - self._attempted_events >= least

    @property
    def is_saved(self) -> bool:
        """Returns whether the last save has everything, or nothing can be saved."""
        return self.tail is None or self.base is None or self._saved_events == self._added_events

    def begin_load(self) -> None:
        """Starts to record new events, because the snapshot that the filter is loaded from does not have them."""
        self._added_during_load = []

    def finish_load(self, loaded: "LoadedFilter") -> None:
        added_events = self._added_during_load or []
        self.base, self.base_id, self.tail = loaded.base, loaded.base_id, loaded.tail
        self._added_during_load = None
        self._attempted_events = 0
        self._saved_events = 0 if loaded.base_id is not None else -1
        self._added_events = loaded.unsaved_events + len(added_events)
        self.is_damaged = False
        try:
            self.tail.add_array(np.array(added_events, np.int64))
        except FilterDamaged:
            self.discard_damaged()

    def discard_damaged(self) -> None:
        self.base = self.base_id = self.tail = None
        self.is_damaged = True

    def begin_save(self) -> int:
        """Counts an attempt to save the filter. Returns the number of events for `finish_save`."""
        self._attempted_events = self._added_events
        return self._added_events

    def finish_save(self, added_events: int) -> None:
        self._saved_events = added_events


class LoadedFilter(NamedTuple):
    """A filter from files or from the stored events."""

    tail: BloomFilter
    base: BloomFilter | None = None
    base_id: int | None = None
    unsaved_events: int = 0


def build_small_filter(connection: DuckConnection, min_capacity: int) -> LoadedFilter:
    """Returns a filter of the stored events without a base. They may have been logged in this transaction."""
    tail = BloomFilter(min_capacity)
    tail.add_array(connection.execute("select id from events").fetchnumpy()["id"])
    return LoadedFilter(tail)


def build_filter(
    connection: DuckConnection, min_capacity: int, should_stop: Callable[[], bool] = lambda: False
) -> LoadedFilter | None:
    """Returns a filter of the stored events, which are committed, or None if it was stopped."""
    event_count = count_events(connection)
    if event_count <= min_capacity:
        return build_small_filter(connection, min_capacity)
    base = BloomFilter(event_count)
    for events in read_events(connection):
        if should_stop():
            return None
        base.add_array(events)
    return LoadedFilter(BloomFilter(max(min_capacity, event_count // EVENTS_PER_TAIL_EVENT)), base)
