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
PAUSED_SECONDS = 5
"""A process that is paused or cut off in mid-transaction must not hold up the others for longer."""
ANSWER_SECONDS = 10
"""Longer than a statement may wait for such a process."""
PING_SECONDS = 5
REST_SECONDS = 2
READ_ONLY = "25006"


class Line(psycopg.Connection[Any]):
    """Gives a server up that took a question and never answers. To TCP that is no fault, so it would wait for ever."""

    patience: float = ANSWER_SECONDS + 2
    """The server itself gives up a little before, so that nothing goes on there that nobody waits for."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        began = time.monotonic()
        try:
            return super().wait(gen, interval, self.patience)
        except psycopg.OperationalError:
            if time.monotonic() - began >= self.patience:
                self.pgconn.finish()  # its answer may come yet, and would be taken for another one's
            raise


def postgres_engine(url: str) -> Engine:
    driver_url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    pool: dict[str, Any] = {"pool_size": 10, "max_overflow": 20, "pool_timeout": 10}
    pool["hide_parameters"] = True  # an error would take prompts and e-mail addresses into the log
    paused = PAUSED_SECONDS * 1000
    far = {
        "idle_in_transaction_session_timeout": paused,
        "tcp_user_timeout": paused,
        "statement_timeout": ANSWER_SECONDS * 1000,
    }
    near = {"tcp_user_timeout": paused, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
    options = " ".join(f"-c {name}={value}" for name, value in far.items())
    engine = create_engine(
        driver_url, connect_args={"connect_timeout": CONNECT_SECONDS, **near, "options": options}, **pool
    )

    silent_until = 0.0

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, arguments: Any, named: Any) -> Line:
        """While the server is silent most are told so at once: each has a thread that others wait for."""
        nonlocal silent_until
        if time.monotonic() < silent_until:
            raise psycopg.OperationalError("PostgreSQL did not answer a moment ago")
        try:
            return Line.connect(*arguments, **named)
        except psycopg.errors.ConnectionTimeout:
            silent_until = time.monotonic() + REST_SECONDS
            raise

    @event.listens_for(engine, "checkout")
    def _ping(line: Line, record: ConnectionPoolEntry, _proxy: Any) -> None:
        """SQLAlchemy's own way has no end where the line is dead; an answer to nothing comes soon or not at all. A line
        that was made just now has no better one behind it: its error is the server's."""
        line.patience = PING_SECONDS
        try:
            engine.dialect.do_ping(line)  # type: ignore[arg-type]
        except psycopg.Error as error:
            if "answered" in record.info:
                raise InvalidatePoolError from error
            raise
        record.info["answered"] = True
        line.patience = Line.patience

    event.listen(engine, "handle_error", _leave_replicas)
    event.listen(engine, "handle_error", _keep_details_back)
    return engine


def _leave_replicas(context: ExceptionContext) -> None:
    """A server that takes no changes was the primary before: its lines work, and are given up for ones to the new."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


def _keep_details_back(context: ExceptionContext) -> None:
    """What the server adds to an error quotes rows, such as an e-mail address that was there: not for the log."""
    error, told = context.original_exception, context.sqlalchemy_exception
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        error.args = (error.diag.message_primary,)
        if told is not None:
            told.args = (f"({type(error).__name__}) {error.diag.message_primary}",)
