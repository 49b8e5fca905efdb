"""The HTTP server of a forge: its API and git over smart HTTP on one port."""

import base64
import re
import socket
import time
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tests.support.git_http import GitHandler, GitHttpServer

if TYPE_CHECKING:
    from tests.support.forges.base import FakeForge

GIT_PATH_PATTERN = re.compile(r"/(.+?)(?:\.git)?/(?:info/refs|git-upload-pack|git-receive-pack)$")
BAD_GATEWAY_PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head><body><h1>Bad gateway</h1></body></html>\n"
)


class ForgeServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    git: GitHttpServer
    forge: "FakeForge"


class ForgeHandler(GitHandler):
    """Applies faults first, then serves git or the API."""

    disable_nagle_algorithm = True  # headers and body of a response are two writes
    server: ForgeServer  # type: ignore[assignment]

    def do_PATCH(self) -> None:  # noqa: N802
        self._serve()

    def do_PUT(self) -> None:  # noqa: N802
        self._serve()

    def do_DELETE(self) -> None:  # noqa: N802
        self._serve()

    def _serve(self) -> None:
        forge, line = self.server.forge, f"{self.command} {self.path}"
        self._read = super()._read_body()
        if slow := forge.faults.take(line, "slow"):
            time.sleep(slow.seconds)
        fault = forge.faults.take(line)
        self._is_answer_lost = fault is not None and fault.kind == "lose"
        if not self.path.startswith(f"{forge.base_path}/"):
            self._send(404, [("Content-Type", "text/html")], b"<!DOCTYPE html>\n<title>Another site</title>\n")
            return
        self.path = self.path.removeprefix(forge.base_path)
        if fault is None or self._is_answer_lost:
            self._serve_git() if GIT_PATH_PATTERN.match(urlsplit(self.path).path) else self._serve_api()
        elif fault.kind == "cut":
            forge.record_request(self.command, self.path, 0)
            self._cut_connection()
        elif fault.kind == "html":
            self._send(fault.status, [("Content-Type", "text/html; charset=utf-8")], BAD_GATEWAY_PAGE)
        elif fault.kind == "unknown token":
            headers = [("Content-Type", "text/plain"), ("WWW-Authenticate", f'Basic realm="{forge.kind}"')]
            self._send(401, headers, b"Invalid username or token.\n")
        elif fault.kind == "status":
            self._send(fault.status, [("Content-Type", "text/plain")], b"upstream unavailable\n")
        else:
            self._send(*forge.rate_limit_response(fault))

    def _serve_api(self) -> None:
        self._send(*self.server.forge.answer(self.command, self.path, dict(self.headers.items()), self._read))

    def _serve_git(self) -> None:
        forge, match = self.server.forge, GIT_PATH_PATTERN.match(urlsplit(self.path).path)
        assert match is not None
        path, rest = unquote(match[1]), self.path[match.end(1) :].removeprefix(".git")
        if forge.redirects_without_suffix and not self.path[match.end(1) :].startswith(".git"):
            self._send(301, [("Location", f"{forge.url}/{match[1]}.git{rest}")], b"")
            return
        status, text = forge.git_refusal(path, self._password(), "git-receive-pack" in rest)
        if status == 301:
            self._send(301, [("Location", f"{forge.repository_url(text)}{rest}")], b"")
        elif status:
            challenge = [("WWW-Authenticate", f'Basic realm="{forge.kind}"')] if status == 401 else []
            self._send(status, [("Content-Type", "text/plain"), *challenge], text.encode())
        else:
            self.path = f"/{path}.git{rest}"
            super()._serve()

    def _run_git_backend(self, body: bytes) -> bytes:
        if not urlsplit(self.path).path.endswith("git-receive-pack"):
            return super()._run_git_backend(body)
        with self.server.forge.watch_push(self.path.partition(".git")[0].strip("/")):
            return super()._run_git_backend(body)

    def _password(self) -> str | None:
        scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
        return base64.b64decode(encoded).decode().partition(":")[2] if scheme.lower() == "basic" else None

    def _read_body(self) -> bytes:
        return self._read

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.server.forge.record_request(self.command, self.path, 0 if self._is_answer_lost else status)
        if self._is_answer_lost:
            self._cut_connection()
        else:
            super()._send(status, headers, body)

    def _cut_connection(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
