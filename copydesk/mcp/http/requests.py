"""Serves HTTP requests with the SDK. Imported at the first request, because the SDK is slow to import."""

import json
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx
from fastapi import FastAPI, Request
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from sse_starlette.sse import AppStatus
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from copydesk.core.accounts.api_keys import ApiKey
from copydesk.mcp.api import Api
from copydesk.mcp.caller import Caller, get_caller
from copydesk.mcp.http.in_process import InProcessTransport
from copydesk.mcp.http.session_streams import serve_session_stream
from copydesk.mcp.http.sessions import Session, SessionLimits, SessionNotFound, SessionRegistry
from copydesk.mcp.server import BuildServer, build_server

IN_PROCESS_URL = "http://copydesk"
SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
MAX_SESSION_MESSAGE_BYTES = 4 * 1024
"""Larger messages are served on their own: the SDK keeps the last message of each session in memory."""

logging.getLogger("mcp").setLevel(logging.WARNING)  # the SDK logs the start and end of every request
logging.getLogger("httpx2").setLevel(logging.WARNING)
AppStatus.enable_automatic_graceful_drain = False  # it cuts off responses at SIGTERM; ours end by themselves


async def serve_request(request: Request, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
    """Serves a message, the stream of a session, or the end of a session."""
    sessions = _get_sessions(request.app)
    scope = _strip_header_values(scope)
    if request.method == "POST":
        body = await request.body()
        await _serve_message(request.app, sessions, caller.key, body, scope, _replay(body, receive), send)
        return
    session = _find_session(sessions, caller.key, scope)
    if request.method == "GET":
        await serve_session_stream(session, caller, request.app.state.streams, scope, receive, send)
        return
    if session is None:
        raise SessionNotFound
    await sessions.end(session)
    await Response(status_code=204)(scope, receive, send)


async def _serve_message(
    app: FastAPI, sessions: SessionRegistry, key: ApiKey, body: bytes, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serves a message within the session that it names, if this server keeps that session.

    Serves other messages on their own, so that any server can answer them, also after a restart.
    """
    if _has_handshake(scope) and len(body) <= MAX_SESSION_MESSAGE_BYTES and _is_initialize(body):
        await _initialize(app, sessions, key, scope, receive, send)
        return
    session = _find_session(sessions, key, scope)
    if session is not None and len(body) <= MAX_SESSION_MESSAGE_BYTES:
        await session.handle(scope, receive, send)
    else:
        await _serve_alone(app, key, scope, receive, send)


async def _initialize(
    app: FastAPI, sessions: SessionRegistry, key: ApiKey, scope: Scope, receive: Receive, send: Send
) -> None:
    """Opens a session with its first message. Keeps it only if that is accepted."""
    session = await sessions.open(key)
    if session is None:
        await _serve_alone(app, key, scope, receive, send)
        return
    status = None
    try:
        status = await session.handle(_without_session_id(scope), receive, send)
    finally:
        if status is None or status >= 400:
            await sessions.discard(session)


async def _serve_alone(app: FastAPI, key: ApiKey, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one message. The server and all its tasks end with the response."""
    async with _open_server(app, key) as server:
        manager = StreamableHTTPSessionManager(server, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)


@asynccontextmanager
async def _open_server(app: FastAPI, key: ApiKey) -> AsyncIterator[Server[dict[str, Any]]]:
    """Yields a server whose tools call the API within this process, with the key and address of the current caller.

    The application's state can name another function that builds the server, as `build_mcp_server`.
    """

    async def load_scopes() -> Collection[str]:
        return get_caller().key.scopes

    transport = InProcessTransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=IN_PROCESS_URL, trust_env=False, timeout=None) as http:
        build: BuildServer = getattr(app.state, "build_mcp_server", build_server)
        yield build(Api(http, key.project_id), load_scopes)


def _get_sessions(app: FastAPI) -> SessionRegistry:
    """Returns the sessions of this server. The application's state can name other limits, as `mcp_session_limits`."""
    if not hasattr(app.state, "mcp_sessions"):
        limits = getattr(app.state, "mcp_session_limits", SessionLimits())
        app.state.mcp_sessions = SessionRegistry(limits, lambda key: _open_server(app, key))
    sessions: SessionRegistry = app.state.mcp_sessions
    return sessions


def _find_session(sessions: SessionRegistry, key: ApiKey, scope: Scope) -> Session | None:
    session_id = Headers(scope=scope).get(SESSION_HEADER)
    return sessions.find(session_id, key) if session_id and _has_handshake(scope) else None


def _has_handshake(scope: Scope) -> bool:
    """Returns whether the request is of a version that begins with `initialize`. Only these have sessions."""
    version = Headers(scope=scope).get(VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def _is_initialize(body: bytes) -> bool:
    if b'"initialize"' not in body:
        return False
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and message.get("method") == "initialize" and "id" in message


def _replay(body: bytes, receive: Receive) -> Receive:
    """Returns a function that delivers the body, which was read, and then what follows."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_next() -> Message:
        return messages.pop() if messages else await receive()

    return receive_next


def _strip_header_values(scope: Scope) -> Scope:
    """Removes white space around header values, which the HTTP parser leaves and the SDK compares with the body."""
    return {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}


def _without_session_id(scope: Scope) -> Scope:
    """Removes the session ID of a client that initializes again: it gets a new one, never one that it chose."""
    return {**scope, "headers": [header for header in scope["headers"] if header[0] != SESSION_HEADER.encode()]}
