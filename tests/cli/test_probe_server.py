"""The port for probes and metrics limits its threads."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from copydesk.cli.probe_server import MAX_CONNECTIONS, ProbeServer


class EchoHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()


@pytest.fixture
def port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = ProbeServer(listener, EchoHandler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield listener.getsockname()[1]
    server.shutdown()
    server.server_close()


def request_probe(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return connection.recv(1000)


@pytest.mark.deep
def test_connections_beyond_the_limit_are_closed_and_start_no_thread(port: int) -> None:
    before = threading.active_count()
    silent = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(MAX_CONNECTIONS + 40)]
    surplus = silent[MAX_CONNECTIONS:]
    assert [connection.recv(10) for connection in surplus] == [b""] * len(surplus)
    assert threading.active_count() - before <= MAX_CONNECTIONS
    for connection in silent:
        connection.close()
    until = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert b" 204 " in request_probe(port)
