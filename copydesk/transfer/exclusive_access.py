"""A database, or a folder's analytics, for one process alone: what is moved or replaced must have nobody else at it."""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from copydesk.analytics.stores.shared.server import LOCK_FILE
from copydesk.core.db.database import LONG_STATEMENT_SECONDS, Database
from copydesk.core.errors import UserFacingError

LOCK_TIMEOUT_SECONDS = 1.0
"""Seconds for processes that are just ending."""
COUNT_OTHER_CONNECTIONS = text(
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and usename = current_user and pid <> pg_backend_pid()"
)


class DatabaseInUse(UserFacingError):
    message = "Something still uses this database: stop every 'copydesk serve' and 'copydesk work', and try again."


class DatabaseFailed(UserFacingError):
    """The database could not do it; the message says why."""


@contextmanager
def exclusive_connection(url: str) -> Iterator[Connection]:
    """A connection, outside of a transaction, beside which nobody else has one. On SQLite nobody gets one meanwhile."""
    engine = _sqlite_engine(str(make_url(url).database)) if url.startswith("sqlite") else Database(url).engine
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                _disable_timeouts(connection)
                _refuse_other_connections(connection)
            yield connection
    except (DBAPIError, sqlite3.Error) as error:
        reason = str(getattr(error, "orig", error)).strip().partition("\n")[0]
        if "database is locked" in reason:
            raise DatabaseInUse from None
        raise DatabaseFailed(f"The database could not do it: {reason}.") from error
    finally:
        engine.dispose()


def is_database_missing(url: str) -> bool:
    """A file of SQLite is made by whoever looks into it; whether there is a PostgreSQL, it tells itself."""
    return url.startswith("sqlite") and not Path(str(make_url(url).database)).exists()


@contextmanager
def exclusive_analytics_access(folder: Path) -> Iterator[None]:
    """Nobody has the folder's DuckDB file open, nor can open it."""
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DatabaseInUse(
                f"Something still runs on {folder}: stop every 'copydesk serve' and 'copydesk work', and try again."
            ) from None
        yield
    finally:
        os.close(lock)


def _sqlite_engine(path: str) -> Engine:
    """Every open connection of another process stands in the way of this one, and this one in theirs."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None)
        try:
            for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("COMMIT")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=StaticPool)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.execute("BEGIN")

    return engine


def _disable_timeouts(connection: Connection) -> None:
    """Nobody waits behind this one, so nothing of it needs to be given up after seconds."""
    driver: Any = connection.connection.driver_connection
    driver.reply_timeout = LONG_STATEMENT_SECONDS
    with connection.begin():
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
            connection.exec_driver_sql(f"set {setting} = 0")


def _refuse_other_connections(connection: Connection) -> None:
    """By the role: an administrator may look on. The pool of a process that ended is closed within moments."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        with connection.begin():
            if not connection.execute(COUNT_OTHER_CONNECTIONS).scalar():
                return
        if time.monotonic() > deadline:
            raise DatabaseInUse
        time.sleep(0.1)
