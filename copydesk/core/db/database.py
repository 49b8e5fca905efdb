"""One database layer on SQLite and PostgreSQL: short transactions, the database's own clock, and waking by signal."""

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.sql.elements import ColumnElement, literal_column

from copydesk.core.db.group_commit import Writer, part_of
from copydesk.core.db.notifications import PostgresSignals, Signals, SqliteSignals
from copydesk.core.errors import NoRoom, StoreDown
from copydesk.core.settings import BadSettings

T = TypeVar("T")

BUSY_SECONDS = 30
UNHURRIED_SECONDS = 24 * 3600
# PostgreSQL's classes of errors that pass: connection, read-only or aborted transaction, resources, shutdown.
PASSING = ("08", "25", "53", "57")
DISK_FULL = "53100"
CHECKPOINT_EVERY = 250
MAX_IDS = 500
CLOCKS = {
    "sqlite": "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
    "postgresql": "cast(extract(epoch from clock_timestamp()) * 1000 as bigint)",
}


def batched(ids: Collection[str]) -> Iterator[list[str]]:
    """Yields the ids in parts that one statement can name."""
    listed = list(ids)
    for start in range(0, len(listed), MAX_IDS):
        yield listed[start : start + MAX_IDS]


class Database:
    """`read` and `write` open a transaction each. SQLite's writers queue here, not in its busy loop."""

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(str(self.url.database)) if self.is_sqlite else _postgres_engine(url)
        self.clock = CLOCKS[self.engine.dialect.name]
        self.now: ColumnElement[int] = literal_column(self.clock, BigInteger)
        self.signals: Signals = SqliteSignals(self.engine) if self.is_sqlite else PostgresSignals(self.engine)
        self._writer = Writer(self.engine) if self.is_sqlite else None
        self._together = threading.local()
        self._commits = 0
        self._watching: Any = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with _store_errors(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Commits at the end, or rolls back. Signals sent inside go out with the commit."""
        if self._writer is None:
            with _store_errors(), self.engine.begin() as connection:
                yield connection
            return
        shared: Connection | None = getattr(self._together, "connection", None)
        if shared is not None:
            with _store_errors(), part_of(shared):
                yield shared
            return
        with _store_errors(), self._writer.write() as connection:
            topics = connection.info["topics"] = []
            yield connection
        for topic in topics:
            self.signals.wake(topic)
        self._commits += 1
        if self._commits % CHECKPOINT_EVERY == 0:
            threading.Thread(target=self._checkpoint, name="checkpoint", daemon=True).start()

    @contextmanager
    def unhurried(self, tx: Connection) -> Iterator[None]:
        """For what may rightly take long, such as a migration: its statements are not given up after a while."""
        if self.is_sqlite:
            yield
            return
        tx.execute(text("set local statement_timeout = 0"))
        line: Any = tx.connection.driver_connection
        line.patience = UNHURRIED_SECONDS  # until it is taken from the pool again
        yield

    def together(self, acts: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Lets several acts, each of which writes, share one transaction of SQLite; what fails is taken back alone.

        An act must not read what it wrote once its own `write` ended: it is committed with the others, at the end."""
        outcomes: list[T | Exception] = []
        with self.write() as self._together.connection:
            try:
                for act in acts:
                    try:
                        outcomes.append(act())
                    except Exception as error:
                        outcomes.append(error)
            finally:
                self._together.connection = None
        return outcomes

    def _checkpoint(self) -> None:
        """Moves SQLite's log into its database beside the work, which would otherwise stop for it now and then."""
        with suppress(DBAPIError), self.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")

    def version(self) -> int | None:
        """Another number after every commit of whichever process; None on PostgreSQL, which has no such counter."""
        if not self.is_sqlite:
            return None
        try:
            if self._watching is None:
                self._watching = self.engine.raw_connection()
            return int(self._watching.cursor().execute("PRAGMA data_version").fetchone()[0])
        except (sqlite3.OperationalError, PoolTimeout) as error:
            raise StoreDown from error

    def notify(self, connection: Connection, topic: str) -> None:
        """Wakes whoever waits for this topic, in any process, once the transaction is committed."""
        self.signals.send(connection, topic)

    def close(self) -> None:
        self.signals.close()
        if self._writer is not None:
            self._writer.close()
        if self._watching is not None:
            self._watching.close()
        self.engine.dispose()


@contextmanager
def _store_errors() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, PoolTimeout, sqlite3.OperationalError) as error:
        if isinstance(error, DBAPIError) and not _is_passing(error):
            raise
        raise (NoRoom if _is_full(error) else StoreDown)() from error


def _is_passing(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None) or ""
    is_passing = isinstance(error, OperationalError | InterfaceError) or state.startswith(PASSING)
    return is_passing or error.connection_invalidated


def _is_full(error: Exception) -> bool:
    return "disk is full" in str(error) or getattr(getattr(error, "orig", None), "sqlstate", None) == DISK_FULL


def _sqlite_engine(path: str) -> Engine:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    busy = {"timeout": BUSY_SECONDS}
    # What is bound to a statement is never told: an error would take prompts and e-mail addresses into the log.
    # Few connections do most of the reading, and keep the pages that they read: the one used last is used next.
    engine = create_engine(
        f"sqlite:///{path}",
        pool_size=16, max_overflow=48, pool_use_lifo=True, connect_args=busy, hide_parameters=True,
    )  # fmt: skip

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-2000",
                       "wal_autocheckpoint=20000"):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get("immediate"):  # a reader's single statements need no transaction
            driver: Any = connection.connection.driver_connection
            driver.execute("BEGIN IMMEDIATE")

    return engine


def _postgres_engine(url: str) -> Engine:
    try:
        from copydesk.core.db.postgres import postgres_engine
    except ModuleNotFoundError:
        raise BadSettings(
            "COPYDESK_DATABASE_URL: PostgreSQL needs its driver: install Copydesk with its extra 'postgres'"
        ) from None
    return postgres_engine(url)
