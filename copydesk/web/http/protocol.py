"""HTTP on one connection, with limits on what a client may send before it is authenticated.

Errors at this level, such as headers that are too large, are sent in the API's error format.
"""

import asyncio
import json
import math
from http import HTTPStatus
from typing import ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from copydesk.core.errors import RequestError
from copydesk.core.ids import new_request_id
from copydesk.web.http.connections import Connections
from copydesk.web.http.request_body import MAX_DRAINED_BYTES, BodyTimeout

MAX_HEAD_BYTES = 64 * 1024
MAX_PIPELINED_REQUESTS = 100
MAX_UNCHECKED_CHUNKS, MIN_AVERAGE_CHUNK_BYTES = 2_000, 16
"""After this many chunks of a body, they must have this average size, since each chunk costs the same CPU time."""
LINGER_SECONDS = 5.0
DRAIN_SECONDS = 15.0
STALLED_SECONDS = 60.0
"""How long a client may stop reading while a response waits for it."""
MAX_LINGERING_REFUSALS = 64
"""How many refused connections may stay open for a moment, so that the client can read the error."""


class NotHttp(RequestError):
    message = "This is not a valid HTTP request."


class UpgradeWithBody(NotHttp):
    message = "The server supports no other protocol. Send the request without the Upgrade header."


class HeadersTooLarge(RequestError):
    status, code = 431, "headers_too_large"
    message = "The request line and the headers are larger than 64 KiB together."


class HeadersTimeout(BodyTimeout):
    message = "The request headers did not arrive in time."


class ParserStopped(Exception):
    """Stops the parser. `HttpProtocol.refusal` is the reason."""


