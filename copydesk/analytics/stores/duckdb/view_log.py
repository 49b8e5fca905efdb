"""Logging: one transaction per call, and no event twice."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from copydesk.analytics.page_view import View
from copydesk.analytics.stores.base import Logged, day_of, event_number
from copydesk.analytics.stores.duckdb.database import Connection, Database
from copydesk.analytics.stores.duckdb.event_filter import Seen, over_all
from copydesk.analytics.stores.duckdb.id_tables import MOST_PAGES, VIEW, Names, append
from copydesk.core.errors import StoreDown

log = logging.getLogger(__name__)

Event = tuple[int, int]


class Log:
    """One writer at a time. What it remembers is what was committed; after a failure it looks again."""

    def __init__(self, database: Database, most_pages: int = MOST_PAGES) -> None:
        self._database, self._most_pages = database, most_pages
        self._turn = threading.Lock()
        self._last = 0
        self._names: Names | None = None
        self._seen: Seen | None = None
        self._making: threading.Thread | None = None
        self._closing = threading.Event()
        with self._writing():
            pass

    @property
    def last(self) -> int:
        """The number of the view that was logged last."""
        return self._last

    def write(self, views: Sequence[View]) -> Logged:
        times = [view.at for view in views]
        for at in (min(times), max(times)) if times else ():
            day_of(at)
        with self._writing() as (connection, names):
            names.add_projects(connection, {view.project for view in views})
            wanted, events, duplicates = self._unseen(connection, names, views)
            rows = names.rows(connection, wanted, self._last + 1)
            append(connection, "views", VIEW, rows)
            append(connection, "events", ["project", "id"], events)
        self._last += len(rows)
        self._make_filter()
        return Logged(len(rows), tuple(duplicates))

    def close(self) -> None:
        self._closing.set()
        if self._making is not None:
            self._making.join()

    def project(self, name: str) -> int | None:
        with self._writing() as (_, names):
            return names.projects.get(name)

    def add_project(self, name: str) -> int:
        with self._writing() as (connection, names):
            names.add_projects(connection, {name})
            return names.projects[name]

    @contextmanager
    def forgetting(self, project: str) -> Iterator[tuple[Connection, int | None]]:
        """Nothing is logged meanwhile. The filter may keep the project's events: it only says what may have been."""
        with self._writing() as (connection, names):
            yield connection, names.projects.get(project)
            self._names = None

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, Names]]:
        with self._turn:
            try:
                with self._database.write() as connection:
                    if self._names is None:
                        self._names = self._look(connection)
                    yield connection, self._names
            except BaseException:
                self._names = self._seen = None
                raise

    def _look(self, connection: Connection) -> Names:
        [(self._last,)] = connection.execute(
            "select greatest((select max(seq) from views), (select value from marks where name = 'folded'))"
        ).fetchall()
        return Names(connection, self._most_pages)

    def _make_filter(self) -> None:
        """Where one is wanted, in a thread of its own: logging goes on."""
        seen, making = self._seen, self._making
        if seen is None or not seen.wants_making or (making is not None and making.is_alive()):
            return
        self._making = threading.Thread(target=self._make, args=[seen], name="filter", daemon=True)
        self._making.start()

    def _make(self, seen: Seen) -> None:
        try:
            with self._turn:
                seen.begin_making()
            with self._database.read() as connection:
                made = over_all(connection, self._closing.is_set)
            with self._turn:
                if made is not None:
                    seen.replace(made)
        except StoreDown:
            log.warning("the filter of known events could not be made; the next views will try again", exc_info=True)

    def _unseen(
        self, connection: Connection, names: Names, views: Sequence[View]
    ) -> tuple[Sequence[View], list[Event], list[int]]:
        """The views to log, their events, and the positions of the others."""
        if all(view.event is None for view in views):
            return views, [], []
        if self._seen is None:
            self._seen = Seen(connection)
        events = [None if v.event is None else (names.projects[v.project], event_number(v.event)) for v in views]
        sent = [event for event in events if event is not None]
        doubtful = self._seen.doubtful([event for _, event in sent])
        if not doubtful:
            return views, sent, []
        taken = set(_logged(connection, doubtful))
        wanted, new, duplicates = [], [], []
        for position, event in enumerate(events):
            if event is not None:
                if event in taken:
                    duplicates.append(position)
                    continue
                taken.add(event)
                new.append(event)
            wanted.append(views[position])
        return wanted, new, duplicates


def _logged(connection: Connection, ids: list[int]) -> list[Event]:
    """Those of the events that are in the log; one pass over all events, which is why the filter is asked first."""
    found = connection.execute(
        "select project, id from events where id in (select unnest($ids::bigint[]))", {"ids": ids}
    )
    return [(project, event) for project, event in found.fetchall()]
