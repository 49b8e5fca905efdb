"""A fake Copydesk collector: records the events that a site sends, and fails on demand."""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RETRY_AFTER_SECONDS = 2


@dataclass(frozen=True)
class CollectedRequest:
    path: str
    headers: Message
    events: list[dict[str, Any]]
    at: float


@dataclass
class FakeCollector:
    url: str = ""
    requests: list[CollectedRequest] = field(default_factory=list)
    failures: list[int | str] = field(default_factory=list)
    """The next failing responses, each a status or `cut`; success afterward."""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for request in self.requests for event in request.events]


@contextmanager
def fake_collector() -> Iterator[FakeCollector]:
    collector = FakeCollector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            payload = json.loads(body)
            events = payload if isinstance(payload, list) else [payload]
            collector.requests.append(CollectedRequest(self.path, self.headers, events, time.monotonic()))
            trouble = collector.failures.pop(0) if collector.failures else 202
            if trouble == "cut":
                self.connection.close()
                return
            response_body = b'{"error": "No such key."}' if trouble == 401 else b"{}"
            self.send_response(int(trouble))
            self.send_header("Content-Length", str(len(response_body)))
            self.send_header("Location", "/elsewhere")
            self.send_header("Retry-After", str(RETRY_AFTER_SECONDS))
            self.end_headers()
            self.wfile.write(response_body)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

        def finish(self) -> None:
            if not self.wfile.closed and self.connection.fileno() != -1:
                super().finish()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield collector
        server.shutdown()
