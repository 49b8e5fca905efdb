"""The main database in files, a table each, as it was at one moment, whatever is written meanwhile."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect

from copydesk.core.db.database import Database
from copydesk.transfer.backup.manifest import Damaged, Rows
from copydesk.transfer.progress import Progress
from copydesk.transfer.row_codec import AT_ONCE, TABLES, Lines, Tally, rows

FOLDER = "database"


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """One moment's state throughout. Writers go on."""
    with database.read() as connection:
        if database.is_sqlite:
            driver: Any = connection.connection.driver_connection
            driver.execute("BEGIN")
            yield connection
        else:
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with database.unhurried(connection):
                connection.exec_driver_sql("set local idle_in_transaction_session_timeout = 0")  # the disk may be slow
                yield connection


def dump(tx: Connection, folder: Path, progress: Progress) -> dict[str, Rows]:
    """Every table as it is, which may be an older schema's: a back-up changes nothing."""
    (folder / FOLDER).mkdir(mode=0o700)
    there = inspect(tx)
    known = set(there.get_table_names())
    dumped = {}
    for name in (name for name in TABLES if name in known):
        progress.begin(name)
        lines = Lines(TABLES[name], {column["name"] for column in there.get_columns(name)})
        counted = _write(tx, lines, file_of(folder, name), progress)
        columns = [column.name for column in lines.columns]
        dumped[name] = Rows(columns=columns, rows=counted.rows, checksum=counted.checksum)
    return dumped


def _write(tx: Connection, lines: Lines, path: Path, progress: Progress) -> Tally:
    counted = Tally()
    with gzip.open(path, "wb", compresslevel=3) as file:
        for row in rows(tx, lines.chosen()):
            line = lines.line(row)
            counted.add(line)
            file.write(line + b"\n")
            if counted.rows % AT_ONCE == 0:
                progress.advance(AT_ONCE)
    progress.advance(counted.rows % AT_ONCE)
    return counted


def read(folder: Path, name: str, wanted: Rows) -> Iterator[bytes]:
    """The lines of a table; Damaged when they are not those that were written, at the latest after the last."""
    counted = Tally()
    try:
        with gzip.open(file_of(folder, name), "rb") as file:
            for line in file:
                counted.add(line := line.rstrip(b"\n"))
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Damaged(f"{file_of(folder, name)} cannot be read: {error}.") from None
    if (counted.rows, counted.checksum) != (wanted.rows, wanted.checksum):
        raise Damaged(f"{file_of(folder, name)} does not hold the {wanted.rows:,} rows that were written.")


def file_of(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.jsonl.gz"
