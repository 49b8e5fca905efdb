"""A row as one line of JSON, the same whichever database holds it, and a checksum over any number of them."""

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import JSON, Connection, LargeBinary, Select, String, Table, Text, cast, select

import copydesk.analytics.tables
import copydesk.jobs.storage.tables  # noqa: F401 - their tables join the others' metadata
from copydesk.core.db.tables import metadata

ROWS_PER_BATCH = 1000
ENCODER = json.JSONEncoder(separators=(",", ":"))
TABLES: dict[str, Table] = {table.name: table for table in metadata.sorted_tables}
"""Those that others refer to come first."""


@dataclass
class TableDigest:
    """The number of lines and the sum of their SHA-256: the order, which engines do not agree on, is of no matter."""

    rows: int = 0
    hash_sum: int = 0

    def add(self, line: bytes) -> None:
        self.rows += 1
        self.hash_sum = (self.hash_sum + int.from_bytes(sha256(line).digest())) % (1 << 256)

    @property
    def checksum(self) -> str:
        return f"{self.hash_sum:064x}"


class RowCodec:
    """The rows of a table, of these columns: from the database into lines, and back."""

    def __init__(self, table: Table, columns: Collection[str] | None = None) -> None:
        self.table = table
        self.columns = [column for column in table.columns if columns is None or column.name in columns]
        self._binary_indexes = [
            place for place, column in enumerate(self.columns) if isinstance(column.type, LargeBinary)
        ]

    def build_select(self) -> Select[Any]:
        """JSON is taken as the text that it is stored as, so that it comes back to the letter."""
        return select(
            *(cast(column, Text) if isinstance(column.type, JSON) else column for column in self.columns)
        ).select_from(self.table)

    def encode_row(self, row: Sequence[Any]) -> bytes:
        values = list(row)
        for index in self._binary_indexes:
            if values[index] is not None:
                values[index] = b64encode(values[index]).decode()
        return ENCODER.encode(values).encode()

    def decode_row(self, line: bytes) -> list[Any]:
        values: list[Any] = json.loads(line)
        for index in self._binary_indexes:
            if values[index] is not None:
                values[index] = b64decode(values[index])
        return values

    def insert_rows(self, tx: Connection, rows: Iterable[Sequence[Any]]) -> None:
        """By the quickest way in that each engine has."""
        names = ", ".join(f'"{column.name}"' for column in self.columns)
        target = f"{self.table.name} ({names})"
        driver: Any = tx.connection.driver_connection
        if tx.dialect.name == "sqlite":
            placeholders = ", ".join("?" for _ in self.columns)
            driver.executemany(f"insert into {target} values ({placeholders})", rows)  # noqa: S608 - names of our own tables
            return
        with driver.cursor() as cursor, cursor.copy(f"copy {target} from stdin") as copy:
            for row in rows:
                copy.write_row(row)

    def find_fault(self, row: Sequence[Any]) -> str | None:
        """Why PostgreSQL would not take a row that SQLite did; None when it would."""
        for column, value in zip(self.columns, row, strict=True):
            if isinstance(value, str):
                length = column.type.length if isinstance(column.type, String) else None
                if length is not None and len(value) > length:
                    return f"{column.name} has {len(value):,} characters, of {length:,} at most"
                if "\0" in value:
                    return f"{column.name} has a NUL character in it"
        return None

    def describe_row(self, row: Sequence[Any]) -> str:
        """A row by its key, for a person."""
        keys = set(self.table.primary_key.columns)
        key_values = (str(value) for column, value in zip(self.columns, row, strict=True) if column in keys)
        return f"{self.table.name} {'/'.join(key_values)}"


def stream_rows(tx: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    """One by one, in memory that does not grow."""
    result = tx.execute(query, execution_options={"yield_per": ROWS_PER_BATCH, "stream_results": True})
    yield from result


def compute_digest(tx: Connection, codec: RowCodec) -> TableDigest:
    digest = TableDigest()
    for row in stream_rows(tx, codec.build_select()):
        digest.add(codec.encode_row(row))
    return digest
