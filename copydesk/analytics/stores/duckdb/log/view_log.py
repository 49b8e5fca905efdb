"""Logs views, in one transaction per call, and detects duplicate events."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from copydesk.analytics.page_view import PageView
from copydesk.analytics.stores.base import LogResult, day_from_milliseconds, shorten_event_hash
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.ids.id_tables import MAX_CACHED_PAGES, VIEW_COLUMNS, IdTables
from copydesk.analytics.stores.duckdb.ids.large_projects import LargeProjects
from copydesk.analytics.stores.duckdb.ids.scopes import append_rows
from copydesk.analytics.stores.duckdb.log.event_filter import MIN_CAPACITY_EVENTS
from copydesk.analytics.stores.duckdb.log.filter_upkeep import FilterUpkeep
from copydesk.analytics.stores.duckdb.log.unfolded_views import UnfoldedViews
from copydesk.analytics.stores.duckdb.log.view_changes import count_view_change

EventKey = tuple[int, int]
"""A project and the hash of an event."""
EVENT_COLUMNS = ["project", "id", "seq"]


class ViewLog:
    """The log of views, with one writer at a time. Its caches hold committed data and are discarded after a failure,
    except the filter of known events, which may have more than the committed ones."""

    def __init__(
        self,
        database: DuckDatabase,
        max_cached_pages: int = MAX_CACHED_PAGES,
        unfolded_views: UnfoldedViews | None = None,
        large_projects: LargeProjects | None = None,
        min_filter_capacity: int = MIN_CAPACITY_EVENTS,
    ) -> None:
        self._database = database
        self._max_cached_pages = max_cached_pages
        self._unfolded_views = unfolded_views or UnfoldedViews()
        self._large_projects = large_projects or LargeProjects()
        self._write_lock = threading.RLock()
        """Reentrant, because what follows a commit of views belongs to it."""
        self._last_number = 0
        self._id_tables: IdTables | None = None
        self._filter_upkeep = FilterUpkeep(database, self._write_lock, lambda: self._last_number, min_filter_capacity)
        with self._write_transaction():
            pass

    @property
    def last_number(self) -> int:
        """Returns the number of the last logged view."""
        return self._last_number

    def write(self, views: Sequence[PageView]) -> LogResult:
        times = [view.at for view in views]
        for at in (min(times), max(times)) if times else ():
            day_from_milliseconds(at)
        with self._write_lock:
            with self._write_transaction() as (connection, id_tables):
                id_tables.add_projects(connection, {view.project for view in views})
                new_views, event_keys, duplicates = self._split_duplicates(connection, id_tables, views)
                first_number = self._last_number + 1
                rows = id_tables.build_view_rows(connection, new_views, first_number)
                append_rows(connection, "views", VIEW_COLUMNS, rows)
                event_rows = [(*key, seq) for seq, key in enumerate(event_keys, first_number) if key is not None]
                append_rows(connection, "events", EVENT_COLUMNS, event_rows)
            self._unfolded_views.add(rows)
            self._last_number += len(rows)
        self._filter_upkeep.start()
        return LogResult(len(rows), tuple(duplicates))

    def prepare(self) -> None:
        """Loads the filter of known events, in a thread if they are many, so that it is complete when events arrive."""
        with self._write_transaction() as (connection, _):
            self._filter_upkeep.get_filter(connection)
        self._filter_upkeep.start()

    def wait_for_filter(self) -> None:
        """Waits until the filter of known events is loaded, rebuilt or saved, if a thread does so."""
        self._filter_upkeep.wait()

    def close(self) -> None:
        """Saves the filter of known events."""
        self._filter_upkeep.close()

    def find_project(self, name: str) -> int | None:
        with self._write_transaction() as (_, id_tables):
            return id_tables.projects.get(name)

    def add_project(self, name: str) -> int:
        with self._write_transaction() as (connection, id_tables):
            id_tables.add_projects(connection, {name})
            return id_tables.projects[name]

    @contextmanager
    def correction(self) -> Iterator[tuple[DuckConnection, IdTables]]:
        """Opens a transaction for correcting views. Blocks logging."""
        with self.change_of_views(), self._write_transaction() as (connection, id_tables):
            count_view_change(connection)
            yield connection, id_tables

    @contextmanager
    def project_removal(self, project: str) -> Iterator[tuple[DuckConnection, int | None]]:
        """Opens a transaction for deleting a project, and yields its id (None if unknown). Blocks logging.

        The filter still contains the project's events, which only causes false positives.
        """
        with self.change_of_views(), self._write_transaction() as (connection, id_tables):
            count_view_change(connection)
            yield connection, id_tables.projects.get(project)
            self._id_tables = None

    @contextmanager
    def change_of_views(self) -> Iterator[None]:
        """Allows changes of logged views, in a transaction that is committed before the block ends and calls
        `count_view_change`. Logging continues, but the caller must hold the fold lock."""
        try:
            yield
        finally:
            with self._write_lock:  # a view that was committed before the change is added before this
                self._unfolded_views.discard()

    @contextmanager
    def _write_transaction(self) -> Iterator[tuple[DuckConnection, IdTables]]:
        with self._write_lock:
            try:
                with self._database.write() as connection:
                    if self._id_tables is None:
                        self._id_tables = self._load_state(connection)
                    yield connection, self._id_tables
            except BaseException:
                self._id_tables = None
                self._unfolded_views.discard()
                raise

    def _load_state(self, connection: DuckConnection) -> IdTables:
        [(self._last_number,)] = connection.execute(
            "select greatest((select max(seq) from views), (select max(upto) from folds))"
        ).fetchall()
        return IdTables(connection, self._max_cached_pages, self._large_projects)

    def _split_duplicates(
        self, connection: DuckConnection, id_tables: IdTables, views: Sequence[PageView]
    ) -> tuple[Sequence[PageView], list[EventKey | None], list[int]]:
        """Returns the views to log, the event of each, and the positions of duplicates."""
        if all(view.event is None for view in views):
            return views, [], []
        event_keys = [
            None if v.event is None else (id_tables.projects[v.project], shorten_event_hash(v.event)) for v in views
        ]
        sent_events = [key[1] for key in event_keys if key is not None]
        possible_duplicates = self._filter_upkeep.get_filter(connection).find_possible_duplicates(sent_events)
        if not possible_duplicates:
            return views, event_keys, []
        known_keys = set(_find_logged_events(connection, possible_duplicates))
        new_views = []
        new_keys = []
        duplicates = []
        for position, key in enumerate(event_keys):
            if key is not None:
                if key in known_keys:
                    duplicates.append(position)
                    continue
                known_keys.add(key)
            new_keys.append(key)
            new_views.append(views[position])
        return new_views, new_keys, duplicates


def _find_logged_events(connection: DuckConnection, event_ids: list[int]) -> list[EventKey]:
    """Returns the events that are in the log. Scans all events, so the filter is checked first."""
    result = connection.execute(
        "select project, id from events where id in (select unnest($ids::bigint[]))", {"ids": event_ids}
    )
    return [(project, event_id) for project, event_id in result.fetchall()]
