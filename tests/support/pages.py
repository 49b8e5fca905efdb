"""A documentation site that behaves like real ones: pages, Markdown twins, assets, redirects and missing pages."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGES = {
    "/": (200, "text/html; charset=utf-8"),
    "/guide/setup": (200, "text/html"),
    "/guide/setup.md": (200, "text/plain"),
    "/llms.txt": (200, "text/plain"),
    "/twin": (200, "text/markdown"),
    "/same": (304, ""),
    "/moved": (301, "text/html"),
    "/style.css": (200, "text/css"),
    "/data": (200, "application/json"),
    "/broken": (500, "text/html"),
}
NOT_FOUND = (404, "text/html")
COUNTED_PATHS = ["/", "/guide/setup", "/guide/setup.md", "/llms.txt", "/twin", "/same"]


@contextmanager
def serve_pages() -> Iterator[str]:
    """Serves the site and yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            status, kind = PAGES.get(path, NOT_FOUND)
            body = f"this is {path}".encode() if status != 304 else b""
            self.send_response(status)
            if kind:
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
            if status == 301:
                self.send_header("Location", "/")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