class HttpProtocol(HttpToolsProtocol):
    """Closes a connection that exceeds a limit. `enforce_deadlines` checks the deadlines once per second.

    `deadline` is when the head must be complete, or the rest of a body whose request has already been answered. It is
    infinite while a request is running; its body has a separate timeout (see `request_body.py`).
    """

    open_connections: ClassVar[Connections]
    header_seconds: ClassVar[float]

    refusal: RequestError | None = None
    deadline = math.inf
    write_deadline = math.inf
    _is_lingering = False
    _is_refused = False
    _least_unread_bytes = math.inf
    """The smallest number of unsent response bytes seen since the response began to wait for its reader."""
    _is_in_message = False
    _bytes_since_report = 0
    """Bytes received after the feed in which the parser last reported a complete head or a part of a body."""
    _last_feed_bytes = 0
    """The size of that feed. The next head may have begun in it."""
    _body_chunks = _body_chunk_bytes = _dropped_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.deadline = self.loop.time() + self.header_seconds
        refusal = self.open_connections.admit(self.client[0] if self.client else None)
        if refusal is not None:
            self._refuse_connection(refusal)

    def _refuse_connection(self, refusal: RequestError) -> None:
        """Sends the error before any request, and closes later. Closing at once while the client sends would reset the
        connection, and the client could not read the error."""
        self.open_connections.log_refusal(refusal)
        self._send_error(refusal)
        if self.open_connections.lingering >= MAX_LINGERING_REFUSALS:
            self.transport.close()
            return
        self.open_connections.lingering += 1
        self._is_refused = self._is_lingering = True
        self.deadline = self.loop.time() + LINGER_SECONDS
        self.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.lingering -= self._is_refused
        self.open_connections.release(self.client[0] if self.client else None)
        self.deadline = self.write_deadline = math.inf
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_lingering:
            self._count_drained(len(data))
            return
        self._bytes_since_report += len(data)
        self._feed(data)
        if not self._bytes_since_report:
            self._last_feed_bytes = len(data)
        elif self._bytes_since_report > MAX_HEAD_BYTES and not self._is_lingering:
            self.refuse(NotHttp() if self._is_in_message else HeadersTooLarge())

    def _feed(self, data: bytes) -> None:
        """Feeds the parser like the base class, but does not log every request that is not HTTP."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # no other protocol is supported: the request is handled like any other
        except httptools.HttpParserError:
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and _has_body(self.headers):
            self._stop_parser(UpgradeWithBody())  # the parser would treat the body as another protocol
        if self._bytes_since_report + self._last_feed_bytes > MAX_HEAD_BYTES and self._head_bytes() > MAX_HEAD_BYTES:
            self._stop_parser(HeadersTooLarge())
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            self._stop_parser(NotHttp(f"You can pipeline at most {MAX_PIPELINED_REQUESTS} requests on one connection."))
        self.deadline = math.inf
        self._is_in_message = True
        self._bytes_since_report = self._body_chunks = self._body_chunk_bytes = self._dropped_bytes = 0
        super().on_headers_complete()
        self.headers = []  # so that trailers do not become headers of the request

    def on_body(self, body: bytes) -> None:
        self._bytes_since_report = 0
        self._body_chunks += 1
        self._body_chunk_bytes += len(body)
        if (
            self._body_chunks > MAX_UNCHECKED_CHUNKS
            and self._body_chunk_bytes < self._body_chunks * MIN_AVERAGE_CHUNK_BYTES
        ):
            self._stop_parser(NotHttp("The body has too many small chunks."))
        if self.cycle.response_complete:
            self._count_drained(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes_since_report = 0
        self._is_in_message = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        has_next = bool(self.pipeline)
        super().on_response_complete()
        if self._is_in_message and not has_next:
            self.deadline = self.loop.time() + DRAIN_SECONDS
        elif not has_next:
            self.deadline = self.loop.time() + self.timeout_keep_alive + self.header_seconds

    def pause_writing(self) -> None:
        self._wait_for_reader()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.write_deadline = math.inf
        super().resume_writing()

    def _wait_for_reader(self) -> None:
        self.write_deadline = self.loop.time() + STALLED_SECONDS
        self._least_unread_bytes = math.inf

    def _is_being_read(self) -> bool:
        """Returns whether the client is reading the response, even if slowly."""
        unread = self.transport.get_write_buffer_size()
        if not unread or self._is_lingering:
            return False
        if self.write_deadline == math.inf:
            self._wait_for_reader()
        if unread < self._least_unread_bytes:
            self._least_unread_bytes = unread
            self.write_deadline = self.loop.time() + STALLED_SECONDS
        return self.loop.time() <= self.write_deadline

    def time_out(self) -> None:
        """Closes a connection whose deadline has passed. Sends an error if possible."""
        if self._is_being_read():
            return
        has_begun_head = self._bytes_since_report and not self._is_in_message and not self._is_lingering
        if has_begun_head and self.write_deadline == math.inf:
            self.refuse(HeadersTimeout())
        elif self._is_lingering or self._is_in_message or self.write_deadline < math.inf:
            self.transport.abort()
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Sends the error that stopped the parser."""
        self.refuse(self.refusal or NotHttp())

    def refuse(self, refusal: RequestError) -> None:
        """Sends the error. Closes the connection only after the client has, so that the client can read the error."""
        self.deadline = self.loop.time() + LINGER_SECONDS
        self._is_lingering = True
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        if self.pipeline:  # the error would overtake the responses to earlier requests
            self.transport.abort()
            return
        is_at_work = self.cycle is not None and not self.cycle.response_complete
        was_answered = self.cycle is not None and (self.cycle.response_started if is_at_work else self._is_in_message)
        if is_at_work:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if was_answered or self.transport.is_closing():
            self.transport.abort()
            return
        self._send_error(refusal)
        self.transport.write_eof()

    def _send_error(self, refusal: RequestError) -> None:
        request_id = new_request_id()
        body = json.dumps({"error": refusal.message, "code": refusal.code, "requestId": request_id}).encode()
        headers = {
            "Content-Type": "application/json",
            "X-Request-Id": request_id,
            "Content-Length": str(len(body)),
            "Connection": "close",
            **refusal.headers,
        }
        head = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"{head}{lines}\r\n".encode() + body)

    def _stop_parser(self, refusal: RequestError) -> None:
        self.refusal = refusal
        raise ParserStopped

    def _count_drained(self, size: int) -> None:
        """Counts bytes that are read and dropped after the response. Aborts the connection beyond MAX_DRAINED_BYTES.

        A client may read the response only after it has sent everything.
        """
        self._dropped_bytes += size
        if self._dropped_bytes > MAX_DRAINED_BYTES:
            self.transport.abort()

    def _head_bytes(self) -> int:
        lines = sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        return len(self.url) + len("OPTIONS  HTTP/1.1\r\n") + lines


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers)


def enforce_deadlines(connections: "set[HttpProtocol]", now: float) -> None:
    """Times out connections whose deadline has passed. One check per second costs less than a timer per connection."""
    for connection in [each for each in connections if each.deadline < now or each.write_deadline < now]:
        connection.time_out()
