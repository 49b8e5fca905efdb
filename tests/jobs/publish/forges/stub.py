"""A forge with given responses, for responses that no proper forge would send."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class StubAnswer:
    status: int = 200
    body: Any = None
    """JSON, or bytes that are sent unchanged."""
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    """The delay."""

    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class StubRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class StubServer:
    """Answers in the given order, and repeats the last answer."""

    answers: list[StubAnswer]
    requests: list[StubRequest] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def next(self) -> StubAnswer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body of a response are two writes
    server: "_Server"

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.stub.requests.append(
            StubRequest(self.command, self.path, headers, json.loads(body) if body else None)
        )
        answer = self.server.stub.next()
        time.sleep(answer.seconds)
        self.send_response(answer.status)
        data = answer.data()
        for name, value in ({"Content-Length": str(len(data))} | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            return  # the client closed the connection

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    stub: StubServer


@contextmanager
def serve_stub(*answers: StubAnswer) -> Iterator[StubServer]:
    served = StubServer(list(answers))
    server = _Server(("127.0.0.1", 0), _Handler)
    server.stub, served.port = served, server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
