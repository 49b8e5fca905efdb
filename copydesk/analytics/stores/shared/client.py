"""The client of the shared store: calls the process that owns the file, and distinguishes how calls fail."""

import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from copydesk.analytics.stores.shared import protocol
from copydesk.core.errors import StoreUnavailable

LIVENESS_CHECKS = 8
"""How often, per timeout, a client that waits for a reply checks that the server is alive."""


class StoreServerUnavailable(Exception):
    """No process serves the store at the moment. The call was not executed."""


class StoreServerSilent(StoreUnavailable):
    code = "store_silent"
    message = (
        "The process that owns the analytics store does not respond. It is paused or overloaded. Try again shortly."
    )


class StoreServerLost(StoreUnavailable):
    code = "store_lost"
    message = (
        "The process that owns the analytics store ended during this call. The call may or may not have taken effect."
    )


class StoreVersionMismatch(StoreUnavailable):
    code = "store_version"
    message = "A process of another version of Copydesk owns the analytics store. Restart that process."


class StoreClient:
    """Calls the server. Thread-safe: each concurrent call has its own connection, which is reused afterwards."""

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
        """Sends a call and returns its connection.

        The server ignores a partly sent call, so it is safe to send it again.
        """
        while True:
            connection = self._take_idle_connection() or self._connect()
            try:
                protocol.send_message(connection, message)
            except TimeoutError:
                connection.close()
                raise StoreServerSilent from None
            except OSError:
                connection.close()  # its server has ended; another process may have replaced it
            else:
                return connection

    def _wait_for_reply(self, connection: socket.socket) -> None:
        """Waits for the reply without a time limit while the server is alive.

        Accepting a new connection proves that it is.
        """
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        while not poller.poll(self._timeout_seconds * 1000 / LIVENESS_CHECKS):
            # A closing server accepts no connections, but still answers the calls that it has.
            with suppress(StoreServerUnavailable):
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
