"""Writes a consistent snapshot of the main database to files, one for each table, and reads them back."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from copydesk.core.db.database import Database
from copydesk.transfer.backup.manifest import BackupDamaged, TableSummary
from copydesk.transfer.progress import Progress
from copydesk.transfer.row_codec import ROWS_PER_BATCH, TABLES, RowCodec, TableDigest, stream_rows

TABLES_FOLDER = "database"


@contextmanager
def open_snapshot(database: Database) -> Iterator[Connection]:
    """Opens a connection that sees the database as of one moment. Writers continue meanwhile."""
    with database.read() as connection:
        if database.is_sqlite:
            driver: Any = connection.connection.driver_connection
            driver.execute("BEGIN")
            yield connection
        else:
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with database.without_statement_timeout(connection):
                connection.exec_driver_sql("set local idle_in_transaction_session_timeout = 0")  # the disk may be slow
                yield connection


def dump_tables(tx: Connection, folder: Path, progress: Progress) -> dict[str, TableSummary]:
    """Writes every table to a file."""
    (folder / TABLES_FOLDER).mkdir(mode=0o700)
    summaries = {}
    for name, table in TABLES.items():
        progress.start_stage(name)
        digest = _write_table(tx, RowCodec(table), table_path(folder, name), progress)
        summaries[name] = TableSummary(rows=digest.rows, checksum=digest.checksum)
    return summaries


def _write_table(tx: Connection, codec: RowCodec, path: Path, progress: Progress) -> TableDigest:
    digest = TableDigest()
    with gzip.open(path, "wb", compresslevel=3) as file:
        for row in stream_rows(tx, codec.build_select()):
            line = codec.encode_row(row)
            digest.add(line)
            file.write(line + b"\n")
            if digest.rows % ROWS_PER_BATCH == 0:
                progress.advance(ROWS_PER_BATCH)
    progress.advance(digest.rows % ROWS_PER_BATCH)
    return digest


def read_lines(folder: Path, name: str, expected: TableSummary) -> Iterator[bytes]:
    """Yields the lines of a table. Raises BackupDamaged, at the latest after the last line, if they do not match."""
    digest = TableDigest()
    try:
        with gzip.open(table_path(folder, name), "rb") as file:
            for line in file:
                digest.add(line := line.rstrip(b"\n"))
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BackupDamaged(f"{table_path(folder, name)} cannot be read: {error}.") from None
    if (digest.rows, digest.checksum) != (expected.rows, expected.checksum):
        raise BackupDamaged(f"{table_path(folder, name)} is damaged: its {expected.rows:,} rows do not match.")


def table_path(folder: Path, name: str) -> Path:
    return folder / TABLES_FOLDER / f"{name}.jsonl.gz"
