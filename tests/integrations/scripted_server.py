"""An HTTP server that answers with given responses, for services that are unavailable, redirect or are not Copydesk."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Response = tuple[int, dict[str, str], Any]


class ScriptedServer:
    """Answers with these responses in turn, then with the last one again. `requests` records the requests."""

    def __init__(self, *responses: Response) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self._responses = list(responses)
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.scripted = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def next_response(self) -> Response:
        return self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]

    def __enter__(self) -> "ScriptedServer":
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    scripted: ScriptedServer


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.scripted.requests.append((self.command, self.path, dict(self.headers)))
        status, headers, body = self.server.scripted.next_response()
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing."""
