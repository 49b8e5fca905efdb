"""The PostgreSQL engine. Every exchange with the server has a timeout, in case the server or the network fails."""

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from sqlalchemy import Engine, ExceptionContext, create_engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

T = TypeVar("T")

CONNECT_SECONDS = 5
IDLE_TRANSACTION_SECONDS = 5
"""A process that is paused or disconnected during a transaction blocks others for at most this long."""
STATEMENT_TIMEOUT_SECONDS = 10
"""Longer than IDLE_TRANSACTION_SECONDS, since a statement may wait for such a process."""
PING_SECONDS = 5
COOLDOWN_SECONDS = 2
READ_ONLY_SQLSTATE = "25006"


class TimedConnection(psycopg.Connection[Any]):
    """A connection that times out when the server accepts a query and never replies.

    TCP does not detect that, so psycopg alone would wait forever.
    """

    reply_timeout: float = STATEMENT_TIMEOUT_SECONDS + 2
    """A little longer than the statement timeout, so that the server aborts the statement first."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        started_at = time.monotonic()
        try:
            return super().wait(gen, interval, self.reply_timeout)
        except psycopg.OperationalError:
            if time.monotonic() - started_at >= self.reply_timeout:
                self.pgconn.finish()  # a late reply would be taken for that of the next query
            raise


def create_postgres_engine(url: str) -> Engine:
    driver_url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    engine_options: dict[str, Any] = {"pool_size": 10, "max_overflow": 20, "pool_timeout": 10}
    engine_options["hide_parameters"] = True  # errors would put prompts and email addresses into the log
    idle_timeout_ms = IDLE_TRANSACTION_SECONDS * 1000
    server_options = {
        "idle_in_transaction_session_timeout": idle_timeout_ms,
        "tcp_user_timeout": idle_timeout_ms,
        "statement_timeout": STATEMENT_TIMEOUT_SECONDS * 1000,
    }
    client_options = {
        "tcp_user_timeout": idle_timeout_ms,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
    }
    options = " ".join(f"-c {name}={value}" for name, value in server_options.items())
    engine = create_engine(
        driver_url,
        connect_args={"connect_timeout": CONNECT_SECONDS, **client_options, "options": options},
        **engine_options,
    )

    unavailable_until = 0.0

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, args: Any, kwargs: Any) -> TimedConnection:
        """Connects, or fails at once if a connection timed out a moment ago (circuit breaker).

        Otherwise each caller would block a thread that other requests need.
        """
        nonlocal unavailable_until
        if time.monotonic() < unavailable_until:
            raise psycopg.OperationalError("PostgreSQL did not answer a moment ago")
        try:
            return TimedConnection.connect(*args, **kwargs)
        except psycopg.errors.ConnectionTimeout:
            unavailable_until = time.monotonic() + COOLDOWN_SECONDS
            raise

    @event.listens_for(engine, "checkout")
    def _ping(connection: TimedConnection, record: ConnectionPoolEntry, _proxy: Any) -> None:
        """Checks a connection with an empty query and a short timeout, which SQLAlchemy's own check does not have.

        If a used connection fails, the pool is invalidated and a new connection is tried. If a new one fails, its error
        is raised.
        """
        connection.reply_timeout = PING_SECONDS
        try:
            engine.dialect.do_ping(connection)  # type: ignore[arg-type]
        except psycopg.Error as error:
            if "answered" in record.info:
                raise InvalidatePoolError from error
            raise
        record.info["answered"] = True
        connection.reply_timeout = TimedConnection.reply_timeout

    event.listen(engine, "handle_error", _disconnect_from_replica)
    event.listen(engine, "handle_error", _redact_server_details)
    return engine


def _disconnect_from_replica(context: ExceptionContext) -> None:
    """Treats a read-only error as a disconnect, so that the pool connects again, to the new primary.

    After a failover the connections to the old primary still work, but accept no changes.
    """
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY_SQLSTATE:
        context.is_disconnect = True


def _redact_server_details(context: ExceptionContext) -> None:
    """Removes the details that the server adds to an error, so that they do not reach the log.

    They quote rows, such as an email address that exists already.
    """
    error = context.original_exception
    sqlalchemy_error = context.sqlalchemy_exception
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        error.args = (error.diag.message_primary,)
        if sqlalchemy_error is not None:
            sqlalchemy_error.args = (f"({type(error).__name__}) {error.diag.message_primary}",)
