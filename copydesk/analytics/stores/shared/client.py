"""The side that asks: calls the process that owns the file, and tells apart what becomes of a call."""

import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from copydesk.analytics.stores.shared import protocol
from copydesk.core.errors import StoreUnavailable

LIVENESS_CHECKS = 8
"""How often, within its patience, a guest that waits for an answer wants to see that the owner is alive."""


class StoreServerUnavailable(Exception):
    """Nobody serves the store at this moment. The call was not carried out."""


class StoreServerSilent(StoreUnavailable):
    code = "store_silent"
    message = (
        "The process that owns the analytics store does not respond: it is paused or overloaded. Try again shortly."
    )


class StoreServerLost(StoreUnavailable):
    code = "store_lost"
    message = (
        "The process that owns the analytics store ended during this call; it may or may not have been carried out."
    )


class StoreVersionMismatch(StoreUnavailable):
    code = "store_version"
    message = "A process of another version of Copydesk owns the analytics store; restart that process."


class StoreClient:
    """Safe for many threads: each call has a line of its own, which serves the next one after it."""

    def __init__(self, path: Path, timeout_seconds: float) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds
        self._idle_connections: list[socket.socket] = []

    def call(self, method_name: str, arguments: Sequence[object]) -> Any:
        message = protocol.encode_call(method_name, arguments)
        connection = self._send_call(message)
        try:
            self._wait_for_reply(connection)
            reply = protocol.receive_message(connection)
        except TimeoutError:
            connection.close()
            raise StoreServerSilent from None
        except OSError:
            reply = None
        except BaseException:
            connection.close()
            raise
        if reply is None:
            connection.close()
            raise StoreServerLost
        self._idle_connections.append(connection)
        return protocol.decode_reply(reply)

    def close(self) -> None:
        while (connection := self._take_idle_connection()) is not None:
            connection.close()

    def _send_call(self, message: bytes) -> socket.socket:
        """The line on which the owner has the whole call. Of half a call the owner makes nothing."""
        while True:
            connection = self._take_idle_connection() or self._connect()
            try:
                protocol.send_message(connection, message)
            except TimeoutError:
                connection.close()
                raise StoreServerSilent from None
            except OSError:
                connection.close()  # a line to an owner of before: there may be another one by now
            else:
                return connection

    def _wait_for_reply(self, connection: socket.socket) -> None:
        """A call may take as long as it wants while its owner is alive: letting a new line in proves that it is."""
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        while not poller.poll(self._timeout_seconds * 1000 / LIVENESS_CHECKS):
            with suppress(
                StoreServerUnavailable
            ):  # an owner that is about to close lets nobody in, and answers those who are
                self._connect().close()

    def _take_idle_connection(self) -> socket.socket | None:
        with suppress(IndexError):
            return self._idle_connections.pop()
        return None

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._timeout_seconds)
        try:
            with protocol.socket_address(self._path) as address:
                connection.connect(address)
            greeting = protocol.receive_message(connection)
        except TimeoutError:
            connection.close()
            raise StoreServerSilent from None
        except OSError:
            greeting = None
        if greeting != protocol.GREETING:
            connection.close()
            raise StoreVersionMismatch if greeting else StoreServerUnavailable
        return connection
