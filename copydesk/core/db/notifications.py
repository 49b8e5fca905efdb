"""Notifications: a transaction sends a topic, and the waiters for that topic read the database again."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger(__name__)

CHANNEL = "copydesk"
POLL_SECONDS = 0.5
CHECK_SECONDS = 5.0
LISTENER_TIMEOUT_SECONDS = 3.0
ANY_TOPIC = "*"


class Notifications(ABC):
    """Wakes waiters. A notification is only a hint: a waiter that wakes or times out reads the database."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._changed = threading.Condition()
        self._send_counts = {ANY_TOPIC: 0}
        self._subscribers: list[Callable[[str], object]] = []
        self._closing = threading.Event()
        self._listener: threading.Thread | None = None

    @abstractmethod
    def send(self, connection: Connection, topic: str) -> None: ...

    @abstractmethod
    def _listen(self) -> None:
        """Receives the notifications of other processes. Runs in a separate thread until closing."""

    def mark(self, topic: str) -> int:
        """Returns a mark for `wait`. Take it before reading the database, to miss no later notification."""
        with self._changed:
            self._send_counts.setdefault(topic, 0)
            return self._send_counts[topic] + self._send_counts[ANY_TOPIC]

    def wait(self, topic: str, mark: int, seconds: float) -> bool:
        """Waits for the topic. Returns True if it was sent since the mark, False if the time is over."""
        self._start_listener()
        with self._changed:
            return self._changed.wait_for(
                lambda: self._send_counts[topic] + self._send_counts[ANY_TOPIC] != mark, seconds
            )

    @contextmanager
    def subscribe(self, callback: Callable[[str], object]) -> Iterator[None]:
        """Calls back with every topic that is sent, or with ANY_TOPIC if the topic is unknown.

        The callback runs in the thread that sent or received the notification, so it must be quick.
        """
        self._start_listener()
        with self._changed:
            self._subscribers.append(callback)
        try:
            yield
        finally:
            with self._changed:
                self._subscribers.remove(callback)

    def wake(self, topic: str) -> None:
        with self._changed:
            if topic in self._send_counts:
                self._send_counts[topic] += 1
                self._changed.notify_all()
            for callback in self._subscribers:
                callback(topic)

    @property
    def is_closing(self) -> bool:
        """Returns whether loops that wait should stop."""
        return self._closing.is_set()

    def stop(self) -> None:
        """Wakes all waiters a last time; from now on `is_closing` is true."""
        self._closing.set()
        self.wake(ANY_TOPIC)

    def close(self) -> None:
        self.stop()
        if self._listener is not None:
            self._listener.join(timeout=5)

    def _start_listener(self) -> None:
        with self._changed:
            if self._listener is None and not self._closing.is_set():
                self._listener = threading.Thread(target=self._listen, name="signals", daemon=True)
                self._listener.start()


class SqliteNotifications(Notifications):
    """Notifies the threads of this process at once, and polls SQLite's change counter for commits of other processes.

    The counter also changes with commits of this process, which only wakes the waiters once more.
    """

    def send(self, connection: Connection, topic: str) -> None:
        connection.info["topics"].append(topic)

    def _listen(self) -> None:
        connection: Any = self.engine.raw_connection()
        try:
            counter = _read_change_counter(connection)  # before the loop, to miss no later commit
            while not self._closing.wait(POLL_SECONDS):
                new_counter = _read_change_counter(connection)
                if new_counter != counter:
                    self.wake(ANY_TOPIC)
                counter = new_counter
        except Exception:
            log.warning("no longer receives notifications of other processes; waiters poll instead", exc_info=True)
        finally:
            connection.close()


def _read_change_counter(connection: Any) -> int:
    (counter,) = connection.cursor().execute("PRAGMA data_version").fetchone()
    return int(counter)


class PostgresNotifications(Notifications):
    """Uses LISTEN and NOTIFY: the server delivers a topic when the sender's transaction commits."""

    def send(self, connection: Connection, topic: str) -> None:
        connection.execute(text("select pg_notify(:channel, :topic)"), {"channel": CHANNEL, "topic": topic})

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen_once()
            except Exception as error:
                is_connection_error = isinstance(error, SQLAlchemyError | self.engine.dialect.loaded_dbapi.Error)
                log.warning(
                    "lost the connection to PostgreSQL; listening again shortly", exc_info=not is_connection_error
                )
                self._closing.wait(1)
                self.wake(ANY_TOPIC)

    def _listen_once(self) -> None:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            driver: Any = connection.connection.driver_connection
            connection.detach()  # a listening connection cannot be shared, so it leaves the pool
            driver.reply_timeout = LISTENER_TIMEOUT_SECONDS
            connection.execute(text(f"listen {CHANNEL}"))
            self.wake(ANY_TOPIC)
            last_checked_at = time.monotonic()
            while not self._closing.is_set():
                for notification in driver.notifies(timeout=POLL_SECONDS, stop_after=1):
                    self.wake(notification.payload)
                if time.monotonic() - last_checked_at > CHECK_SECONDS:  # a silent connection may be broken
                    connection.execute(text("select 1"))
                    last_checked_at = time.monotonic()
