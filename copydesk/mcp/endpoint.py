"""The streamable HTTP transport: POST /mcp, without sessions.

Each request stands alone, so that any server behind a load balancer can answer it, and a revoked key stops at once.
"""

from functools import cache
from importlib import import_module

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from copydesk.core.accounts.api_keys import ApiKey
from copydesk.core.errors import RequestError
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.core.settings import Settings
from copydesk.mcp.installation import INSTALL_HINT, is_sdk_installed
from copydesk.mcp.origins import OriginCheck

PATH = "/mcp"

router = APIRouter()


class McpNotInstalled(RequestError):
    status, code = 501, "mcp_not_installed"
    message = f"This server lacks the optional part for MCP. {INSTALL_HINT}"


@router.post(PATH, include_in_schema=False)
async def handle_message(request: Request) -> Response:
    """Handles one message of a client: a request, whose response may be a stream of events, or a notification."""
    settings: Settings = request.app.state.desk.settings
    _get_origin_check(settings.base_url, settings.mcp_hosts).check(
        request.headers.get("host"), request.headers.get("origin")
    )
    if not is_sdk_installed():
        raise McpNotInstalled
    await run_in_thread(import_module, "copydesk.mcp.http_session")  # the first import takes a second
    return McpResponse(request)


@cache
def _get_origin_check(base_url: str, hosts: tuple[str, ...]) -> OriginCheck:
    return OriginCheck(base_url, hosts)


class McpResponse(Response):
    """Runs the SDK for one request. The server and all its tasks end with the response."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from copydesk.mcp.http_session import serve_request

        key: ApiKey = self._request.state.key
        await serve_request(self._request, key, scope, receive, send)
