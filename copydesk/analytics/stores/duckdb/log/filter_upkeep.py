"""Loads, rebuilds and saves the filter of logged events, in a thread, so that logging continues."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.log.bloom_filter import FilterCopy, FilterDamaged
from copydesk.analytics.stores.duckdb.log.event_coverage import (
    EventCoverage,
    RowsRenumbered,
    count_events,
    delete_coverage,
    read_coverage,
    read_later_events,
    replace_coverage,
)
from copydesk.analytics.stores.duckdb.log.event_filter import (
    MIN_CAPACITY_EVENTS,
    EventFilter,
    LoadedFilter,
    build_filter,
    build_small_filter,
)
from copydesk.analytics.stores.duckdb.log.filter_files import FilterFiles
from copydesk.analytics.stores.duckdb.log.view_changes import read_view_changes
from copydesk.core.errors import StoreUnavailable

log = logging.getLogger(__name__)

RETRY_SECONDS = 60
"""The pause after a load that failed."""
BUILD_ATTEMPTS = 3
"""How often all events are read if rows are renumbered meanwhile."""


class FilterUpkeep:
    """Keeps the filter of a log loaded and saved. The write lock is the log's: a transaction that logs events holds it
    from before the events are added to the filter until they are committed."""

    def __init__(
        self,
        database: DuckDatabase,
        write_lock: threading.RLock,
        get_last_number: Callable[[], int],
        min_capacity: int = MIN_CAPACITY_EVENTS,
    ) -> None:
        """`get_last_number` returns the number of the last logged view; it is called with the write lock."""
        self._database = database
        self._write_lock = write_lock
        self._get_last_number = get_last_number
        self._min_capacity = min_capacity
        self._files = FilterFiles(database.path)
        self._filter: EventFilter | None = None
        self._thread_lock = threading.Lock()
        """Several threads log views, and one of them starts the thread. Never held while waiting for another lock."""
        self._thread: threading.Thread | None = None
        self._next_load_at = 0.0
        self._closing = threading.Event()

    def get_filter(self, connection: DuckConnection) -> EventFilter:
        """Returns the filter, after building it if events are few. The caller holds the write lock.

        The filter stays after a failed transaction: it has all logged events, and others only cost time.
        """
        if self._filter is None:
            event_filter = EventFilter(self._min_capacity)
            if count_events(connection) <= self._min_capacity:
                event_filter.finish_load(build_small_filter(connection, self._min_capacity))
                if self._files.exist():  # the store had more events, or is a restored one
                    delete_coverage(connection)
                    self._files.delete_others()
            self._filter = event_filter
        return self._filter

    def start(self) -> None:
        """Starts to load, rebuild or save the filter in a thread, if needed."""
        event_filter = self._filter
        if event_filter is None or not (event_filter.needs_load or event_filter.needs_save):
            return
        with self._thread_lock:
            is_running = self._thread is not None and self._thread.is_alive()
            if is_running or self._closing.is_set():
                return
            if not event_filter.needs_load:
                work = self._save
            elif time.monotonic() >= self._next_load_at:
                work = self._load
            else:
                return
            self._thread = threading.Thread(target=work, args=[event_filter], name="filter", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Waits until the thread has ended."""
        with self._thread_lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Stops the thread, and saves the filter if it has events that are not saved."""
        with self._thread_lock:
            self._closing.set()
        self.wait()
        event_filter, self._filter = self._filter, None
        if event_filter is not None and event_filter.base is not None and not self._is_saved(event_filter):
            self._save(event_filter)

    def _is_saved(self, event_filter: EventFilter) -> bool:
        if not event_filter.is_saved:
            return False
        try:
            with self._database.read() as connection:
                return read_coverage(connection) is not None  # it is deleted with events
        except StoreUnavailable:
            return True

    def _load(self, event_filter: EventFilter) -> None:
        try:
            with self._write_lock:
                may_use_files = event_filter.tail is None and not event_filter.is_damaged
                event_filter.begin_load()
            with self._database.read() as connection:
                loaded = self._load_files(connection) if may_use_files else None
            if loaded is None:
                loaded = self._build()
            if loaded is None:
                return
            with self._write_lock:
                event_filter.finish_load(loaded)
        except (StoreUnavailable, RowsRenumbered) as error:
            self._next_load_at = time.monotonic() + RETRY_SECONDS
            log.warning("could not load the filter of known events; will retry in %d seconds: %r", RETRY_SECONDS, error)
        else:
            if loaded.base is not None and loaded.base_id is None:
                self._save(event_filter)

    def _build(self) -> LoadedFilter | None:
        """Returns a filter of all stored events, or None if the store is closing. Raises RowsRenumbered."""
        for _ in range(BUILD_ATTEMPTS - 1):
            with suppress(RowsRenumbered):
                return self._try_to_build()
        return self._try_to_build()

    def _try_to_build(self) -> LoadedFilter | None:
        with self._database.read() as connection:
            return build_filter(connection, self._min_capacity, self._closing.is_set)

    def _load_files(self, connection: DuckConnection) -> LoadedFilter | None:
        """Returns the filter of the files with the events since; None if they are missing, damaged or invalid."""
        coverage = read_coverage(connection)
        if coverage is None:
            self._files.delete_others()
            return None
        try:
            base = self._files.open(coverage.base_id)
            tail = self._files.open(coverage.tail_id, is_writable=True)
            saved_events = tail.count
            tail.add_array(read_later_events(connection, coverage.last_number))
        except FilterDamaged:
            log.warning("the saved filter of known events is missing or damaged; it is built again")
            return None
        self._files.delete_others(coverage.base_id, coverage.tail_id)
        return LoadedFilter(tail, base, coverage.base_id, tail.count - saved_events)

    def _save(self, event_filter: EventFilter) -> None:
        """Writes the base, unless it is in a file already, and the tail. Then lists them in the database."""
        try:
            if event_filter.base_id is None and not self._move_base_to_file(event_filter):
                return
            if (snapshot := self._take_snapshot(event_filter)) is None:
                return
            tail_id = self._files.write(snapshot.tail)
            coverage = EventCoverage(snapshot.base_id, tail_id, snapshot.last_number)
            with self._write_lock:
                with self._database.write() as connection:
                    # Events may have been deleted since the snapshot, and the coverage with them.
                    is_valid = read_view_changes(connection) == snapshot.view_changes
                    if is_valid:
                        replace_coverage(connection, coverage)
                if is_valid:
                    event_filter.finish_save(snapshot.added_events)
            if is_valid:
                self._files.delete_others(coverage.base_id, coverage.tail_id)
        except (OSError, StoreUnavailable):
            log.warning("could not save the filter of known events; it stays in memory", exc_info=True)
        except FilterDamaged:
            log.warning("the saved filter of known events is damaged; it is built again")
            with self._write_lock:
                event_filter.discard_damaged()

    def _move_base_to_file(self, event_filter: EventFilter) -> bool:
        """Returns whether the filter has a base in a file. The base does not change, so it needs no copy."""
        base = event_filter.base
        if base is None:
            return False
        with self._write_lock:
            event_filter.begin_save()
        base_id = self._files.write(base.borrow())
        try:
            mapped_base = self._files.open(base_id)
        except FilterDamaged as error:
            raise OSError("the file that was written cannot be opened") from error
        with self._write_lock:
            if event_filter.base is base:
                event_filter.base, event_filter.base_id = mapped_base, base_id
        return True

    def _take_snapshot(self, event_filter: EventFilter) -> "_Snapshot | None":
        """Copies the tail, and reads which events are in it: all that are committed, because no transaction that logs
        events is open."""
        with self._write_lock:
            if event_filter.tail is None or event_filter.base_id is None:
                return None
            added_events = event_filter.begin_save()
            with self._database.read() as connection:
                return _Snapshot(
                    event_filter.base_id,
                    event_filter.tail.copy(),
                    added_events,
                    self._get_last_number(),
                    read_view_changes(connection),
                )


class _Snapshot(NamedTuple):
    base_id: int
    tail: FilterCopy
    added_events: int
    last_number: int
    view_changes: int
