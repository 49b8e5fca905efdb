"""Calls the API within the server: an HTTP transport that hands each request to the application itself."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2 as httpx
from starlette.types import ASGIApp, Message, Scope

from copydesk.mcp.caller import get_caller

ASGI_VERSIONS = {"version": "3.0", "spec_version": "2.3"}
"""With this version, a streamed response ends when `receive` reports that the client disconnected."""


class InProcessTransport(httpx.AsyncBaseTransport):
    """Sends requests through the whole application, with the key and from the address of the client that called.

    Responses are streamed, so that live events arrive as they happen.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        caller = get_caller()
        request.headers["Authorization"] = caller.authorization
        request.headers["X-Request-Id"] = caller.request_id
        body = await request.aread()
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": ASGI_VERSIONS,
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.partition(b"?")[0],
            "query_string": request.url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "server": (request.url.host, request.url.port),
            "client": (caller.address, 0) if caller.address else None,
        }
        exchange = _Exchange(self._app, scope, body)
        start = await exchange.start()
        return httpx.Response(start["status"], headers=start["headers"], stream=exchange)


class _Exchange(httpx.AsyncByteStream):
    """One request to the application, and the body of its response."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes) -> None:
        self._app, self._scope = app, scope
        self._requests: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        self._chunks = asyncio.Queue[bytes | None]()
        self._started = asyncio.get_running_loop().create_future()
        self._is_closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Message:
        """Starts the application and returns the head of its response.

        The application runs in a task of its own: if the caller is canceled, a request that changes something is
        still completed, as it would be if a client on the network disconnected.
        """
        self._task = asyncio.create_task(self._run())
        try:
            message: Message = await asyncio.shield(self._started)
        except BaseException:
            self._is_closed.set()
            raise
        return message

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        except Exception as error:  # the request gate has logged it
            if not self._started.done():
                self._started.set_exception(httpx.RemoteProtocolError(f"the request failed: {type(error).__name__}"))
        finally:
            if not self._started.done():
                self._started.set_exception(httpx.RemoteProtocolError("there was no response"))
            self._chunks.put_nowait(None)

    async def _receive(self) -> Message:
        if self._requests:
            return self._requests.pop()
        await self._is_closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self._started.done():
            self._started.set_result({"status": message["status"], "headers": list(message.get("headers", ()))})
        elif message["type"] == "http.response.body" and not self._is_closed.is_set():
            self._chunks.put_nowait(message.get("body", b""))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    async def aclose(self) -> None:
        """Disconnects, and waits until the application has noticed, so that its stream no longer counts as open."""
        self._is_closed.set()
        if self._task is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.wait({self._task})
