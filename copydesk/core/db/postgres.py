"""PostgreSQL's engine: every exchange with the server ends in time, whatever becomes of the server or the network."""

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
"""A process that is paused or cut off in mid-transaction must not hold up the others for longer."""
STATEMENT_TIMEOUT_SECONDS = 10
"""Longer than a statement may wait for such a process."""
PING_SECONDS = 5
COOLDOWN_SECONDS = 2
READ_ONLY_SQLSTATE = "25006"


class TimedConnection(psycopg.Connection[Any]):
    """Gives a server up that took a question and never answers. To TCP that is no fault, so it would wait for ever."""

    reply_timeout: float = STATEMENT_TIMEOUT_SECONDS + 2
    """The server itself gives up a little before, so that nothing goes on there that nobody waits for."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        started_at = time.monotonic()
        try:
            return super().wait(gen, interval, self.reply_timeout)
        except psycopg.OperationalError:
            if time.monotonic() - started_at >= self.reply_timeout:
                self.pgconn.finish()  # its answer may come yet, and would be taken for another one's
            raise


def create_postgres_engine(url: str) -> Engine:
    driver_url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    engine_options: dict[str, Any] = {"pool_size": 10, "max_overflow": 20, "pool_timeout": 10}
    engine_options["hide_parameters"] = True  # an error would take prompts and e-mail addresses into the log
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
        """While the server is silent most are told so at once: each has a thread that others wait for."""
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
        """SQLAlchemy's own way has no end where the line is dead; an answer to nothing comes soon or not at all. A line
        that was made just now has no better one behind it: its error is the server's."""
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
    """A server that takes no changes was the primary before: its lines work, and are given up for ones to the new."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY_SQLSTATE:
        context.is_disconnect = True


def _redact_server_details(context: ExceptionContext) -> None:
    """What the server adds to an error quotes rows, such as an e-mail address that was there: not for the log."""
    error, sqlalchemy_error = context.original_exception, context.sqlalchemy_exception
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        error.args = (error.diag.message_primary,)
        if sqlalchemy_error is not None:
            sqlalchemy_error.args = (f"({type(error).__name__}) {error.diag.message_primary}",)
