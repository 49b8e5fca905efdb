"""Serves one HTTP request with the SDK. Imported at the first request, because the SDK is slow to import."""

import logging
from collections.abc import Collection

import httpx2 as httpx
from fastapi import Request
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from copydesk.core.accounts.api_keys import ApiKey
from copydesk.mcp.api import Api
from copydesk.mcp.in_process import InProcessTransport
from copydesk.mcp.server import BuildServer, build_server

IN_PROCESS_URL = "http://copydesk"

logging.getLogger("mcp").setLevel(logging.WARNING)  # the SDK logs the start and end of every request
logging.getLogger("httpx2").setLevel(logging.WARNING)


async def serve_request(request: Request, key: ApiKey, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one message. Its tools call the API within this process, with the caller's key and address.

    The application's state can name another function that builds the server, as `build_mcp_server`.
    """

    async def load_scopes() -> Collection[str]:
        return key.scopes

    headers = {
        "Authorization": request.headers["authorization"],
        "X-Request-Id": request.state.request_id,
    }
    transport = InProcessTransport(request.app, request.state.address)
    async with httpx.AsyncClient(
        transport=transport, base_url=IN_PROCESS_URL, headers=headers, trust_env=False, timeout=None
    ) as http:
        build: BuildServer = getattr(request.app.state, "build_mcp_server", build_server)
        server = build(Api(http, key.project_id), load_scopes)
        manager = StreamableHTTPSessionManager(server, stateless=True)
        async with manager.run():
            await manager.handle_request(_strip_header_values(scope), receive, send)


def _strip_header_values(scope: Scope) -> Scope:
    """Removes white space around header values, which the HTTP parser leaves and the SDK compares with the body."""
    return {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
