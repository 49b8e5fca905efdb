"""Loads, rebuilds and saves the filter of logged events, in a thread, so that logging continues."""

import logging
import threading
from typing import NamedTuple

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.log.bloom_filter import FilterCopy, FilterDamaged
from copydesk.analytics.stores.duckdb.log.event_coverage import (
    EventCoverage,
    count_events,
    delete_coverage,
    find_end_row,
    find_row_after,
    read_coverage,
    read_events,
    replace_coverage,
)
from copydesk.analytics.stores.duckdb.log.event_filter import (
    MIN_CAPACITY_EVENTS,
    EventFilter,
    LoadedFilter,
    add_parts,
    build_filter,
    build_small_filter,
)
from copydesk.analytics.stores.duckdb.log.filter_files import FilterFiles
from copydesk.analytics.stores.duckdb.log.view_changes import read_view_changes
from copydesk.core.errors import StoreUnavailable

log = logging.getLogger(__name__)


class FilterUpkeep:
    """Keeps the filter of a log loaded and saved. The write lock is the log's: a transaction that logs events holds it
    from before the events are added to the filter until they are committed."""

    def __init__(
        self, database: DuckDatabase, write_lock: threading.RLock, min_capacity: int = MIN_CAPACITY_EVENTS
    ) -> None:
        self._database = database
        self._write_lock = write_lock
        self._min_capacity = min_capacity
        self._files = FilterFiles(database.path)
        self._filter: EventFilter | None = None
        self._end_row = 0
        """The row number after all events that the last save has."""
        self._thread: threading.Thread | None = None
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
        event_filter, thread = self._filter, self._thread
        if event_filter is None or (thread is not None and thread.is_alive()) or self._closing.is_set():
            return
        if event_filter.needs_load:
            self._thread = threading.Thread(target=self._load, args=[event_filter], name="filter", daemon=True)
        elif event_filter.needs_save:
            self._thread = threading.Thread(target=self._save, args=[event_filter], name="filter", daemon=True)
        else:
            return
        self._thread.start()

    def wait(self) -> None:
        """Waits until the thread has ended."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Stops the thread, and saves the filter if it has events that are not saved."""
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
                    loaded = build_filter(connection, self._min_capacity, self._closing.is_set)
            if loaded is None:
                return
            with self._write_lock:
                event_filter.finish_load(loaded)
        except StoreUnavailable:
            log.warning("could not load the filter of known events; will retry with the next views", exc_info=True)
        else:
            if loaded.base is not None and loaded.base_id is None:
                self._save(event_filter)

    def _load_files(self, connection: DuckConnection) -> LoadedFilter | None:
        """Returns the filter of the files with the events since; None if they are missing, damaged or invalid."""
        coverage = read_coverage(connection)
        if coverage is None:
            self._files.delete_others()
            return None
        try:
            base = self._files.open(coverage.base_id)
            tail = self._files.open(coverage.tail_id, is_writable=True)
            first_row = find_row_after(connection, coverage)
            if first_row is None:
                raise FilterDamaged
            saved_events = tail.count
            if not add_parts(tail, read_events(connection, first_row), self._closing.is_set):
                return None
        except FilterDamaged:
            log.warning("the saved filter of known events is missing or damaged; it is built again")
            return None
        self._files.delete_others(coverage.base_id, coverage.tail_id)
        self._end_row = coverage.end_row
        return LoadedFilter(tail, base, coverage.base_id, tail.count - saved_events)

    def _save(self, event_filter: EventFilter) -> None:
        """Writes the base, unless it is in a file already, and the tail. Then lists them in the database."""
        try:
            if event_filter.base_id is None and not self._move_base_to_file(event_filter):
                return
            if (snapshot := self._take_snapshot(event_filter)) is None:
                return
            tail_id = self._files.write(snapshot.tail)
            coverage = EventCoverage(snapshot.base_id, tail_id, snapshot.event_count, snapshot.end_row)
            with self._write_lock:
                with self._database.write() as connection:
                    # Events may have been deleted since the snapshot, and the coverage with them.
                    is_valid = read_view_changes(connection) == snapshot.view_changes
                    if is_valid:
                        replace_coverage(connection, coverage)
                if is_valid:
                    event_filter.finish_save(snapshot.added_events)
                    self._end_row = snapshot.end_row
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
                    count_events(connection),
                    find_end_row(connection, self._end_row),
                    read_view_changes(connection),
                )


class _Snapshot(NamedTuple):
    base_id: int
    tail: FilterCopy
    added_events: int
    event_count: int
    end_row: int
    view_changes: int
