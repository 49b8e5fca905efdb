"""A receiver of webhooks over real sockets, which can fail, hang, redirect, drip and lie."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

OK = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


Answer = Callable[[socket.socket, Received], None]


def answer(status: int, *headers: str, body: bytes = b"") -> Answer:
    """Returns an answer with this status."""
    lines = [f"HTTP/1.1 {status} Status", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]

    def send(connection: socket.socket, _: Received) -> None:
        connection.sendall("\r\n".join(lines).encode() + body)

    return send


def send_raw(data: bytes) -> Answer:
    return lambda connection, _: connection.sendall(data)


def hang(seconds: float = 30) -> Answer:
    return lambda connection, _: _wait_for_close(connection, seconds)


def drip(data: bytes, interval: float = 0.1) -> Answer:
    """Returns an answer that sends one byte at a time, so that no read ever times out."""

    def send(connection: socket.socket, _: Received) -> None:
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(interval)

    return send


def _wait_for_close(connection: socket.socket, seconds: float) -> None:
    connection.settimeout(seconds)
    connection.recv(1)


@dataclass
class Receiver:
    port: int
    requests: list[Received] = field(default_factory=list)
    choose: Callable[[Received], Answer] = lambda _: send_raw(OK)
    open_count: int = 0
    max_open: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def ids(self) -> list[str]:
        return [request.id for request in self.requests]

    def types(self) -> list[str]:
        return [request.json["type"] for request in self.requests]


@contextmanager
def receive_webhooks(choose: Callable[[Received], Answer] | None = None, host: str = "127.0.0.1") -> Iterator[Receiver]:
    """Serves a receiver. `choose` returns the answer to each request; the default accepts everything."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, 0))
        listener.listen(256)
        receiver = Receiver(listener.getsockname()[1])
        if choose is not None:
            receiver.choose = choose
        threading.Thread(target=_accept, args=(listener, receiver), daemon=True).start()
        yield receiver
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, receiver: Receiver) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, receiver), daemon=True).start()


def _serve(connection: socket.socket, receiver: Receiver) -> None:
    with connection, suppress(OSError):
        request = _read_request(connection)
        if request is None:
            return
        with receiver.lock:
            receiver.requests.append(request)
            receiver.open_count += 1
            receiver.max_open = max(receiver.max_open, receiver.open_count)
        try:
            receiver.choose(request)(connection, request)
        finally:
            with receiver.lock:
                receiver.open_count -= 1


def _read_request(connection: socket.socket) -> Received | None:
    connection.settimeout(30)
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    return Received(first.split()[1], headers, body)
