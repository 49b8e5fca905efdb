"""Logging: one transaction per call, and no event twice."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from copydesk.analytics.duckdb.database import Connection, Database
from copydesk.analytics.duckdb.seen import Seen
from copydesk.analytics.store import AI, BITS, Entry, Logged, day_of

SIXTY_FOUR = (1 << 64) - 1
VIEW = ["seq", "project", "path", "time", "kind", "agent", "operator", "rule", "visitor"]
Event = tuple[int, int]


class Log:
    """One writer at a time. What it remembers is what was committed; after a failure it looks again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = threading.Lock()
        self._sure = False
        self._last = 0
        self._projects: dict[str, int] = {}
        self._seen: Seen | None = None
        with self._writing():
            pass

    @property
    def last(self) -> int:
        """The number of the view that was logged last."""
        return self._last

    def project(self, name: str) -> int | None:
        return self._projects.get(name)

    def write(self, entries: Sequence[Entry]) -> Logged:
        for entry in entries:
            day_of(entry.at)
        with self._writing() as connection:
            self._add_projects(connection, {entry.project_id for entry in entries})
            wanted, events = self._unseen(connection, entries)
            rows = [_row(seq, self._projects, entry) for seq, entry in enumerate(wanted, self._last + 1)]
            _append(connection, "views", VIEW, rows)
            _append(connection, "events", ["project", "id"], events)
        self._last += len(rows)
        return Logged(len(wanted), len(entries) - len(wanted))

    def add_project(self, name: str) -> int:
        with self._writing() as connection:
            self._add_projects(connection, {name})
        return self._projects[name]

    @contextmanager
    def forgetting(self, project: str) -> Iterator[tuple[Connection, int | None]]:
        """Nothing is logged meanwhile. The filter may keep the project's events: it only says what may have been."""
        with self._writing() as connection:
            yield connection, self._projects.pop(project, None)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._turn:
            try:
                with self._database.write() as connection:
                    if not self._sure:
                        self._look(connection)
                    yield connection
            except BaseException:
                self._sure = False
                raise

    def _look(self, connection: Connection) -> None:
        [(self._last,)] = connection.execute(
            "select greatest((select max(seq) from views), (select value from marks where name = 'folded'))"
        ).fetchall()
        self._projects = dict(connection.execute("select name, id from projects").fetchall())
        self._seen = None
        self._sure = True

    def _add_projects(self, connection: Connection, names: set[str]) -> None:
        if new := sorted(names - self._projects.keys()):
            highest = max(self._projects.values(), default=0)
            added = {name: highest + number for number, name in enumerate(new, 1)}
            ai = sum(BITS[kind] for kind in AI)
            _append(connection, "projects", ["id", "name", "ai"], [(added[name], name, ai) for name in new])
            self._projects = {**self._projects, **added}

    def _unseen(self, connection: Connection, entries: Sequence[Entry]) -> tuple[Sequence[Entry], list[Event]]:
        """The entries to log, and their events."""
        if all(entry.event is None for entry in entries):
            return entries, []
        if self._seen is None or self._seen.full:
            self._seen = Seen(connection)
        events = [None if e.event is None else (self._projects[e.project_id], _short(e.event)) for e in entries]
        doubtful = [event[1] for event in events if event is not None and self._seen.may_hold(event[1])]
        taken: set[Event] = set(_logged(connection, doubtful)) if doubtful else set()
        wanted, new = [], []
        for entry, event in zip(entries, events, strict=True):
            if event is not None:
                if event in taken:
                    continue
                taken.add(event)
                new.append(event)
            wanted.append(entry)
        self._seen.add(event for _, event in new)
        return wanted, new


def _logged(connection: Connection, ids: list[int]) -> list[Event]:
    """Those of the events that are in the log; one pass over all events, which is why the filter is asked first."""
    found = connection.execute(
        "select project, id from events where id in (select unnest($ids::ubigint[]))", {"ids": ids}
    )
    return [(project, event) for project, event in found.fetchall()]


def _short(event: int) -> int:
    return (event ^ event >> 64) & SIXTY_FOUR


def _row(seq: int, projects: dict[str, int], entry: Entry) -> tuple[object, ...]:
    return (
        seq,
        projects[entry.project_id],
        entry.path,
        entry.at,
        BITS[entry.kind],
        entry.agent or "",
        entry.operator or "",
        entry.rule,
        entry.visitor,
    )


def _append(connection: Connection, table: str, columns: list[str], rows: Sequence[Sequence[object]]) -> None:
    if not rows:
        return
    appender = connection.appender(table, columns=columns)
    appender.append_rows(rows)
    appender.flush()
