"""Keep-alive connections to a server, opened on demand: the network side of the load generator."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MAX_CONNECTIONS = 64
"""To one server. Requests beyond them wait, and the wait counts as response time."""
KEEP_ALIVE_SECONDS = 3.0
"""The server closes connections that were idle for five seconds."""


@dataclass(frozen=True)
class ScheduledRequest:
    kind: str
    due: float
    request: bytes


class LoadConnection(asyncio.Protocol):
    """A keep-alive connection with at most one request in flight."""

    def __init__(self, on_answer: Callable[["LoadConnection", ScheduledRequest, int, bytes], None]) -> None:
        self._on_answer = on_answer
        self._request: ScheduledRequest | None = None
        self._answer = b""
        self.since, self.is_open = 0.0, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    def send(self, request: ScheduledRequest) -> None:
        self._request, self._answer = request, b""
        self._transport.write(request.request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if end and len(body) >= _parse_content_length(head):
            self._end(int(head[9:12]), body)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._end(0, str(error or "the server hung up").encode())

    def close(self) -> None:
        self._transport.close()

    def _end(self, status: int, body: bytes) -> None:
        request, self._request = self._request, None
        if request is not None:
            self._on_answer(self, request, status, body)


class ServerConnections:
    """The connections to one server; the most recently used is reused first."""

    def __init__(self, port: int, on_answer: Callable[[ScheduledRequest, int, bytes], None]) -> None:
        self._port, self._report_answer = port, on_answer
        self._idle: list[LoadConnection] = []
        self._waiting: deque[ScheduledRequest] = deque()
        self._open = 0
        self._opening: set[asyncio.Task[None]] = set()

    def send(self, request: ScheduledRequest) -> None:
        now = time.perf_counter()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.since < KEEP_ALIVE_SECONDS:
                connection.send(request)
                return
            connection.close()
            self._open -= 1
        self._waiting.append(request)
        if self._open < MAX_CONNECTIONS:
            self._open += 1
            opening = asyncio.create_task(self._connect())
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _connect(self) -> None:
        try:
            connecting = asyncio.get_running_loop().create_connection(
                lambda: LoadConnection(self._on_answer), "127.0.0.1", self._port
            )
            _, connection = await connecting
        except OSError as error:
            self._open -= 1
            if self._waiting:
                self._report_answer(self._waiting.popleft(), 0, str(error).encode())
            return
        self._reuse_or_wait(connection)

    def _on_answer(self, connection: LoadConnection, request: ScheduledRequest, status: int, body: bytes) -> None:
        self._report_answer(request, status, body)
        self._reuse_or_wait(connection)

    def _reuse_or_wait(self, connection: LoadConnection) -> None:
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


def _parse_content_length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
