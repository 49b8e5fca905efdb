"""SQLite's writers, one after another. Those that wait for their turn anyway share one commit."""

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

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with self._my_turn():
            batch = self._batch = self._batch or _Batch(self._engine)
            try:
                with batch.part():
                    yield batch.connection
            finally:
                if not self._waiting or batch.parts >= MOST_TOGETHER:
                    self._batch = None
                    batch.commit()
        batch.done.wait()
        if batch.error is not None:
            raise batch.error

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

    def __init__(self, engine: Engine) -> None:
        self.connection = engine.connect().execution_options(immediate=True)
        try:
            self.transaction = self.connection.begin()
        except BaseException:
            self.connection.close()
            raise
        self.parts = 0
        self.done = threading.Event()
        self.error: Exception | None = None

    @contextmanager
    def part(self) -> Iterator[None]:
        self.parts += 1
        driver: Any = self.connection.connection.driver_connection
        driver.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            driver.execute("ROLLBACK TO part")
            raise
        finally:
            driver.execute("RELEASE part")

    def commit(self) -> None:
        """An error is everybody's: each writer of the batch raises it."""
        try:
            self.transaction.commit()
        except Exception as error:
            self.error = error
            self.connection.invalidate()  # closing it is what surely ends the transaction
        finally:
            self.connection.close()
            self.done.set()
