"""Adds sections below the first level to the index, in the background: all of a large project, and others once a report
had to count their visitors from many visits. From then on, folds count them, and reports read a few rows of the index.

A section is incomplete until the visits of its pages from before are added. Adding a visit twice changes nothing, so
the work starts from the beginning after a crash, or when visits were removed in the meantime.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.visit_rows import SortedVisits, VisitRows
from copydesk.analytics.stores.duckdb.folding.visitor_index import VisitorIndex
from copydesk.analytics.stores.duckdb.ids.id_tables import IdTables
from copydesk.analytics.stores.duckdb.ids.scopes import SECTION_SCOPE, find_scope_ids
from copydesk.analytics.stores.duckdb.ids.section_ids import count_deeper_sections
from copydesk.analytics.stores.duckdb.log.view_log import ViewLog
from copydesk.analytics.stores.duckdb.sections.page_sections import (
    PageSections,
    load_page_sections,
    select_section_visits,
)
from copydesk.analytics.stores.duckdb.sections.section_search import SectionSearch
from copydesk.analytics.stores.duckdb.sections.visitor_groups import Records, count_groups, split_by_visitor
from copydesk.core.errors import StoreUnavailable

log = logging.getLogger(__name__)

MIN_INDEXED_VIEWS = 250_000
"""A report that counts the visitors of sections from at least this many views asks for their indexing."""
MAX_DEEPER_SECTIONS = 1_000
"""A project has at most this many indexed sections below the first level."""
VISITS_PER_GROUP = 2_000_000
"""Visits that are in memory at once."""
VISITS_SORTED_AT_ONCE = 300_000
"""A group with more visits is sorted in ranges of visitors, because sorting needs memory too."""
VISITS_PER_TRANSACTION = 100_000
"""Few enough that folds, and the reports that wait for them, do not wait long."""
PAUSE_SECONDS = 0.01
"""Between two transactions, so that a fold can get the lock."""
RETRY_SECONDS = 300
"""The pause after a failure, for example because the disk is full."""
ADD_INCOMPLETE = "insert into incomplete_sections select unnest($sections::integer[])"
DELETE_INCOMPLETE = "delete from incomplete_sections where scope in (select unnest($sections::integer[]))"


class IndexingStopped(Exception):
    """The store is closing, or visits were removed, so that the work must start again."""


class SectionRequest(NamedTuple):
    project: str
    sections: tuple[str, ...]
    """The most important ones first."""
    is_automatic: bool
    """Whether as many sections as fit into the limit are indexed, because no report has asked for all of them."""


class SectionIndexer:
    """The thread that indexes sections. It takes the store's fold lock for short transactions only."""

    def __init__(
        self,
        database: DuckDatabase,
        view_log: ViewLog,
        index: VisitorIndex,
        fold_lock: threading.Lock,
        section_search: SectionSearch,
        compact: Callable[[bool], None],
    ) -> None:
        """`compact` compacts tables and starts merges; it is called with the lock after each transaction, and told
        whether all visits of the sections are stored."""
        self._database = database
        self._view_log = view_log
        self._index = index
        self._fold_lock = fold_lock
        self._section_search = section_search
        self._compact = compact
        self._requests: list[SectionRequest] = []
        self._full_projects: set[str] = set()
        """Projects that would exceed the limit of sections."""
        self._request_lock = threading.Lock()
        """Also protects `_thread`."""
        self._thread: threading.Thread | None = None
        self._is_stopping = threading.Event()
        self._may_be_incomplete = True
        """Whether an earlier process may have left sections incomplete, or this one has failed to complete them."""
        self._next_at = 0.0
        """When the next attempt may start after a failure."""

    def request(self, project: str, sections: Collection[str]) -> None:
        """Asks for the indexing of sections, which starts in the background."""
        if sections and project not in self._full_projects:
            self._add_request(SectionRequest(project, tuple(sorted(sections)), is_automatic=False))
            self.start()

    def forget_project(self, project: str) -> None:
        """Drops what was asked for a project that is deleted. The caller holds the fold lock."""
        with self._request_lock:
            self._requests = [request for request in self._requests if request.project != project]
            self._full_projects.discard(project)

    def note_views(self, last_number: int) -> None:
        """Notes that views up to this number are logged and most of them folded, and starts the thread if needed."""
        self._section_search.note_views(last_number)
        self.start()

    def start(self) -> None:
        """Starts the thread if there is something to do, unless it is running, or failed a short time ago."""
        if not self._requests and not self._may_be_incomplete and not self._section_search.is_due():
            return
        with self._request_lock:
            is_running = self._thread is not None and self._thread.is_alive()
            if is_running or self._is_stopping.is_set() or time.monotonic() < self._next_at:
                return
            self._thread = threading.Thread(target=self._run, name="sections", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Waits until the thread has ended."""
        with self._request_lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def stop(self) -> None:
        """Stops the thread. The next process continues its work."""
        self._is_stopping.set()
        self.wait()

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                self._request_sections_of_large_projects()
                with self._fold_lock:
                    self._may_be_incomplete = True
                    self._add_requested()
                    with self._database.read() as connection:
                        pages = load_page_sections(connection)
                    if pages is None:
                        self._may_be_incomplete = False
                        return
                    sources, removals = self._index.visits.list_sources(), self._index.removals
                started_at = time.monotonic()
                self._complete(pages, sources, removals)
                self._section_search.pause(time.monotonic() - started_at)
        except Exception as error:
            self._next_at = time.monotonic() + RETRY_SECONDS
            is_expected = isinstance(error, StoreUnavailable)
            message = "could not index sections; will retry in %d seconds: %s"
            log.warning(message, RETRY_SECONDS, error, exc_info=None if is_expected else error)

    def _request_sections_of_large_projects(self) -> None:
        if self._section_search.is_due():
            for project, sections in self._section_search.find_sections(MAX_DEEPER_SECTIONS).items():
                self._add_request(SectionRequest(project, tuple(sections), is_automatic=True))

    def _add_request(self, request: SectionRequest) -> None:
        with self._request_lock:
            if request not in self._requests:
                self._requests.append(request)

    def _add_requested(self) -> None:
        """Stores the requested sections as incomplete ones. From now on, folds add their visits."""
        with self._request_lock:
            requests, self._requests = self._requests, []
        if not requests:
            return
        with self._index.change(), self._view_log.correction() as (connection, id_tables):
            for request in requests:
                if request.project in id_tables.projects:
                    self._add_sections(connection, id_tables, request)
        self._index.discard_scopes()

    def _add_sections(self, connection: DuckConnection, id_tables: IdTables, request: SectionRequest) -> None:
        project_id = id_tables.projects[request.project]
        stored = find_scope_ids(connection, SECTION_SCOPE, project_id, request.sections)
        new = [section for section in request.sections if section not in stored]
        room = max(0, MAX_DEEPER_SECTIONS - count_deeper_sections(connection, project_id))
        if len(new) > room and not request.is_automatic:
            log.info("project %s has too many sections to index %d more", request.project, len(new))
            self._full_projects.add(request.project)
            return
        new_ids = id_tables.add_deeper_sections(connection, request.project, new[:room])
        connection.execute(ADD_INCOMPLETE, {"sections": new_ids})

    def _complete(self, pages: PageSections, sources: list[SortedVisits], removals: int) -> None:
        """Adds the visits of incomplete sections, and marks these as complete, unless visits were removed."""
        visits = sum(len(source) for source in sources)
        log.info("indexing %d sections: reading %d visits", len(pages.sections), visits)
        started_at = time.monotonic()
        groups = count_groups(visits * len(pages.levels), VISITS_PER_GROUP)
        split = split_by_visitor(self._read(sources, pages), groups, self._database.path.parent)
        try:
            added = sum(map(partial(self._add_group, removals), split))  # keeps no group while the next one is read
            with self._transaction(removals, is_last=True) as connection:
                connection.execute(DELETE_INCOMPLETE, {"sections": list(pages.sections)})
        except IndexingStopped:
            log.info("stopped indexing sections, because the store is closed or visits were removed")
            return
        seconds = time.monotonic() - started_at
        log.info("indexed %d sections: %d visits, %.1f s", len(pages.sections), added, seconds)

    def _add_group(self, removals: int, records: Records) -> int:
        """Adds visits in several transactions. Returns how many they are."""
        for ordered in _sort_by_visitor(records):
            for first in range(0, len(ordered), VISITS_PER_TRANSACTION):
                part = ordered[first : first + VISITS_PER_TRANSACTION]
                with self._transaction(removals) as connection:
                    self._index.add_visits(connection, _build_visits(part))
                self._database.release_memory()  # the next part needs memory, and so does a merge beside it
                time.sleep(PAUSE_SECONDS)
        return len(records)

    def _read(self, sources: list[SortedVisits], pages: PageSections) -> Iterator[Records]:
        for records in select_section_visits(sources, pages):
            if self._is_stopping.is_set():
                return
            yield records
        sources.clear()  # merges replace these files while their visits are added

    @contextmanager
    def _transaction(self, removals: int, is_last: bool = False) -> Iterator[DuckConnection]:
        """Opens a transaction with the fold lock. Raises IndexingStopped."""
        with self._fold_lock:
            if self._is_stopping.is_set() or self._index.removals != removals:
                raise IndexingStopped
            with self._index.change(), self._database.write(for_fold=True) as connection:
                yield connection
            self._compact(is_last)


def _sort_by_visitor(records: Records) -> Iterator[Records]:
    """Yields visits sorted by visitor, which is a number of 63 bits, in parts for equal ranges of these numbers."""
    ranges = -(-len(records) // VISITS_SORTED_AT_ONCE)
    range_number = ((records["visitor"] >> 31) * ranges >> 32).astype(np.uint16)
    for number in range(ranges):
        part = records[range_number == number]
        yield part[np.argsort(part["visitor"], kind="stable")]


def _build_visits(records: Records) -> VisitRows:
    return VisitRows(*(np.ascontiguousarray(records[name]) for name in ("visitor", "scope", "day", "bits")))
