"""The side that owns: holds the DuckDB file and answers whoever asks through the socket."""

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
from copydesk.analytics.stores.shared import protocol as wire
from copydesk.analytics.stores.shared.client import Away
from copydesk.core.errors import Refusal, StoreDown

log = logging.getLogger(__name__)

FILE, LOCK, SOCKET = "analytics.duckdb", "analytics.lock", "analytics.sock"
PATIENCE_AT_CLOSING = 10.0


class Owner:
    """There is one per folder, on the whole machine. A thread for each line, so that nobody waits for a slow asker."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SOCKET
        self._changed = threading.Condition()
        self._calls = 0
        self._lines: dict[socket.socket, threading.Thread] = {}
        self._closing = self._closed = False
        self._lock = _lock(folder / LOCK)
        with ExitStack() as undoing:
            undoing.callback(os.close, self._lock)
            self._store = _open(folder / FILE)
            undoing.callback(self._store.close)
            self._listener = _listen(self._path)
            undoing.pop_all()
        self._doorkeeper = threading.Thread(target=self._let_in, name="analytics socket", daemon=True)
        self._doorkeeper.start()

    def call(self, name: str, arguments: Sequence[object]) -> Any:
        with self._counted():
            return getattr(self._store, name)(*arguments)

    def close(self) -> None:
        """Hands over: calls that were made are carried out and answered, then the next process can open the file."""
        until = time.monotonic() + PATIENCE_AT_CLOSING
        self._path.unlink(missing_ok=True)
        with self._changed:
            self._closing = True
            lines = dict(self._lines)
        _end(self._listener, socket.SHUT_RDWR)
        for line in lines:
            _end(line, socket.SHUT_RD)  # what has come is still read, and what comes now is refused to its sender
        for thread in (self._doorkeeper, *lines.values()):
            thread.join(max(0.0, until - time.monotonic()))
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._calls, max(0.0, until - time.monotonic()))
        for line in lines:
            _end(line, socket.SHUT_RDWR)
        self._listener.close()
        self._store.close()
        os.close(self._lock)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """A closed DuckDB file would be opened again by a call that comes late."""
        with self._changed:
            if self._closed:
                raise Away
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def _let_in(self) -> None:
        while not self._closing:
            try:
                line, _ = self._listener.accept()
                threading.Thread(target=self._attend, args=(line,), name="analytics line", daemon=True).start()
            except (OSError, RuntimeError):
                if not self._closing:
                    time.sleep(0.1)  # no descriptor or thread is left; those who are in are served on

    def _attend(self, line: socket.socket) -> None:
        with line, suppress(OSError):  # whoever asked has left
            with self._changed:
                if self._closing:
                    return
                self._lines[line] = threading.current_thread()
            try:
                self._converse(line)
            finally:
                with self._changed:
                    del self._lines[line]

    def _converse(self, line: socket.socket) -> None:
        wire.send(line, wire.GREETING)
        while (message := wire.receive(line)) is not None:
            if _has_left(line):
                return  # after we were paused, say: the asker was told that it failed, so it must not happen now
            wire.send(line, self._answer(message))

    def _answer(self, message: bytes) -> bytes:
        try:
            return wire.done(self.call(*wire.called(message)))
        except Refusal as refusal:
            return wire.refused(refusal)
        except Exception:
            log.exception("a call of another process failed")
            return wire.failed()


def _lock(path: Path) -> int:
    """Ours, beside DuckDB's: that one is not held between two threads of a process, nor while a broken file reopens."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreDown from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise Away from None
    return lock


def _open(path: Path) -> Store:
    from copydesk.analytics.stores.duckdb import (
        DuckStore,
    )  # takes its time and memory, in the process that owns the file alone

    return DuckStore(path)


def _listen(path: Path) -> socket.socket:
    """Only the owner comes here, so a socket that lies there is one of a process that was killed."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with wire.address(path) as address:
            listener.bind(address)
        path.chmod(0o600)  # before anybody can connect
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise StoreDown from error
    return listener


def _has_left(line: socket.socket) -> bool:
    watched = select.poll()
    watched.register(line, 0)  # a hang-up is reported unasked; our own half-closing is none
    return bool(watched.poll(0))


def _end(line: socket.socket, how: int) -> None:
    with suppress(OSError):
        line.shutdown(how)
