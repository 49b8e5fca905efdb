"""The database layer over SQLite and PostgreSQL: short transactions, the database's clock, and notifications."""

import sqlite3
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.sql.elements import ColumnElement, literal_column

from copydesk.core.db.group_commit import GroupCommitWriter
from copydesk.core.db.notifications import Notifications, PostgresNotifications, SqliteNotifications
from copydesk.core.errors import DiskFull, StoreUnavailable
from copydesk.core.runtime.batches import split_into_batches
from copydesk.core.settings import BadSettings

BUSY_TIMEOUT_SECONDS = 30
LONG_STATEMENT_SECONDS = 24 * 3600
# PostgreSQL's classes of transient errors: connection, read-only or aborted transaction, resources, shutdown.
TRANSIENT_SQLSTATE_CLASSES = ("08", "25", "53", "57")
DISK_FULL_SQLSTATE = "53100"
COMMITS_PER_CHECKPOINT = 250
MAX_IDS_PER_STATEMENT = 500
CLOCK_SQL = {
    "sqlite": "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
    "postgresql": "cast(extract(epoch from clock_timestamp()) * 1000 as bigint)",
}


def batch_ids(ids: Collection[str]) -> Iterator[list[str]]:
    """Returns the ids in batches that fit into one statement."""
    return split_into_batches(ids, MAX_IDS_PER_STATEMENT)


class Database:
    """The main database. `read` and `write` each open a transaction.

    Writers on SQLite queue in this process instead of in SQLite's busy loop.
    """

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _create_sqlite_engine(str(self.url.database)) if self.is_sqlite else _create_postgres_engine(url)
        self.clock_sql = CLOCK_SQL[self.engine.dialect.name]
        self.now: ColumnElement[int] = literal_column(self.clock_sql, BigInteger)
        self.notifications: Notifications = (
            SqliteNotifications(self.engine) if self.is_sqlite else PostgresNotifications(self.engine)
        )
        self._writer = GroupCommitWriter(self.engine) if self.is_sqlite else None
        self._commit_count = 0
        self._counter_connection: Any = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with _translate_errors(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Opens a transaction that commits, or rolls back on an error. Notifications go out with the commit."""
        if self._writer is None:
            with _translate_errors(), self.engine.begin() as connection:
                yield connection
            return
        with _translate_errors(), self._writer.write() as connection:
            topics = connection.info["topics"] = []
            yield connection
        for topic in topics:
            self.notifications.wake(topic)
        self._commit_count += 1
        if self._commit_count % COMMITS_PER_CHECKPOINT == 0:
            threading.Thread(target=self._checkpoint, name="checkpoint", daemon=True).start()

    @contextmanager
    def without_statement_timeout(self, tx: Connection) -> Iterator[None]:
        """Disables the statement timeout in a transaction, for long statements such as those of a migration."""
        if self.is_sqlite:
            yield
            return
        tx.execute(text("set local statement_timeout = 0"))
        driver: Any = tx.connection.driver_connection
        driver.reply_timeout = LONG_STATEMENT_SECONDS  # until the next checkout from the pool
        yield

    def _checkpoint(self) -> None:
        """Moves SQLite's write-ahead log into the database in the background, so that no commit has to."""
        with suppress(DBAPIError), self.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")

    def read_change_counter(self) -> int | None:
        """Returns a number that changes with every commit of any process; None on PostgreSQL, which has none."""
        if not self.is_sqlite:
            return None
        try:
            if self._counter_connection is None:
                self._counter_connection = self.engine.raw_connection()
            return int(self._counter_connection.cursor().execute("PRAGMA data_version").fetchone()[0])
        except (sqlite3.OperationalError, PoolTimeout) as error:
            raise StoreUnavailable from error

    def notify(self, connection: Connection, topic: str) -> None:
        """Wakes all waiters for this topic, in all processes, when the transaction commits."""
        self.notifications.send(connection, topic)

    def close(self) -> None:
        self.notifications.close()
        if self._writer is not None:
            self._writer.close()
        if self._counter_connection is not None:
            self._counter_connection.close()
        self.engine.dispose()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, PoolTimeout, sqlite3.OperationalError) as error:
        if isinstance(error, DBAPIError) and not _is_transient(error):
            raise
        raise (DiskFull if _is_disk_full(error) else StoreUnavailable)() from error


def _is_transient(error: DBAPIError) -> bool:
    sqlstate = getattr(error.orig, "sqlstate", None) or ""
    is_transient = isinstance(error, OperationalError | InterfaceError) or sqlstate.startswith(
        TRANSIENT_SQLSTATE_CLASSES
    )
    return is_transient or error.connection_invalidated


def _is_disk_full(error: Exception) -> bool:
    return "disk is full" in str(error) or getattr(getattr(error, "orig", None), "sqlstate", None) == DISK_FULL_SQLSTATE


def _create_sqlite_engine(path: str) -> Engine:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    busy_timeout = {"timeout": BUSY_TIMEOUT_SECONDS}
    # Errors leave out the parameters of statements, which would put prompts and email addresses into the log.
    # LIFO: a few connections do most of the reading, and their page caches stay warm.
    engine = create_engine(
        f"sqlite:///{path}",
        pool_size=16, max_overflow=48, pool_use_lifo=True, connect_args=busy_timeout, hide_parameters=True,
    )  # fmt: skip

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves; the driver would guess
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-2000",
                       "wal_autocheckpoint=20000"):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get("immediate"):  # a reader's single statements need no transaction
            driver: Any = connection.connection.driver_connection
            driver.execute("BEGIN IMMEDIATE")

    return engine


def _create_postgres_engine(url: str) -> Engine:
    try:
        from copydesk.core.db.postgres import create_postgres_engine
    except ModuleNotFoundError:
        raise BadSettings(
            "COPYDESK_DATABASE_URL: the PostgreSQL driver is missing; install Copydesk with the extra 'postgres'"
        ) from None
    return create_postgres_engine(url)
