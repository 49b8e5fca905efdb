"""Exclusive access to a database or to a folder's analytics, while its data is moved or replaced."""

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
"""How long to wait for processes that are about to end."""
COUNT_OTHER_CONNECTIONS = text(
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and usename = current_user and pid <> pg_backend_pid()"
)


class DatabaseInUse(UserFacingError):
    message = "The database is in use. Stop every 'copydesk serve' and 'copydesk work', then try again."


class DatabaseFailed(UserFacingError):
    """The database reported an error; the message contains it."""


@contextmanager
def exclusive_connection(url: str) -> Iterator[Connection]:
    """Opens the only connection to a database, outside a transaction. Raises DatabaseInUse if there are others.

    On SQLite no other process can connect meanwhile."""
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
        raise DatabaseFailed(f"The database reported an error: {reason}.") from error
    finally:
        engine.dispose()


def is_database_missing(url: str) -> bool:
    """Returns whether the SQLite file does not exist; connecting would create it.

    Returns False for PostgreSQL, where connecting fails if the database does not exist."""
    return url.startswith("sqlite") and not Path(str(make_url(url).database)).exists()


@contextmanager
def exclusive_analytics_access(folder: Path) -> Iterator[None]:
    """Locks the folder's DuckDB file, so that no other process can open it. Raises DatabaseInUse if one has it open."""
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DatabaseInUse(
                f"{folder} is in use. Stop every 'copydesk serve' and 'copydesk work', then try again."
            ) from None
        yield
    finally:
        os.close(lock)


def _sqlite_engine(path: str) -> Engine:
    """Returns an engine with one connection that locks the file exclusively.

    Connecting fails while another process has the file open."""

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
    """Turns off timeouts: copying may take long, and no other connection waits for this one."""
    driver: Any = connection.connection.driver_connection
    driver.reply_timeout = LONG_STATEMENT_SECONDS
    with connection.begin():
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
            connection.exec_driver_sql(f"set {setting} = 0")


def _refuse_other_connections(connection: Connection) -> None:
    """Raises DatabaseInUse if other connections of the same role stay open; an administrator may have another role.

    Waits a moment, since the connections of a process that has just ended take a moment to close."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        with connection.begin():
            if not connection.execute(COUNT_OTHER_CONNECTIONS).scalar():
                return
        if time.monotonic() > deadline:
            raise DatabaseInUse
        time.sleep(0.1)
