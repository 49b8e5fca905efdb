"""The address of the streamable HTTP transport: POST sends a message, GET opens a stream, DELETE ends a session."""

from functools import cache
from importlib import import_module

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from copydesk.core.errors import RequestError
from copydesk.core.runtime.thread_pool import run_in_thread
from copydesk.core.settings import Settings
from copydesk.mcp.caller import Caller, current_caller
from copydesk.mcp.http.origins import OriginCheck
from copydesk.mcp.installation import INSTALL_HINT, is_sdk_installed

PATH = "/mcp"

router = APIRouter()


class McpNotInstalled(RequestError):
    status, code = 501, "mcp_not_installed"
    message = f"This server lacks the optional part for MCP. {INSTALL_HINT}"


@router.post(PATH, include_in_schema=False)
@router.get(PATH, include_in_schema=False)
@router.delete(PATH, include_in_schema=False)
async def handle_request(request: Request) -> Response:
    """Handles a message of a client, opens the stream of its session, or ends its session.

    The response to a request among the messages may be a stream of events.
    """
    settings: Settings = request.app.state.desk.settings
    _get_origin_check(settings.base_url, settings.mcp_hosts).check(
        request.headers.get("host"), request.headers.get("origin")
    )
    if not is_sdk_installed():
        raise McpNotInstalled
    await run_in_thread(import_module, "copydesk.mcp.http.requests")  # the first import takes a second
    return McpResponse(request)


@cache
def _get_origin_check(base_url: str, hosts: tuple[str, ...]) -> OriginCheck:
    return OriginCheck(base_url, hosts)


class McpResponse(Response):
    """Runs the SDK for one request. Everything that it starts ends with the response, except within a session."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from copydesk.mcp.http.requests import serve_request

        state = self._request.state
        caller = Caller(state.key, self._request.headers["authorization"], state.request_id, state.address)
        token = current_caller.set(caller)
        try:
            await serve_request(self._request, caller, scope, receive, send)
        finally:
            current_caller.reset(token)
