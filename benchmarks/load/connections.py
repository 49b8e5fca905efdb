"""Keep-alive connections to a server, opened on demand: the network side of the load generator."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MOST_CONNECTIONS = 64
"""To one server. Requests beyond them wait, and the wait counts as response time."""
KEPT_SECONDS = 3.0
"""The server closes connections that were idle for five seconds."""


@dataclass(frozen=True)
class Asked:
    kind: str
    due: float
    request: bytes


class Connection(asyncio.Protocol):
    """A keep-alive connection with at most one request in flight."""

    def __init__(self, answered: Callable[["Connection", Asked, int, bytes], None]) -> None:
        self._answered = answered
        self._asked: Asked | None = None
        self._answer = b""
        self.since, self.is_open = 0.0, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    def send(self, asked: Asked) -> None:
        self._asked, self._answer = asked, b""
        self._transport.write(asked.request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if end and len(body) >= _length(head):
            self._end(int(head[9:12]), body)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._end(0, str(error or "the server hung up").encode())

    def close(self) -> None:
        self._transport.close()

    def _end(self, status: int, body: bytes) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            self._answered(self, asked, status, body)


class Server:
    """The connections to one server; the most recently used is reused first."""

    def __init__(self, port: int, taken: Callable[[Asked, int, bytes], None]) -> None:
        self._port, self._taken = port, taken
        self._idle: list[Connection] = []
        self._waiting: deque[Asked] = deque()
        self._open = 0
        self._opening: set[asyncio.Task[None]] = set()

    def send(self, asked: Asked) -> None:
        now = time.perf_counter()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.since < KEPT_SECONDS:
                connection.send(asked)
                return
            connection.close()
            self._open -= 1
        self._waiting.append(asked)
        if self._open < MOST_CONNECTIONS:
            self._open += 1
            opening = asyncio.create_task(self._connect())
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _connect(self) -> None:
        try:
            made = asyncio.get_running_loop().create_connection(
                lambda: Connection(self._answered), "127.0.0.1", self._port
            )
            _, connection = await made
        except OSError as error:
            self._open -= 1
            if self._waiting:
                self._taken(self._waiting.popleft(), 0, str(error).encode())
            return
        self._free(connection)

    def _answered(self, connection: Connection, asked: Asked, status: int, body: bytes) -> None:
        self._taken(asked, status, body)
        self._free(connection)

    def _free(self, connection: Connection) -> None:
        if not connection.is_open:
            self._open -= 1
        elif self._waiting:
            connection.send(self._waiting.popleft())
        else:
            connection.since = time.perf_counter()
            self._idle.append(connection)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
