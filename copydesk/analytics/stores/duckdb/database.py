"""A DuckDB file: its connections, transactions, checkpoints, recovery and schema."""

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from copydesk.analytics.stores.duckdb.metadata_blocks import MetadataBlocks, get_copy_path, restore_metadata_blocks
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.errors import StoreDamaged, StoreFull, StoreInUse, StoreSchemaNewer
from copydesk.core.errors import StoreUnavailable
from copydesk.core.runtime.memory import return_free_memory

log = logging.getLogger(__name__)

DuckConnection = duckdb.DuckDBPyConnection
MEMORY_LIMIT = 160_000_000
MAX_RELEASED_CACHE = 32_000_000
"""How much of its memory DuckDB keeps at most when its cache is released."""
MIN_CHECKPOINT_BYTES = 32_000_000
"""The size of the write-ahead log from which a checkpoint is worthwhile."""

DUCKDB_SCHEMA_VERSION = 1
"""The version of the tables and of the files beside the database. A newer one is refused."""

SELECT_METADATA_BLOCKS = "select block_id from pragma_metadata_info()"
CHECKPOINT_ATTEMPTS = 100
"""Attempts in about half a second; after that, the next fold tries again."""


class DuckDatabase:
    """A DuckDB database. Thread-safe: each operation has its own connection. After a fatal error, the next operation
    reopens the file."""

    def __init__(
        self,
        path: Path,
        memory_limit: int = MEMORY_LIMIT,
        threads: int = 1,
        min_checkpoint_bytes: int = MIN_CHECKPOINT_BYTES,
    ) -> None:
        self.path = path
        self._memory_limit = memory_limit
        self._min_checkpoint_bytes = min_checkpoint_bytes
        self._config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{memory_limit}B",
            "threads": threads,
            "temp_directory": f"{path}.tmp",
            "checkpoint_threshold": "1TB",  # never automatically, because that would delay a request
        }
        self._lock = threading.Lock()
        self._checkpoint_lock = threading.Lock()
        """Held during a checkpoint, because it is one that the saved metadata belong to. Acquired before `_lock`."""
        self._root_connection: DuckConnection | None = None
        self._used_connections = 0
        """How many connections are in use. Protected by `_lock`."""
        self._idle_connections: list[DuckConnection] = []
        self._idle_fold_connections: list[DuckConnection] = []
        """The connection of folds, when it is idle. Folds have their own, because they prepare statements."""
        self._metadata_blocks: MetadataBlocks | None = None
        with self.write() as connection:
            _prepare_schema(connection)

    @contextmanager
    def read(self) -> Iterator[DuckConnection]:
        """Opens a read-only transaction with a consistent snapshot."""
        with self._transaction("begin transaction read only", self._idle_connections) as connection:
            yield connection

    @contextmanager
    def write(self, for_fold: bool = False) -> Iterator[DuckConnection]:
        """Opens an atomic transaction, durable once the block ends. Folds get the same connection as the last fold."""
        idle_connections = self._idle_fold_connections if for_fold else self._idle_connections
        with self._transaction("begin transaction", idle_connections) as connection:
            yield connection

    def checkpoint(self, force: bool = False) -> None:
        """Moves the write-ahead log into the file if it is long, or always with `force`.

        This makes freed space reusable. Starts between two writers; they continue while it runs.
        """
        wal_path = self.path.with_name(f"{self.path.name}.wal")
        if not wal_path.exists() or (wal_path.stat().st_size < self._min_checkpoint_bytes and not force):
            return
        with self._checkpoint_lock, self._borrow_connection(self._idle_connections) as connection:
            self._save_metadata(connection)
            for _ in range(CHECKPOINT_ATTEMPTS):
                try:
                    connection.execute("checkpoint")
                except duckdb.TransactionException:
                    time.sleep(0.005)
                else:
                    get_copy_path(self.path).unlink(missing_ok=True)
                    return

    def release_memory(self) -> None:
        """Returns most memory of DuckDB's cache, which it otherwise fills up to its limit, and what malloc keeps.

        Lowers the limit only for a moment, because compacting tables and some reports need more. Does nothing while
        another thread uses a connection, because its statement would fail if it needed more at that moment.
        """
        with self._lock:
            if self._used_connections or self._root_connection is None:
                return
            for limit in (min(MAX_RELEASED_CACHE, self._memory_limit), self._memory_limit):
                with suppress(duckdb.Error):
                    self._root_connection.execute(f"set memory_limit = '{limit}B'")
        return_free_memory()

    def copy_to(self, target: Path, complete: Callable[[DuckConnection, str], None]) -> None:
        """Writes a consistent copy to a new file, and calls `complete` with the copy's name to complete it.

        Quotes the names, because DuckDB does not bind names as parameters.
        """
        quoted_target = str(target).replace("'", "''")
        quoted_name = self.path.stem.replace('"', '""')
        with self._borrow_connection(self._idle_connections) as connection:
            connection.execute(f"attach '{quoted_target}' as copied")
            try:
                connection.execute(f'copy from database "{quoted_name}" to copied')
                complete(connection, "copied")
            finally:
                connection.execute("detach copied")

    def close(self) -> None:
        """Closes the database. DuckDB makes a checkpoint when its last connection is closed."""
        with self._checkpoint_lock, self._lock:
            if self._root_connection is None:
                return
            try:
                self._save_metadata(self._root_connection)
            except (duckdb.Error, StoreUnavailable):  # the write-ahead log stays, and the next start applies it
                with suppress(duckdb.Error):
                    self._root_connection.execute("pragma disable_checkpoint_on_shutdown")
                self._close_connections()
            else:
                self._close_connections()
                get_copy_path(self.path).unlink(missing_ok=True)

    @contextmanager
    def _transaction(self, begin_statement: str, idle_connections: list[DuckConnection]) -> Iterator[DuckConnection]:
        with self._borrow_connection(idle_connections) as connection:
            connection.execute(begin_statement)
            try:
                yield connection
                connection.commit()
            except BaseException:
                with suppress(duckdb.Error):
                    connection.rollback()
                raise

    @contextmanager
    def _borrow_connection(self, idle_connections: list[DuckConnection]) -> Iterator[DuckConnection]:
        try:
            with self._lock:
                connection = self._acquire_connection(idle_connections)
                self._used_connections += 1
        except duckdb.Error as error:
            raise _translate_error(error) from error
        try:
            yield connection
        except duckdb.Error as error:
            with self._lock:
                connection.close()
                if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                    self._close_connections()
            raise _translate_error(error) from error
        except BaseException:
            connection.close()
            raise
        else:
            idle_connections.append(connection)
        finally:
            with self._lock:
                self._used_connections -= 1

    def _acquire_connection(self, idle_connections: list[DuckConnection]) -> DuckConnection:
        if idle_connections:
            return idle_connections.pop()
        if self._root_connection is None:
            self._root_connection = self._connect()
        connection = self._root_connection.cursor()
        connection.execute("set enable_progress_bar = false")
        connection.execute(load_sql("functions"))
        return connection

    def _connect(self) -> DuckConnection:
        if restore_metadata_blocks(self.path):
            log.warning("a checkpoint of %s was interrupted; it is undone, and nothing is lost", self.path)
        try:
            connection = duckdb.connect(str(self.path), config=self._config)
        except duckdb.Error as error:
            raise _translate_error(error) from error
        self._metadata_blocks = MetadataBlocks(self.path)
        get_copy_path(self.path).unlink(missing_ok=True)
        return connection

    def _save_metadata(self, connection: DuckConnection) -> None:
        """Copies what a checkpoint will overwrite."""
        blocks = [block for (block,) in connection.execute(SELECT_METADATA_BLOCKS).fetchall()]
        try:
            if self._metadata_blocks is not None:
                self._metadata_blocks.save(blocks)
        except OSError as error:
            raise StoreFull if error.errno == errno.ENOSPC else StoreUnavailable from error

    def _close_connections(self) -> None:
        """Closes all connections. DuckDB releases a file when its last connection is closed.

        A connection that another thread is using cannot be closed. That thread closes it, or returns it for later use.
        """
        root_connection, self._root_connection = self._root_connection, None
        for idle_connections in (self._idle_connections, self._idle_fold_connections):
            closed = [*idle_connections]
            idle_connections.clear()
            for connection in closed:
                with suppress(duckdb.Error):
                    connection.close()
        if root_connection is not None:
            with suppress(duckdb.Error):
                root_connection.close()
        if self._metadata_blocks is not None:
            self._metadata_blocks.close()
            self._metadata_blocks = None


