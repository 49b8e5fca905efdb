"""Encodes a row as a line of JSON that is the same for every database, and computes checksums of tables."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import JSON, Connection, LargeBinary, Select, String, Table, Text, cast, select

import copydesk.analytics.tables
import copydesk.automations.tables
import copydesk.core.projects.event_tables
import copydesk.jobs.storage.tables
import copydesk.mail.tables
import copydesk.prompts.tables
import copydesk.sharing.tables  # noqa: F401 - these imports add their tables to the metadata
from copydesk.core.db.tables import metadata

ROWS_PER_BATCH = 1000
ENCODER = json.JSONEncoder(separators=(",", ":"))
TABLES: dict[str, Table] = {table.name: table for table in metadata.sorted_tables}
"""All tables by name. Referenced tables come before the tables that refer to them."""


@dataclass
class TableDigest:
    """The number of lines and the sum of their SHA-256. A sum does not depend on the order, which engines differ in."""

    rows: int = 0
    hash_sum: int = 0

    def add(self, line: bytes) -> None:
        self.rows += 1
        self.hash_sum = (self.hash_sum + int.from_bytes(sha256(line).digest())) % (1 << 256)

    @property
    def checksum(self) -> str:
        return f"{self.hash_sum:064x}"


class RowCodec:
    """Converts the rows of a table to lines and back."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.columns = list(table.columns)
        self._binary_indexes = [
            place for place, column in enumerate(self.columns) if isinstance(column.type, LargeBinary)
        ]

    def build_select(self) -> Select[Any]:
        """Returns a query for the rows. Reads JSON as its stored text, so that it is copied exactly."""
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
        """Inserts rows with the fastest method of each engine."""
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
        """Returns why PostgreSQL would reject a row that SQLite accepted, or None if it would not."""
        for column, value in zip(self.columns, row, strict=True):
            if isinstance(value, str):
                length = column.type.length if isinstance(column.type, String) else None
                if length is not None and len(value) > length:
                    return f"{column.name} has {len(value):,} characters; the limit is {length:,}"
                if "\0" in value:
                    return f"{column.name} contains a NUL character"
        return None

    def describe_row(self, row: Sequence[Any]) -> str:
        """Returns the table and primary key of a row, for messages."""
        keys = set(self.table.primary_key.columns)
        key_values = (str(value) for column, value in zip(self.columns, row, strict=True) if column in keys)
        return f"{self.table.name} {'/'.join(key_values)}"


def stream_rows(tx: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    """Yields the rows one by one, in constant memory."""
    result = tx.execute(query, execution_options={"yield_per": ROWS_PER_BATCH, "stream_results": True})
    yield from result


def compute_digest(tx: Connection, codec: RowCodec) -> TableDigest:
    digest = TableDigest()
    for row in stream_rows(tx, codec.build_select()):
        digest.add(codec.encode_row(row))
    return digest
