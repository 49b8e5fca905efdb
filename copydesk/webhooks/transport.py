"""Sends one POST request to a checked address, within a total time, and reads only the beginning of the answer."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple, Protocol

import httptools

from copydesk.webhooks.targets import Target

MAX_HEAD_BYTES = 32 * 1024
MAX_EXCERPT_BYTES = 2_000
EXCERPT_SECONDS = 2.0
"""How long to wait for the body after the headers. The status counts; the body is only for the log."""


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    excerpt: bytes
    """The first bytes of the body."""


class NoReply(Exception):
    """There was no answer. The message says why."""


class Transport(Protocol):
    async def post(
        self, target: Target, addresses: Sequence[str], headers: Mapping[str, str], body: bytes
    ) -> Reply: ...


class HttpTransport:
    """Sends over HTTP/1.1 with one connection for each request. Uses no proxy and follows no redirect."""

    async def post(self, target: Target, addresses: Sequence[str], headers: Mapping[str, str], body: bytes) -> Reply:
        """Returns the answer. Raises NoReply if there is none. The caller limits the total time."""
        connection, transport = await _connect(target, addresses)
        try:
            transport.write(_build_request(target, headers, body))
            await connection.head_read
            with suppress(TimeoutError):
                await asyncio.wait_for(connection.body_read, EXCERPT_SECONDS)
            return Reply(connection.status, connection.headers, bytes(connection.excerpt))
        finally:
            transport.abort()


@cache
def _load_ssl_context() -> ssl.SSLContext:
    """Returns the TLS context with the system's trusted certificates. Cached, because loading them is slow."""
    return ssl.create_default_context()


async def _connect(target: Target, addresses: Sequence[str]) -> tuple["_ReplyParser", asyncio.WriteTransport]:
    """Connects to the first address that answers. The certificate must be that of the host."""
    loop = asyncio.get_running_loop()
    context = _load_ssl_context() if target.scheme == "https" else None
    host = target.host if context else None
    problem = "there is no address"
    for address in addresses:
        try:
            transport, parser = await loop.create_connection(
                _ReplyParser, address, target.port, ssl=context, server_hostname=host
            )
        except ssl.SSLCertVerificationError:
            raise NoReply(f"The certificate of {target.host} is not valid.") from None
        except (OSError, ssl.SSLError) as error:
            problem = error.strerror or type(error).__name__
        else:
            return parser, transport
    raise NoReply(f"{target.authority} cannot be reached: {problem}.")


def _build_request(target: Target, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class _ReplyParser(asyncio.Protocol):
    """Parses an answer as it arrives. Stops reading when the excerpt is full."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.head_read: asyncio.Future[None] = loop.create_future()
        self.body_read: asyncio.Future[None] = loop.create_future()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.excerpt = bytearray()
        self._parser = httptools.HttpResponseParser(self)
        self._head_bytes = 0
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self.body_read.done():
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._end(NoReply("The answer is not a response to a POST request."))
        except httptools.HttpParserError:
            self._end(NoReply("The answer is not valid HTTP."))
        self._head_bytes += len(data)
        if not self.head_read.done() and self._head_bytes > MAX_HEAD_BYTES:
            self._end(NoReply("The headers of the answer are too long."))

    def connection_lost(self, error: Exception | None) -> None:
        self._end(NoReply("The connection was closed before an answer."))

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer, such as 100 or 103
            self.headers = {}
        elif not self.head_read.done():
            self.status = status
            self.head_read.set_result(None)

    def on_body(self, body: bytes) -> None:
        self.excerpt += body[: MAX_EXCERPT_BYTES - len(self.excerpt)]
        if len(self.excerpt) >= MAX_EXCERPT_BYTES:
            self._end()

    def on_message_complete(self) -> None:
        if self.head_read.done():
            self._end()

    def _end(self, problem: NoReply | None = None) -> None:
        """Ends the reading. A problem counts only before the headers, since the status decides."""
        if not self.head_read.done():
            self.head_read.set_exception(problem or NoReply("The answer is empty."))
        if not self.body_read.done():
            self.body_read.set_result(None)
        if self._transport is not None:
            self._transport.abort()  # type: ignore[attr-defined]
