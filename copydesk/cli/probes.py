"""What a worker answers, and a server, on a port for whoever watches over them: /healthz, /readyz and /metrics."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from copydesk import __version__
from copydesk.core.metrics import CONTENT_TYPE
from copydesk.web.gauges import Gauges
from copydesk.web.readiness import Readiness

SLOWEST_SECONDS = 5


def answer_probes(listener: socket.socket, readiness: Readiness, gauges: Gauges) -> None:
    """In threads that end with the process."""

    class Probes(BaseHTTPRequestHandler):
        timeout = SLOWEST_SECONDS  # for whoever connects and says nothing
        protocol_version = "HTTP/1.1"

        def version_string(self) -> str:
            return "copydesk"

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/healthz":
                    self._json(200, {"status": "ok", "version": __version__})
                case "/readyz":
                    report = readiness.report()
                    status = "ready" if report.is_ready else "not ready"
                    self._json(200 if report.is_ready else 503, {"status": status, "parts": report.parts})
                case "/metrics":
                    self._send(200, CONTENT_TYPE, gauges.text())
                case _:
                    self._json(404, {"error": "There is nothing at this address.", "code": "not_found"})

        def _json(self, status: int, body: object) -> None:
            self._send(status, "application/json", json.dumps(body))

        def _send(self, status: int, kind: str, body: str) -> None:
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing: who asks is nobody's business."""

    server = ThreadingHTTPServer(("", 0), Probes, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
