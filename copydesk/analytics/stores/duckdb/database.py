"""One DuckDB file: its connections, its transactions, when it writes back its log, and how it comes to life again."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from copydesk.analytics.stores.base import StoreDamaged, StoreFull, StoreInUse, StoreNewer
from copydesk.analytics.stores.duckdb.sql_files import sql
from copydesk.core.errors import StoreDown

Connection = duckdb.DuckDBPyConnection
MEMORY = "160MB"
WRITE_BACK_FROM = 32_000_000
"""Bytes of write-ahead log from which writing it back is worth the while."""

SCHEMA = 2
"""Of the tables. Each number after the first has its sql/upgrade_….sql, which makes them so from those before."""

GAPS_TRIED = 100
"""For half a second; then the next fold tries again."""


class Database:
    """Safe for many threads: each act has a connection of its own. A broken database is opened anew by the next act."""

    def __init__(
        self, path: Path, memory: str = MEMORY, threads: int = 1, write_back_from: int = WRITE_BACK_FROM
    ) -> None:
        self.path = path
        self._write_back_from = write_back_from
        self._config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory,
            "threads": threads,
            "temp_directory": f"{path}.tmp",
            "checkpoint_threshold": "1TB",  # DuckDB's own moment would be in the middle of a request
        }
        self._opening = threading.Lock()
        self._root: Connection | None = None
        self._idle: list[Connection] = []
        with self.write() as connection:
            _bring_up(connection)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One moment's state throughout, whatever is written meanwhile."""
        with self._transaction("begin transaction read only") as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """All or nothing, durable on leaving."""
        with self._transaction("begin transaction") as connection:
            yield connection

    def write_back(self, at_once: bool = False) -> None:
        """Moves a long write-ahead log into the file, or any log at once, so that room which was given up can be used
        again. It begins in a gap between writers, and then they go on."""
        wal = self.path.with_name(f"{self.path.name}.wal")
        if not wal.exists() or (wal.stat().st_size < self._write_back_from and not at_once):
            return
        with self._connection() as connection:
            for _ in range(GAPS_TRIED):
                try:
                    connection.execute("checkpoint")
                except duckdb.TransactionException:
                    time.sleep(0.005)
                else:
                    return

    def copy_to(self, target: Path) -> None:
        """A new file with the state of one moment. The name is quoted as SQL wants it: DuckDB binds no names."""
        quoted, own = str(target).replace("'", "''"), self.path.stem.replace('"', '""')
        with self._connection() as connection:
            connection.execute(f"attach '{quoted}' as copied")
            try:
                connection.execute(f'copy from database "{own}" to copied')
            finally:
                connection.execute("detach copied")

    def close(self) -> None:
        with self._opening:
            self._close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        with self._connection() as connection:
            connection.execute(begin)
            try:
                yield connection
                connection.commit()
            except BaseException:
                with suppress(duckdb.Error):
                    connection.rollback()
                raise

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with self._opening:
            connection = self._take()
        try:
            yield connection
        except duckdb.Error as error:
            with self._opening:
                connection.close()
                if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                    self._close()
            raise _explained(error) from error
        except BaseException:
            connection.close()
            raise
        else:
            self._idle.append(connection)

    def _take(self) -> Connection:
        if self._idle:
            return self._idle.pop()
        if self._root is None:
            self._root = self._open()
        connection = self._root.cursor()
        connection.execute("set enable_progress_bar = false")
        connection.execute(sql("functions"))
        return connection

    def _open(self) -> Connection:
        try:
            return duckdb.connect(str(self.path), config=self._config)
        except duckdb.Error as error:
            raise _explained(error) from error

    def _close(self) -> None:
        """DuckDB lets go of a file once its last connection is closed."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        if self._root is not None:
            self._root.close()
            self._root = None


def schema_of(connection: Connection) -> int | None:
    """The number of a file's tables; None when it has none yet."""
    if not connection.execute("select 1 from duckdb_tables() where table_name = 'marks'").fetchall():
        return None
    found = connection.execute("select value from marks where name = 'schema'").fetchall()
    return int(found[0][0]) if found else 1  # the first release wrote none


def _bring_up(connection: Connection) -> None:
    written = schema_of(connection)
    if written is not None and written > SCHEMA:
        raise StoreNewer
    for number in range(SCHEMA if written is None else written, SCHEMA):
        connection.execute(sql(f"upgrade_{number + 1}"))
    connection.execute(sql("schema"))
    if written != SCHEMA:
        connection.execute("delete from marks where name = 'schema'")
        connection.execute("insert into marks values ('schema', $schema)", {"schema": SCHEMA})


def _explained(error: duckdb.Error) -> StoreDown | duckdb.Error:
    """What a person can do about it; an error of ours stays what it is."""
    text = str(error)
    if "Could not set lock on file" in text:
        return StoreInUse()
    if "orrupt" in text or isinstance(error, duckdb.SerializationException):
        return StoreDamaged()
    if "Could not write" in text or "No space left" in text:
        return StoreFull()
    if isinstance(error, duckdb.OperationalError | duckdb.FatalException | duckdb.InternalException):
        return StoreDown()
    return error
