"""Clients of MCP: the official SDK's own, over both transports, and a server that adds the key for programs without."""

import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
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
