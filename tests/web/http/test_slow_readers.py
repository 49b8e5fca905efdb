"""A client that reads its response slowly receives all of it; a client that reads nothing is disconnected."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from copydesk.analytics.ip_addresses import build_trusted_networks
from copydesk.web.http import protocol
from copydesk.web.http.connections import Connections
from copydesk.web.http.protocol import HttpProtocol, enforce_deadlines

ANSWER_BYTES = 16 * 1024 * 1024


class QuickProtocol(HttpProtocol):
    """Waits half a second for the next request after a response."""

    open_connections = Connections(0, build_trusted_networks([]))
    header_seconds = 0.5


class QuickServer(uvicorn.Server):
    async def on_tick(self, counter: int) -> bool:
        enforce_deadlines(self.server_state.connections, asyncio.get_running_loop().time())  # type: ignore[arg-type]
        return await super().on_tick(counter)


async def large_response_app(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-length", str(ANSWER_BYTES).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(ANSWER_BYTES)})


@pytest.fixture
def port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        large_response_app, http=QuickProtocol, ws="none", lifespan="off", log_config=None, timeout_keep_alive=1
    )
    server = QuickServer(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(60)


def send_request(port: int) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", port))
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return connection


def test_a_slow_reader_gets_the_whole_answer(port: int) -> None:
    with send_request(port) as connection:
        received, began = 0, time.monotonic()
        while received < ANSWER_BYTES:
            piece = connection.recv(256 * 1024)
            assert piece, f"the answer was cut after {received:,} bytes"
            received += len(piece)
            time.sleep(0.02 if time.monotonic() - began < 4 else 0)  # longer than the next request may take


def test_client_that_reads_nothing_is_disconnected(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 0.5)
    received = [ANSWER_BYTES]
    for seconds in (4, 15, 45):  # a busy machine may check its connections late
        if min(received) >= ANSWER_BYTES:
            received.append(read_after(port, seconds))
    assert min(received) < ANSWER_BYTES


def read_after(port: int, seconds: float) -> int:
    """Returns how many bytes a client receives that starts reading this late."""
    size = 0
    with send_request(port) as connection, suppress(ConnectionError):
        time.sleep(seconds)
        while size < ANSWER_BYTES and (piece := connection.recv(1024 * 1024)):
            size += len(piece)
    return size
