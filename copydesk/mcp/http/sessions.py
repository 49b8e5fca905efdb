"""The sessions of one server: they let a client cancel a call, and let a tool ask the client.

A session lives in the memory of the server that opened it. Nothing else depends on it: a request of a session that this
server does not keep is served on its own. So no limit here refuses a client.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from starlette.types import Message, Receive, Scope, Send

from copydesk.core.accounts.api_keys import ApiKey
from copydesk.core.errors import RequestError
from copydesk.core.runtime.bounded_cache import BoundedCache
from copydesk.mcp.caller import Caller, get_caller

log = logging.getLogger(__name__)

SESSION_ID_BYTES = 32
MAX_ENDED_IDS = 10_000

OpenServer = Callable[[ApiKey], AbstractAsyncContextManager[Server[dict[str, Any]]]]
"""Returns a server whose tools have the rights of this key."""


class SessionNotFound(RequestError):
    status, code = 404, "session_not_found"
    message = "This MCP session has ended, or it belongs to another API key. Initialize a new one."


@dataclass(frozen=True)
class SessionLimits:
    per_key: int = 50
    total: int = 1_000
    idle_seconds: float = 30 * 60
    """A session without a request or an open stream ends after this time."""


class Session:
    """The session of one client: the SDK's transport, and a task that serves its messages."""

    def __init__(self, key: ApiKey, idle_seconds: float) -> None:
        self.id = secrets.token_urlsafe(SESSION_ID_BYTES)
        self.key_id = key.id
        self.transport = StreamableHTTPServerTransport(self.id, idle_timeout=idle_seconds)
        self.is_ready = asyncio.Event()
        """Set when messages can be served, or the task has failed."""
        self.task: asyncio.Task[None] | None = None
        self._open_messages = set[Caller]()

    @property
    def is_busy(self) -> bool:
        """Whether a message is being answered."""
        return bool(self._open_messages)

    @property
    def is_over(self) -> bool:
        idle_scope = self.transport.idle_scope
        return self.transport.is_terminated or idle_scope is None or idle_scope.cancel_called

    async def serve(self, server: Server[dict[str, Any]]) -> None:
        """Serves messages until the session ends or was idle for too long."""
        async with self.transport.connect() as (read_stream, write_stream):
            idle_scope = self.transport.idle_scope
            assert idle_scope is not None
            self.is_ready.set()
            with idle_scope:
                await server.run(read_stream, write_stream, server.create_initialization_options())

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> int | None:
        """Serves one request of the client. Returns the status of the response, or None if there was none.

        If the client disconnects, its call goes on: the protocol does not take that for a cancellation. A call that
        only waits ends when it next reports progress.
        """
        caller = get_caller()
        status: int | None = None

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        if scope["method"] == "POST":
            self._open_messages.add(caller)
        try:
            await self.transport.handle_request(scope, receive, send_and_note)
        finally:
            caller.has_left = True
            self._open_messages.discard(caller)
        return status

    async def end(self) -> None:
        """Ends all streams and the calls in progress. For the calls, this is not a cancellation."""
        for caller in self._open_messages:
            caller.has_left = True
        if not self.transport.is_terminated:
            with anyio.CancelScope(shield=True):
                await self.transport.terminate()


class SessionRegistry:
    """The sessions that this server keeps, in the order in which they were used last."""

    def __init__(self, limits: SessionLimits, open_server: OpenServer) -> None:
        self._limits = limits
        self._open_server = open_server
        self._sessions: dict[str, Session] = {}
        self._ended_ids = BoundedCache[str, bool](MAX_ENDED_IDS)

    def find(self, session_id: str, key: ApiKey) -> Session | None:
        """Returns the session, or None if this server does not keep it.

        Raises SessionNotFound if its client has ended it, or it belongs to another key.
        """
        session = self._sessions.get(session_id)
        if self._ended_ids.get(session_id) or (session is not None and session.key_id != key.id):
            raise SessionNotFound
        if session is None or session.is_over:
            return None
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    async def open(self, key: ApiKey) -> Session | None:
        """Opens a session. If there are too many, ends the one that was idle longest.

        Returns None if all of them are busy: then the client works without a session.
        """
        own = [each for each in self._sessions.values() if each.key_id == key.id]
        is_own_limit = len(own) >= self._limits.per_key
        evicted: Session | None = None
        if is_own_limit or len(self._sessions) >= self._limits.total:
            candidates = own if is_own_limit else self._sessions.values()
            evicted = next((each for each in candidates if not each.is_busy), None)
            if evicted is None:
                return None
            del self._sessions[evicted.id]
        session = Session(key, self._limits.idle_seconds)
        self._sessions[session.id] = session
        session.task = asyncio.create_task(self._run(session, key), context=Context())  # not that of this request
        if evicted is not None:
            await evicted.end()
        await session.is_ready.wait()
        return None if session.is_over else session

    async def end(self, session: Session) -> None:
        """Ends a session because its client asked for it. Remembers the ID, so that further requests are refused."""
        self._ended_ids.store(session.id, True)
        await self.discard(session)

    async def discard(self, session: Session) -> None:
        """Ends a session. Further requests of its client are served on their own."""
        self._sessions.pop(session.id, None)
        await session.end()

    async def _run(self, session: Session, key: ApiKey) -> None:
        try:
            async with self._open_server(key) as server:
                await session.serve(server)
        except Exception:
            log.exception("a session of MCP failed")
        finally:
            session.is_ready.set()
            await self.discard(session)