def read_schema_version(connection: DuckConnection) -> int | None:
    """Returns the schema version of a file, or None if it has no tables."""
    if not connection.execute("select 1 from duckdb_tables() where table_name = 'marks'").fetchall():
        return None
    rows = connection.execute("select value from marks where name = 'schema'").fetchall()
    return int(rows[0][0]) if rows else None


def _prepare_schema(connection: DuckConnection) -> None:
    """Creates the tables in a new file. Raises StoreSchemaNewer if a newer version of Copydesk has created them."""
    version = read_schema_version(connection)
    if version is None:
        connection.execute(load_sql("schema"))
        connection.execute("insert into marks values ('schema', $schema)", {"schema": DUCKDB_SCHEMA_VERSION})
    elif version > DUCKDB_SCHEMA_VERSION:
        raise StoreSchemaNewer


def _translate_error(error: duckdb.Error) -> StoreUnavailable | duckdb.Error:
    """Returns an error that tells the operator what to do.

    Returns errors of our code, such as invalid SQL, unchanged.
    """
    message = str(error)
    if "Could not set lock on file" in message:
        return StoreInUse()
    if "orrupt" in message or isinstance(error, duckdb.SerializationException):
        return StoreDamaged()
    if "Could not write" in message or "No space left" in message:
        return StoreFull()
    if isinstance(error, duckdb.OperationalError | duckdb.FatalException | duckdb.InternalException):
        return StoreUnavailable()
    return error
