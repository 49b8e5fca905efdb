"""The stream that a client opens for messages which belong to none of its calls. Counts as a live stream of the key."""

from contextlib import AbstractContextManager
from typing import Protocol

import anyio
from starlette.types import Message, Receive, Scope, Send

from copydesk.core.accounts.api_keys import ApiKey
from copydesk.core.errors import RequestError
from copydesk.mcp.caller import Caller
from copydesk.mcp.http.sessions import Session

CLOSE_SECONDS = 1
FIRST_LINE = b": open\r\n\r\n"
"""A comment, so that proxies pass the headers on at once."""


class StreamNotOffered(RequestError):
    status, code = 405, "method_not_allowed"
    message = "This server has no stream for this client: it keeps no session of it, or has too many live streams."

    def __init__(self) -> None:
        super().__init__(headers={"Allow": "POST, DELETE"})


class KeyStream(Protocol):
    async def wait_until_over(self) -> None:
        """Returns when the key has lost access or the server stops."""


class LiveStreams(Protocol):
    """The registry of live streams, which belongs to the API."""

    def open_for_key(self, key: ApiKey, address: str | None) -> AbstractContextManager[KeyStream | None]:
        """Registers a stream while the context lasts. Yields None if there is no room."""


async def serve_session_stream(
    session: Session | None, caller: Caller, streams: LiveStreams, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serves the stream until the client, its session, its key or the server ends it.

    Clients take StreamNotOffered for an answer and work without the stream.
    """
    if session is None:
        raise StreamNotOffered
    with streams.open_for_key(caller.key, caller.address) as stream:
        if stream is None:
            raise StreamNotOffered
        await _serve_until_over(session, stream, scope, receive, send)


async def _serve_until_over(session: Session, stream: KeyStream, scope: Scope, receive: Receive, send: Send) -> None:
    is_complete = True

    async def send_and_note(message: Message) -> None:
        nonlocal is_complete
        is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        await send(message)
        if message["type"] == "http.response.start" and message["status"] == 200:
            await send({"type": "http.response.body", "body": FIRST_LINE, "more_body": True})

    async def close_when_over() -> None:
        await stream.wait_until_over()
        session.transport.close_standalone_sse_stream()
        await anyio.sleep(CLOSE_SECONDS)  # a client that reads too slowly
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close_when_over)
        await session.handle(scope, receive, send_and_note)
        tasks.cancel_scope.cancel()
    if not is_complete:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
