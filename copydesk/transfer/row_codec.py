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

AT_ONCE = 1000
ENCODER = json.JSONEncoder(separators=(",", ":"))
TABLES: dict[str, Table] = {table.name: table for table in metadata.sorted_tables}
"""Those that others refer to come first."""


@dataclass
class Tally:
    """The number of lines and the sum of their SHA-256: the order, which engines do not agree on, is of no matter."""

    rows: int = 0
    total: int = 0

    def add(self, line: bytes) -> None:
        self.rows += 1
        self.total = (self.total + int.from_bytes(sha256(line).digest())) % (1 << 256)

    @property
    def checksum(self) -> str:
        return f"{self.total:064x}"


class Lines:
    """The rows of a table, of these columns: from the database into lines, and back."""

    def __init__(self, table: Table, columns: Collection[str] | None = None) -> None:
        self.table = table
        self.columns = [column for column in table.columns if columns is None or column.name in columns]
        self._packed = [place for place, column in enumerate(self.columns) if isinstance(column.type, LargeBinary)]

    def chosen(self) -> Select[Any]:
        """JSON is taken as the text that it is stored as, so that it comes back to the letter."""
        return select(
            *(cast(column, Text) if isinstance(column.type, JSON) else column for column in self.columns)
        ).select_from(self.table)

    def line(self, row: Sequence[Any]) -> bytes:
        values = list(row)
        for place in self._packed:
            if values[place] is not None:
                values[place] = b64encode(values[place]).decode()
        return ENCODER.encode(values).encode()

    def row(self, line: bytes) -> list[Any]:
        values: list[Any] = json.loads(line)
        for place in self._packed:
            if values[place] is not None:
                values[place] = b64decode(values[place])
        return values

    def insert(self, tx: Connection, rows: Iterable[Sequence[Any]]) -> None:
        """By the quickest way in that each engine has."""
        names = ", ".join(f'"{column.name}"' for column in self.columns)
        into = f"{self.table.name} ({names})"
        driver: Any = tx.connection.driver_connection
        if tx.dialect.name == "sqlite":
            places = ", ".join("?" for _ in self.columns)
            driver.executemany(f"insert into {into} values ({places})", rows)  # noqa: S608 - names of our own tables
            return
        with driver.cursor() as cursor, cursor.copy(f"copy {into} from stdin") as copying:
            for row in rows:
                copying.write_row(row)

    def fault(self, row: Sequence[Any]) -> str | None:
        """Why PostgreSQL would not take a row that SQLite did; None when it would."""
        for column, value in zip(self.columns, row, strict=True):
            if isinstance(value, str):
                length = column.type.length if isinstance(column.type, String) else None
                if length is not None and len(value) > length:
                    return f"{column.name} has {len(value):,} characters, of {length:,} at most"
                if "\0" in value:
                    return f"{column.name} has a NUL character in it"
        return None

    def name_of(self, row: Sequence[Any]) -> str:
        """A row by its key, for a person."""
        keys = set(self.table.primary_key.columns)
        shown = (str(value) for column, value in zip(self.columns, row, strict=True) if column in keys)
        return f"{self.table.name} {'/'.join(shown)}"


def rows(tx: Connection, wanted: Select[Any]) -> Iterator[Sequence[Any]]:
    """One by one, in memory that does not grow."""
    result = tx.execute(wanted, execution_options={"yield_per": AT_ONCE, "stream_results": True})
    yield from result


def tally(tx: Connection, lines: Lines) -> Tally:
    found = Tally()
    for row in rows(tx, lines.chosen()):
        found.add(lines.line(row))
    return found
