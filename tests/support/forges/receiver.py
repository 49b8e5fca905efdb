"""A server that receives webhooks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class ReceivedDeliveries:
    """Received deliveries: (headers in lowercase, body), in the order of arrival."""

    url: str = ""
    deliveries: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def receive_deliveries() -> Iterator[ReceivedDeliveries]:
    received = ReceivedDeliveries()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.deliveries.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield received
    server.shutdown()
    server.server_close()
    thread.join()
