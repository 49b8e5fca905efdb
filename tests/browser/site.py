"""A small documentation site and a collector that records requests, on one port under two host names."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import copydesk

BEACON = Path(copydesk.__file__).parent / "web/static/beacon.js"
DOCS, DESK = "http://docs.example.org", "http://desk.example.org"
LINKS = '<a href="/">Start</a> <a href="/guide">Guide</a> <a href="/guide/setup?from=nav#top">Setup</a>'
ROUTER = """<script>
addEventListener("click", function (event) {
  if (event.target.href) { event.preventDefault(); history.pushState({}, "", event.target.href); }
});
</script>"""
SETTLE_SECONDS = 0.7
"""Longer than the beacon waits before it sends a view."""


@dataclass(frozen=True)
class CollectedRequest:
    path: str
    headers: Message
    body: dict[str, Any]

    @property
    def page(self) -> str:
        return str(self.body["u"]).removeprefix(DOCS)


@dataclass
class BeaconSite:
    """The content of the pages in the next test, and the requests to the collector."""

    port: int = 0
    options: str = ""
    head: str = ""
    policy: str = ""
    collector: str = DESK
    site_id: str = "site_1"
    arrivals: list[CollectedRequest] = field(default_factory=list)
    prerender_requests: list[str] = field(default_factory=list)
    preflight_requests: int = 0
    """Number of CORS preflight requests."""

    @property
    def tag(self) -> str:
        return f'<script defer src="{self.collector}/beacon.js" data-site="{self.site_id}" {self.options}></script>'

    @property
    def html(self) -> str:
        return f"<!doctype html><title>Docs</title><link rel=icon href=data:,>{self.head}{self.tag}{LINKS}"

    @property
    def referrers(self) -> dict[str, str]:
        """Returns the referrer of each view."""
        return {arrival.page: arrival.body["r"].removeprefix(DOCS) for arrival in self.arrivals}

    def pages(self, count: int) -> list[str]:
        """Waits for `count` views and returns their pages, sorted by name.

        Requests that are sent at about the same time arrive in any order.
        """
        deadline = time.monotonic() + 60
        while len(self.arrivals) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(SETTLE_SECONDS)
        return sorted(arrival.page for arrival in self.arrivals)


@contextmanager
def serve_beacon_site() -> Iterator[BeaconSite]:
    site = BeaconSite()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.endswith("/beacon.js"):
                self.answer(200, "text/javascript", BEACON.read_bytes())
                return
            if "prerender" in self.headers.get("sec-purpose", ""):
                site.prerender_requests.append(self.path)
            self.answer(404 if self.path.startswith("/missing") else 200, "text/html", site.html.encode())

        def do_OPTIONS(self) -> None:
            site.preflight_requests += 1
            self.answer(204, "text/plain", b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            site.arrivals.append(CollectedRequest(self.path, self.headers, json.loads(body)))
            self.answer(202, "application/json", b"{}")

        def answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Set-Cookie", "unwanted=1")
            if site.policy:
                self.send_header("Content-Security-Policy", site.policy)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Ignores dropped connections, which are normal for browsers."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        site.port = server.server_address[1]
        yield site
        server.shutdown()
