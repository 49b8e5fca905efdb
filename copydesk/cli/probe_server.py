"""A small HTTP server for /healthz, /readyz and /metrics on the metrics port of a worker or a server."""

import json
import logging
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from copydesk import __version__
from copydesk.web.operations.metrics import CONTENT_TYPE, MetricsCollector
from copydesk.web.operations.readiness import Readiness

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_SECONDS = 5
MAX_CONNECTIONS = 64


class ProbeServer(ThreadingHTTPServer):
    """Serves each connection in a thread. Closes connections beyond MAX_CONNECTIONS at once."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._free_slots = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free_slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # the thread could not be started
            self._free_slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free_slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs the error, unless the client disconnected."""
        if not isinstance(sys.exception(), OSError):
            log.exception("a probe request failed")


def serve_probes(listener: socket.socket, readiness: Readiness, metrics: MetricsCollector) -> None:
    """Starts the server in daemon threads, which end with the process."""

    class ProbeHandler(BaseHTTPRequestHandler):
        timeout = REQUEST_TIMEOUT_SECONDS  # closes connections that send nothing
        protocol_version = "HTTP/1.1"

        def version_string(self) -> str:
            return "copydesk"

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/healthz":
                    self._send_json(200, {"status": "ok", "version": __version__})
                case "/readyz":
                    report = readiness.check()
                    status = "ready" if report.is_ready else "not ready"
                    self._send_json(200 if report.is_ready else 503, {"status": status, "parts": report.parts})
                case "/metrics":
                    self._send(200, CONTENT_TYPE, metrics.render())
                case _:
                    self._send_json(404, {"error": "There is nothing at this address.", "code": "not_found"})

        def _send_json(self, status: int, body: object) -> None:
            self._send(status, "application/json", json.dumps(body).encode())

        def _send(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Writes no access log, so that no client address is logged."""

    server = ProbeServer(listener, ProbeHandler)
    threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
