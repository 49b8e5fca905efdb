"""The server of the shared store: owns the DuckDB file and answers calls of other processes over a socket."""

import fcntl
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.shared import protocol
from copydesk.analytics.stores.shared.client import StoreServerUnavailable
from copydesk.core.errors import RequestError, StoreUnavailable

log = logging.getLogger(__name__)

DUCKDB_FILE, LOCK_FILE, SOCKET_FILE = "analytics.duckdb", "analytics.lock", "analytics.sock"
CLOSE_TIMEOUT_SECONDS = 10.0


class StoreServer:
    """The only server of a data folder on this machine. Each connection has a thread, so that a slow client delays no
    other."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SOCKET_FILE
        self._condition = threading.Condition()
        self._active_calls = 0
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._closing = self._closed = False
        self._lock_fd = _acquire_lock(folder / LOCK_FILE)
        with ExitStack() as cleanup:
            cleanup.callback(os.close, self._lock_fd)
            self._store = _open_store(folder / DUCKDB_FILE)
            cleanup.callback(self._store.close)
            self._listener = _listen(self._path)
            cleanup.pop_all()
        self._accept_thread = threading.Thread(target=self._accept_connections, name="analytics socket", daemon=True)
        self._accept_thread.start()

    def call(self, method_name: str, arguments: Sequence[object]) -> Any:
        with self._track_call():
            return getattr(self._store, method_name)(*arguments)

    def close(self) -> None:
        """Closes the file, so that another process can open it. Finishes and answers the calls that it has received."""
        deadline = time.monotonic() + CLOSE_TIMEOUT_SECONDS
        self._path.unlink(missing_ok=True)
        with self._condition:
            self._closing = True
            connections = dict(self._connections)
        _shut_down(self._listener, socket.SHUT_RDWR)
        for connection in connections:
            # Data that has arrived is still read; sending more fails for the client.
            _shut_down(connection, socket.SHUT_RD)
        for thread in (self._accept_thread, *connections.values()):
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._condition:
            self._closed = True
            self._condition.wait_for(lambda: not self._active_calls, max(0.0, deadline - time.monotonic()))
        for connection in connections:
            _shut_down(connection, socket.SHUT_RDWR)
        self._listener.close()
        self._store.close()
        os.close(self._lock_fd)

    @contextmanager
    def _track_call(self) -> Iterator[None]:
        """Counts a running call.

        Raises StoreServerUnavailable after `close`, because a late call would reopen the file.
        """
        with self._condition:
            if self._closed:
                raise StoreServerUnavailable
            self._active_calls += 1
        try:
            yield
        finally:
            with self._condition:
                self._active_calls -= 1
                self._condition.notify_all()

    def _accept_connections(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._listener.accept()
                threading.Thread(
                    target=self._serve_connection, args=(connection,), name="analytics-connection", daemon=True
                ).start()
            except (OSError, RuntimeError):
                if not self._closing:
                    time.sleep(0.1)  # no file descriptor or thread is left; connected clients are still served

    def _serve_connection(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the client has disconnected
            with self._condition:
                if self._closing:
                    return
                self._connections[connection] = threading.current_thread()
            try:
                self._answer_calls(connection)
            finally:
                with self._condition:
                    del self._connections[connection]

    def _answer_calls(self, connection: socket.socket) -> None:
        protocol.send_message(connection, protocol.GREETING)
        while (message := protocol.receive_message(connection)) is not None:
            if _is_disconnected(connection):
                return  # the client has reported a failure, for example while we were paused: do not execute its call
            protocol.send_message(connection, self._execute_call(message))

    def _execute_call(self, message: bytes) -> bytes:
        try:
            return protocol.encode_result(self.call(*protocol.decode_call(message)))
        except RequestError as error:
            return protocol.encode_error(error)
        except Exception:
            log.exception("a call from another process failed")
            return protocol.encode_failure()


def _acquire_lock(path: Path) -> int:
    """Locks the lock file; raises StoreServerUnavailable if another process has it.

    DuckDB's lock is not enough: it does not exclude threads of one process, and is released while a broken file is
    reopened.
    """
    try:
        lock_fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreUnavailable from error
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock_fd)
        raise StoreServerUnavailable from None
    return lock_fd


def _open_store(path: Path) -> Store:
    # Imported here because DuckDB is slow to import and uses memory: only the process that owns the file needs it.
    from copydesk.analytics.stores.duckdb import DuckStore

    return DuckStore(path)


def _listen(path: Path) -> socket.socket:
    """Listens on the socket.

    Deletes an existing one: the caller has the lock, so the socket is left by a killed process.
    """
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with protocol.socket_address(path) as address:
            listener.bind(address)
        path.chmod(0o600)  # before a client can connect
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise StoreUnavailable from error
    return listener


def _is_disconnected(connection: socket.socket) -> bool:
    poller = select.poll()
    poller.register(connection, 0)  # poll always reports a hang-up; our own half-close is not one
    return bool(poller.poll(0))


def _shut_down(connection: socket.socket, direction: int) -> None:
    with suppress(OSError):
        connection.shutdown(direction)
