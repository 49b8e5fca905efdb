"""SQLite's writers, one after another. Those that wait for their turn anyway share one commit."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine

MOST_TOGETHER = 16


class Writer:
    """Whoever finds nobody waiting behind commits for all before it; nobody returns before its own commit."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._waiting = 0
        self._batch: _Batch | None = None
        self._connection: Connection | None = None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self._my_turn():
            batch = self._batch = self._batch or _Batch(self._kept())
            try:
                batch.parts += 1
                with part_of(batch.connection):
                    yield batch.connection
            finally:
                if not self._waiting or batch.parts >= MOST_TOGETHER or not _is_open(batch.connection):
                    self._batch = None
                    batch.commit()
        batch.done.wait()
        if batch.error is not None:
            raise batch.error

    def close(self) -> None:
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _kept(self) -> Connection:
        """One connection serves all: to take one from the pool and give it back costs as much as two statements."""
        if self._connection is None or self._connection.closed:
            self._connection = self._engine.connect().execution_options(immediate=True)
        return self._connection

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        with self._counting:
            self._waiting += 1
        with self._turn:
            with self._counting:
                self._waiting -= 1
            yield


class _Batch:
    """One transaction, handed from writer to writer. A part that fails is taken back alone."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        try:
            self.transaction = connection.begin()
        except BaseException:
            connection.close()
            raise
        self.parts = 0
        self.done = threading.Event()
        self.error: Exception | None = None

    def commit(self) -> None:
        """An error is everybody's: each writer of the batch raises it."""
        try:
            _refuse_unless_open(self.connection)
            self.transaction.commit()
        except Exception as error:
            self.error = error
            self.connection.invalidate()  # closing it is what surely ends the transaction
            self.connection.close()
        finally:
            self.done.set()


@contextmanager
def part_of(connection: Connection) -> Iterator[None]:
    """A part of a transaction that can be taken back alone."""
    driver: Any = connection.connection.driver_connection
    _refuse_unless_open(connection)
    driver.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if _is_open(connection):
            driver.execute("ROLLBACK TO part")
        raise
    finally:
        if _is_open(connection):
            driver.execute("RELEASE part")


def _is_open(connection: Connection) -> bool:
    """SQLite takes the whole transaction back by itself when the disk is full, fails, or memory runs out."""
    driver: Any = connection.connection.driver_connection
    return bool(driver.in_transaction)


def _refuse_unless_open(connection: Connection) -> None:
    if not _is_open(connection):
        raise sqlite3.OperationalError("SQLite took the transaction back")
