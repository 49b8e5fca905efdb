"""Which files have the filter of known events, and which events are in them.

An event has the number of its view, and numbers grow, so the events that the files lack are those with a greater number
than the last view had when the files were written. After views and their events were deleted, the next start may use
their numbers again. Therefore each transaction that deletes events calls `delete_coverage`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection

BASE_MARK, TAIL_MARK, LAST_MARK = "event_base", "event_tail", "event_last"
MARKS = (BASE_MARK, TAIL_MARK, LAST_MARK)
SELECT_MARKS = "select name, value from marks where list_contains($names, name)"
EVENTS_PER_READ = 1_000_000
SELECT_ROWS = "select id from events where rowid >= $first and rowid < $end"
SELECT_LATER = "select id from events where seq > $last"


class RowsRenumbered(Exception):
    """A checkpoint has given rows other numbers while they were read."""


class EventCoverage(NamedTuple):
    base_id: int
    tail_id: int
    last_number: int
    """The number of the last logged view when the tail was copied."""


def read_coverage(connection: DuckConnection) -> EventCoverage | None:
    marks = dict(connection.execute(SELECT_MARKS, {"names": list(MARKS)}).fetchall())
    return EventCoverage(*(marks[name] for name in MARKS)) if len(marks) == len(MARKS) else None


def replace_coverage(connection: DuckConnection, coverage: EventCoverage) -> None:
    delete_coverage(connection)
    for name, value in zip(MARKS, coverage, strict=True):
        connection.execute("insert into marks values ($name, $value)", {"name": name, "value": value})


def delete_coverage(connection: DuckConnection, database: str | None = None) -> None:
    """Makes the files invalid. Call it in each transaction that deletes events, and in copies of the database."""
    marks = "marks" if database is None else f"{database}.marks"
    connection.execute(f"delete from {marks} where list_contains($names, name)", {"names": list(MARKS)})  # noqa: S608


def count_events(connection: DuckConnection) -> int:
    [(event_count,)] = connection.execute("select count(*) from events").fetchall()
    return int(event_count)


def read_later_events(connection: DuckConnection, last_number: int) -> NDArray[np.int64]:
    """Returns the events of the views after this number."""
    events: NDArray[np.int64] = connection.execute(SELECT_LATER, {"last": last_number}).fetchnumpy()["id"]
    return events


def read_events(connection: DuckConnection) -> Iterator[NDArray[np.int64]]:
    """Yields all events in parts. They must be committed: the row numbers of others have large gaps.

    Raises RowsRenumbered if not all were read. A checkpoint may remove deleted rows between two parts, also during this
    transaction. The rows after them then have smaller numbers, so that some are skipped and none is read twice.
    """
    [(last_row,)] = connection.execute("select max(rowid) from events").fetchall()
    expected, read = count_events(connection), 0
    for first in range(0, -1 if last_row is None else last_row + 1, EVENTS_PER_READ):
        params = {"first": first, "end": first + EVENTS_PER_READ}
        events = connection.execute(SELECT_ROWS, params).fetchnumpy()["id"]
        read += len(events)
        yield events
    if read != expected:
        raise RowsRenumbered
