"""Git over HTTP: git's http-backend behind a small server that requires a token, or redirects."""

import base64
import os
import subprocess
import threading
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit


@cache
def find_git_http_backend() -> str:
    environment = {"PATH": os.environ["PATH"]}  # tests may inspect the environment of git
    result = subprocess.run(["git", "--exec-path"], env=environment, capture_output=True, text=True, check=True)
    folder = result.stdout.strip()
    return str(Path(folder) / "git-http-backend")


@dataclass
class GitHttpServer:
    """Serves the repositories of a folder. `requests` records the requests; `redirect` redirects all of them."""

    root: Path
    token: str | None = None
    redirect: str | None = None
    host: str = "127.0.0.1"
    requests: list[str] = field(default_factory=list)

    def __enter__(self) -> "GitHttpServer":
        self._server = _Server((self.host, 0), GitHandler)
        self._server.git = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return self._server.server_port

    def url(self, name: str) -> str:
        return f"http://{self.host}:{self.port}/{name}"

    def admits(self, header: str | None) -> bool:
        if self.token is None:
            return True
        scheme, _, encoded = (header or "").partition(" ")
        return scheme == "Basic" and base64.b64decode(encoded).decode().endswith(f":{self.token}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    git: GitHttpServer


class GitHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        git, body = self.server.git, self._read_body()
        git.requests.append(f"{self.command} {self.path}")
        if git.redirect is not None:
            self._send(302, [("Location", git.redirect + self.path)], b"")
        elif not git.admits(self.headers.get("Authorization")):
            self._send(401, [("WWW-Authenticate", 'Basic realm="git"')], b"No.")
        else:
            head, _, answer = self._run_git_backend(body).partition(b"\r\n\r\n")
            headers = [line.split(": ", 1) for line in head.decode().split("\r\n")]
            status = next((value for name, value in headers if name == "Status"), "200 OK")
            self._send(int(status[:3]), [(name, value) for name, value in headers if name != "Status"], answer)

    def _run_git_backend(self, body: bytes) -> bytes:
        address = urlsplit(self.path)
        passed_on = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.git.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "somebody",  # http-backend accepts pushes only from an authenticated user
            "REMOTE_ADDR": self.client_address[0],
            "REQUEST_METHOD": self.command,
            "PATH_INFO": address.path,
            "QUERY_STRING": address.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        return subprocess.run(
            [find_git_http_backend()], input=body, env=passed_on, capture_output=True, check=True
        ).stdout

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing."""
