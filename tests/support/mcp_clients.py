"""Clients of MCP: the official SDK's own, over both transports, and a server that adds the key for programs without."""

import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2 as httpx
import uvicorn
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp, Receive, Scope, Send

from copydesk.mcp.server import BuildServer
from copydesk.web.app import create_app
from tests.support.service import Service

MCP_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
Transport = Literal["stdio", "http"]
Mode = Literal["auto", "legacy"]
"""`auto` speaks the newest version of the protocol; `legacy` begins with the handshake of older ones."""


def client_environment(service: Service, key: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COPYDESK_")}
    settings = {"COPYDESK_URL": service.url, "COPYDESK_API_KEY": key, "COPYDESK_PROJECT": service.project.id}
    return environment | settings


@asynccontextmanager
async def open_mcp(
    service: Service,
    transport: Transport = "http",
    mode: Mode = "auto",
    *,
    key: str | None = None,
    headers: dict[str, str] | None = None,
) -> AsyncIterator[Client]:
    """Connects the SDK's client, over HTTP or to a `copydesk mcp` that it starts."""
    secret = service.key if key is None else key
    if transport == "stdio":
        environment = client_environment(service, secret)
        command = StdioServerParameters(command=sys.executable, args=["-m", "copydesk", "mcp"], env=environment)
        async with Client(command, mode=mode, read_timeout_seconds=120) as client:
            yield client
        return
    all_headers = {"Authorization": f"Bearer {secret}", **(headers or {})}
    async with httpx.AsyncClient(headers=all_headers, timeout=120) as http:
        server = streamable_http_client(f"{service.url}/mcp", http_client=http)
        async with Client(server, mode=mode, read_timeout_seconds=120) as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Returns the structured result of a tool. Fails if the tool reports an error."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    structured: dict[str, Any] = result.structured_content
    return structured


async def call_refused(client: Client, tool: str, **arguments: Any) -> str:
    """Returns the error that a tool reports. Fails if it reports none."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    assert result.structured_content is None
    return str(result.content[0].text)  # type: ignore[union-attr]


@dataclass(frozen=True)
class RawClient:
    """A client of version 2025-11-25 that sends each request as it is told, over HTTP."""

    url: str
    key: str
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=60))

    def send(self, method: str, session: str | None = None, body: Any = None, **headers: str) -> httpx.Response:
        return self.http.request(method, f"{self.url}/mcp", json=body, headers=self.headers(session) | headers)

    def headers(self, session: str | None) -> dict[str, str]:
        own = {"Authorization": f"Bearer {self.key}", "Mcp-Protocol-Version": "2025-11-25"}
        return {**MCP_HEADERS, **own} | ({"Mcp-Session-Id": session} if session else {})

    def initialize(self, **headers: str) -> str | None:
        """Returns the ID of a new session, or None if the server opened none."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        response = self.send("POST", None, body, **headers)
        assert response.status_code == 200, response.text
        assert '"protocolVersion":"2025-11-25"' in response.text
        session: str | None = response.headers.get("mcp-session-id")
        if session is not None:
            notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            initialized = self.send("POST", None, notification, **{**headers, "Mcp-Session-Id": session})
            assert initialized.status_code == 202
        return session

    def list_tools(self, session: str | None, **headers: str) -> httpx.Response:
        return self.send("POST", session, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, **headers)

    def is_kept(self, session: str | None) -> bool:
        """Returns whether the server answers a request within this session, rather than on its own."""
        response = self.list_tools(session)
        assert response.status_code == 200, response.text
        assert "create_job" in response.text
        return response.headers.get("mcp-session-id") == session

    @contextmanager
    def open_call(self, session: str | None, tool: str, request_id: int = 7, **arguments: Any) -> Iterator[Any]:
        """Calls a tool. Yields the response, whose body has not arrived yet; disconnects at the end."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": request_id}}
        body = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        with self.http.stream("POST", f"{self.url}/mcp", json=body, headers=self.headers(session)) as response:
            assert response.status_code == 200
            yield response

    @contextmanager
    def open_stream(self, session: str | None) -> Iterator[httpx.Response]:
        """Opens the stream of the session."""
        with self.http.stream("GET", f"{self.url}/mcp", headers=self.headers(session)) as response:
            yield response


@contextmanager
def serve_with_key(service: Service, build: BuildServer | None = None) -> Iterator[str]:
    """Serves the same desk at another port, adding the key to requests. Yields the URL.

    The function builds the MCP server that answers, if it is not to be Copydesk's own.
    """
    app = create_app(service.desk)
    if build is not None:
        app.state.build_mcp_server = build

    async def add_key(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {service.key}".encode())]}
        await app(scope, receive, send)

    with run_server(add_key) as url:
        yield url


@contextmanager
def run_server(app: ASGIApp) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, ws="none", log_config=None, timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=60)
