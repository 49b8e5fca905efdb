"""Lets the conformance suite, which speaks only HTTP, test a server on standard input and output.

Passes each message on as it is, except IDs, which must be unique on one connection. Every answer is a stream with the
status 200: what the suite checks about HTTP itself is not about the server behind the bridge.
"""

import asyncio
import json
import uuid
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.support.mcp_clients import run_server

NEWEST_VERSION = "2026-07-28"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
MAX_MESSAGE_BYTES = 1 << 22
DISCOVER: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "discover",
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": NEWEST_VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
"""The first request of a client of the newest version. It decides which versions a connection speaks."""


@dataclass
class Exchange:
    """One request of the suite and the messages that answer it."""

    request: dict[str, Any]
    messages: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue)

    @property
    def meta(self) -> dict[str, Any]:
        meta: dict[str, Any] = (self.request.get("params") or {}).get("_meta") or {}
        return meta


class Connection:
    """One process that speaks MCP on its standard input and output."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._exchanges: dict[str, Exchange] = {}
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, command: Sequence[str], environment: Mapping[str, str]) -> "Connection":
        process = await asyncio.create_subprocess_exec(
            *command, env=dict(environment), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=MAX_MESSAGE_BYTES
        )
        return cls(process)

    async def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        await self._process.stdin.drain()

    async def request(self, request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Sends a request under an ID of its own. Yields the messages about it; the last is the response."""
        exchange, number = Exchange(request), str(uuid.uuid4())
        self._exchanges[number] = exchange
        is_answered = False
        try:
            await self.send(_replace_ids(request, number, number))
            while (message := await exchange.messages.get()) is not None:
                is_answered = "method" not in message
                yield message
                if is_answered:
                    return
        finally:
            del self._exchanges[number]
            if not is_answered and self._process.returncode is None:  # the suite has disconnected
                params = {"requestId": number}
                await self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reader

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            for number, exchange in self._find_exchanges(message):
                request = exchange.request
                exchange.messages.put_nowait(
                    _replace_ids(message, request.get("id"), exchange.meta.get("progressToken"), number)
                )
        for exchange in self._exchanges.values():
            exchange.messages.put_nowait(None)

    def _find_exchanges(self, message: dict[str, Any]) -> list[tuple[str, Exchange]]:
        """Returns the request that a message is about; all of them if the message does not say."""
        params = message.get("params") or {}
        known = [params.get("progressToken"), (params.get("_meta") or {}).get(SUBSCRIPTION_ID)]
        if "method" not in message:
            known = [message.get("id")]
        named = [(number, self._exchanges[number]) for number in known if number in self._exchanges]
        return named or (list(self._exchanges.items()) if "method" in message else [])


def _replace_ids(message: dict[str, Any], request_id: Any, token: Any, number: str | None = None) -> dict[str, Any]:
    """Returns the message with this ID, token of progress and subscription ID where it has one.

    With a number, only places that have this number are replaced. Requests of the server keep their IDs.
    """

    def replace_in(part: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
        return {**part, name: value} if name in part and number in (None, part[name]) else part

    message = replace_in(message, "id", request_id)
    if "params" not in message:
        return message
    params = replace_in(message["params"], "progressToken", token)
    if "_meta" in params:
        meta = replace_in(replace_in(params["_meta"], "progressToken", token), SUBSCRIPTION_ID, request_id)
        params = {**params, "_meta": meta}
    return {**message, "params": params}


class StdioBridge:
    """Answers POST. A client that begins with `initialize` gets a process of its own; all others share one."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._sessions: dict[str, Connection] = {}
        self._shared: Connection | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        request = Request(scope, receive)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        connections = [*self._sessions.values(), *([self._shared] if self._shared else [])]
        await asyncio.gather(*(connection.close() for connection in connections))
        await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, request: Request) -> Response:
        session_id = request.headers.get("mcp-session-id", "")
        if request.method == "DELETE" and session_id in self._sessions:
            await self._sessions.pop(session_id).close()
            return Response(status_code=204)
        if request.method != "POST":
            return Response(status_code=405, headers={"Allow": "POST"})
        if session_id and session_id not in self._sessions:
            return Response(status_code=404)
        message: dict[str, Any] = await request.json()
        is_new = message.get("method") == "initialize" and (
            request.headers.get("mcp-protocol-version") != NEWEST_VERSION
        )
        if is_new:
            session_id = str(uuid.uuid4())
            self._sessions[session_id] = await Connection.open(self._command, self._environment)
        connection = self._sessions.get(session_id) or await self._open_shared()
        if "id" not in message or "method" not in message:
            await connection.send(message)
            return Response(status_code=202)
        headers = {"Mcp-Session-Id": session_id} if is_new else {}
        stream = (f"data: {json.dumps(each)}\n\n" async for each in connection.request(message))
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _open_shared(self) -> Connection:
        async with self._lock:
            if self._shared is None:
                self._shared = await Connection.open(self._command, self._environment)
                _ = [message async for message in self._shared.request(DISCOVER)]
        return self._shared


@contextmanager
def serve_stdio(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Serves a command that speaks MCP on standard input and output. Yields the URL of the bridge."""
    with run_server(StdioBridge(command, environment)) as url:
        yield url
