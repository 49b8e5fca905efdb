"""Inserts rows into DuckDB's tables from columns in memory."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection

Columns = Mapping[str, NDArray[Any]]
"""Rows, as columns by their names in the order of the table."""
BUFFER_ROWS = 2_048


class RowInserts:
    """Inserts few rows at little cost: a statement that is prepared once copies them from a buffer, which is a set of
    arrays that DuckDB reads in place. Its column `is_used` selects the rows.

    The statements belong to a connection, and are prepared again for another one. One caller at a time.
    """

    def __init__(self) -> None:
        self._connection: DuckConnection | None = None
        self._buffers: dict[str, Columns] = {}

    def insert(self, connection: DuckConnection, table: str, columns: Columns) -> None:
        rows = len(next(iter(columns.values())))
        if rows > BUFFER_ROWS:
            _insert_many(connection, table, columns)
        elif rows:
            self._insert_few(connection, table, columns, rows)

    def _insert_few(self, connection: DuckConnection, table: str, columns: Columns, rows: int) -> None:
        if connection is not self._connection:
            self._connection, self._buffers = connection, {}
        if table not in self._buffers:
            self._buffers[table] = _prepare_insert(connection, table, columns)
        buffer = self._buffers[table]
        for name, column in columns.items():
            buffer[name][:rows] = column
        buffer["is_used"][:rows] = True
        buffer["is_used"][rows:] = False
        connection.execute(f"execute insert_{table}")


def _prepare_insert(connection: DuckConnection, table: str, columns: Columns) -> Columns:
    """Prepares the statement `insert_…` of a table, and returns the buffer that it reads."""
    buffer = {name: np.zeros(BUFFER_ROWS, column.dtype) for name, column in columns.items()}
    buffer["is_used"] = np.zeros(BUFFER_ROWS, np.bool_)
    connection.register(f"{table}_buffer", buffer)
    names = ", ".join(columns)
    connection.execute(
        f"prepare insert_{table} as insert into {table} select {names} from {table}_buffer where is_used"  # noqa: S608 - ours
    )
    return buffer


def _insert_many(connection: DuckConnection, table: str, columns: Columns) -> None:
    connection.register("new_rows", dict(columns))
    try:
        connection.execute(f"insert into {table} from new_rows")
    finally:
        connection.unregister("new_rows")
