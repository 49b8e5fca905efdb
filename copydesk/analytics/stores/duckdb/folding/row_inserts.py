"""Inserts rows into DuckDB's tables from columns in memory."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copydesk.analytics.stores.duckdb.database import DuckConnection

Columns = Mapping[str, NDArray[Any]]
"""Rows, as columns by their names in the order of the table."""
SHORT_BUFFER_ROWS, LONG_BUFFER_ROWS = 2_048, 65_536
"""Inserting few rows from a short buffer takes less time, because DuckDB reads all of a buffer."""


class RowInserts:
    """Inserts rows at little cost: a statement that is prepared once copies them from a buffer, which is a set of
    arrays that DuckDB reads in place. Its column `is_used` selects the rows.

    No array is registered for a single statement, because DuckDB would keep it until the transaction ends. The
    statements and the buffers belong to a connection, and are prepared again for another one. One caller at a time.
    """

    def __init__(self) -> None:
        self._connection: DuckConnection | None = None
        self._buffers: dict[str, Columns] = {}

    def insert(self, connection: DuckConnection, table: str, columns: Columns) -> None:
        rows = len(next(iter(columns.values())))
        buffer_rows = SHORT_BUFFER_ROWS if rows <= SHORT_BUFFER_ROWS else LONG_BUFFER_ROWS
        for first in range(0, rows, buffer_rows):
            part = {name: column[first : first + buffer_rows] for name, column in columns.items()}
            self._insert_part(connection, table, part, buffer_rows)

    def _insert_part(self, connection: DuckConnection, table: str, columns: Columns, buffer_rows: int) -> None:
        if connection is not self._connection:
            self._connection, self._buffers = connection, {}
        name = f"{table}_{buffer_rows}"
        if name not in self._buffers:
            self._buffers[name] = _prepare_insert(connection, name, table, columns, buffer_rows)
        buffer = self._buffers[name]
        rows = len(next(iter(columns.values())))
        for column_name, column in columns.items():
            np.copyto(buffer[column_name][:rows], column, casting="safe")
        buffer["is_used"][:rows] = True
        buffer["is_used"][rows:] = False
        connection.execute(f"execute insert_{name}")


def _prepare_insert(connection: DuckConnection, name: str, table: str, columns: Columns, rows: int) -> Columns:
    """Prepares the statement `insert_…` of a buffer, and returns the buffer, which it reads."""
    buffer = {column_name: np.zeros(rows, column.dtype) for column_name, column in columns.items()}
    buffer["is_used"] = np.zeros(rows, np.bool_)
    connection.register(f"{name}_buffer", buffer)
    names = ", ".join(columns)
    connection.execute(
        f"prepare insert_{name} as insert into {table} select {names} from {name}_buffer where is_used"  # noqa: S608 - ours
    )
    return buffer
