"""Group commit for SQLite: writers run one after another, and queued writers share one commit."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine

MAX_WRITES_PER_COMMIT = 16


class GroupCommitWriter:
    """Runs one writer at a time. Queued writers share one transaction, which the last of them commits.

    `write` returns only after the commit that contains its changes.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._write_lock = threading.Lock()
        self._waiting_lock = threading.Lock()
        self._waiting_writers = 0
        self._batch: _CommitBatch | None = None
        self._connection: Connection | None = None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self._hold_write_lock():
            batch = self._batch = self._batch or _CommitBatch(self._get_connection())
            try:
                batch.writes += 1
                with _savepoint(batch.connection):
                    yield batch.connection
            finally:
                if (
                    not self._waiting_writers
                    or batch.writes >= MAX_WRITES_PER_COMMIT
                    or not _in_transaction(batch.connection)
                ):
                    self._batch = None
                    batch.commit()
        batch.done.wait()
        if batch.error is not None:
            raise batch.error

    def close(self) -> None:
        with self._write_lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _get_connection(self) -> Connection:
        """Returns the connection that all writers share, which saves a checkout from the pool for each write."""
        if self._connection is None or self._connection.closed:
            self._connection = self._engine.connect().execution_options(immediate=True)
        return self._connection

    @contextmanager
    def _hold_write_lock(self) -> Iterator[None]:
        with self._waiting_lock:
            self._waiting_writers += 1
        with self._write_lock:
            with self._waiting_lock:
                self._waiting_writers -= 1
            yield


class _CommitBatch:
    """A transaction that is passed from writer to writer. A write that fails is rolled back alone."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        try:
            self.transaction = connection.begin()
        except BaseException:
            connection.close()
            raise
        self.writes = 0
        self.done = threading.Event()
        self.error: Exception | None = None

    def commit(self) -> None:
        """Commits the batch. If that fails, every writer of the batch raises the error."""
        try:
            _require_transaction(self.connection)
            self.transaction.commit()
        except Exception as error:
            self.error = error
            self.connection.invalidate()  # closing it reliably ends the transaction
            self.connection.close()
        finally:
            self.done.set()


@contextmanager
def _savepoint(connection: Connection) -> Iterator[None]:
    """Runs the body in a savepoint, which is rolled back if the body raises."""
    driver: Any = connection.connection.driver_connection
    _require_transaction(connection)
    driver.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if _in_transaction(connection):
            driver.execute("ROLLBACK TO part")
        raise
    finally:
        if _in_transaction(connection):
            driver.execute("RELEASE part")


def _in_transaction(connection: Connection) -> bool:
    """Returns whether the transaction is still open.

    SQLite rolls back the whole transaction when the disk is full or fails, or when memory runs out.
    """
    driver: Any = connection.connection.driver_connection
    return bool(driver.in_transaction)


def _require_transaction(connection: Connection) -> None:
    if not _in_transaction(connection):
        raise sqlite3.OperationalError("SQLite rolled the transaction back")
