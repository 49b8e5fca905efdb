"""Which files have the filter of known events, and which events are in them.

The stored events are numbered by rows, in the order in which they were logged: DuckDB appends rows, and removes deleted
ones at a checkpoint, which gives other rows smaller numbers but keeps their order. So if no event was deleted since the
files were written, the events that they lack are the last ones, as many as the table has grown by. Therefore each
transaction that deletes events calls `delete_coverage`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection

BASE_MARK, TAIL_MARK, COUNT_MARK, END_MARK = "event_base", "event_tail", "event_count", "event_end"
MARKS = (BASE_MARK, TAIL_MARK, COUNT_MARK, END_MARK)
SELECT_MARKS = "select name, value from marks where list_contains($names, name)"
EVENTS_PER_READ = 1_000_000
SELECT_EVENTS = "select id from events where rowid >= $first and rowid < $end"
SELECT_LAST_ROW = "select max(rowid) from events where rowid >= $first"
COUNT_LAST_ROWS = "select count(*) from events where rowid >= $first"


class EventCoverage(NamedTuple):
    base_id: int
    tail_id: int
    event_count: int
    """How many events were stored when the files were written."""
    end_row: int
    """The row number after all stored events at that time. A checkpoint may have changed the row numbers since."""


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


def find_end_row(connection: DuckConnection, first_row: int = 0) -> int:
    """Returns the row number after all events. A first row near the end saves reading the numbers of all rows."""
    last_row = _find_last_row(connection, first_row)
    if last_row is None:
        last_row = _find_last_row(connection, 0)
    return 0 if last_row is None else last_row + 1


def find_row_after(connection: DuckConnection, coverage: EventCoverage) -> int | None:
    """Returns the number of a row that all later events are at or after. Earlier ones may be, too.

    Returns None if it is not found.
    """
    new_events = count_events(connection) - coverage.event_count
    if new_events < 0:
        return None
    if _count_last_rows(connection, coverage.end_row) >= new_events:
        return coverage.end_row
    first_row = max(find_end_row(connection) - new_events, 0)  # row numbers have become smaller
    return first_row if _count_last_rows(connection, first_row) >= new_events else None


def _find_last_row(connection: DuckConnection, first_row: int) -> int | None:
    [(last_row,)] = connection.execute(SELECT_LAST_ROW, {"first": first_row}).fetchall()
    return last_row if last_row is None else int(last_row)


def _count_last_rows(connection: DuckConnection, first_row: int) -> int:
    [(row_count,)] = connection.execute(COUNT_LAST_ROWS, {"first": first_row}).fetchall()
    return int(row_count)


def read_events(connection: DuckConnection, first_row: int = 0) -> Iterator[NDArray[np.int64]]:
    """Yields the events from this row on, in parts.

    All must be committed: the row numbers of others have large gaps.
    """
    last_row = _find_last_row(connection, first_row)
    if last_row is None:
        return
    for first in range(first_row, last_row + 1, EVENTS_PER_READ):
        params = {"first": first, "end": first + EVENTS_PER_READ}
        yield connection.execute(SELECT_EVENTS, params).fetchnumpy()["id"]
