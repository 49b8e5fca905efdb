"""Reads request bodies completely before they are parsed, with limits on size, time and memory."""

import asyncio

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from copydesk.core.errors import RequestError, RequestTooLarge

MAX_DRAINED_BYTES = 64 * 1024 * 1024
"""How much of a body that is too large is read and dropped, so that the client gets to read the error."""
MIN_BYTES_PER_SECOND = 32 * 1024
FREE_BYTES_PER_BODY = 64 * 1024
"""The part of every body that the memory limit does not count, so that large requests never block small ones."""


class BodyTimeout(RequestError):
    status, code = 408, "request_timeout"
    message = "The request body did not arrive in time."

    def __init__(self) -> None:
        super().__init__(headers={"Connection": "close"})


class BodyMemoryFull(RequestError):
    status, code = 503, "server_busy"
    message = "The server is busy with other large requests. Try again shortly."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "1"})


class BodyMemory:
    """Limits the memory that all bodies use together, not counting the free part of each.

    Requests without an API key get at most half of it, so that they cannot block requests with a key.
    """

    def __init__(self, max_bytes: int) -> None:
        self._limits = {True: max_bytes, False: max_bytes // 2}
        self._held = {True: 0, False: 0}

    def grow(self, before: int, after: int, has_key: bool) -> None:
        """Counts a body that grows from one size to another. Raises BodyMemoryFull if the limit is reached."""
        growth = max(0, after - FREE_BYTES_PER_BODY) - max(0, before - FREE_BYTES_PER_BODY)
        held = sum(self._held.values()) if has_key else self._held[False]
        if growth > 0 and held + growth > self._limits[has_key]:
            raise BodyMemoryFull
        self._held[has_key] += growth

    def release(self, size: int, has_key: bool) -> None:
        self._held[has_key] -= max(0, size - FREE_BYTES_PER_BODY)


class BodyReader:
    def __init__(self, memory: BodyMemory, seconds: float) -> None:
        """A body must arrive within `seconds`, plus one second for every MIN_BYTES_PER_SECOND of it."""
        self.memory = memory
        self._seconds = seconds

    async def read(self, headers: Headers, receive: Receive, max_bytes: int, has_key: bool) -> bytes:
        """Returns the whole body, whose memory the caller must release. Raises RequestTooLarge if it is too large.

        Counts the bytes that arrive and does not rely on the headers.
        """
        declared = headers.get("content-length", "")
        expects_continue = "100-continue" in headers.get("expect", "").lower()
        if declared.isdecimal() and int(declared) > (max_bytes if expects_continue else MAX_DRAINED_BYTES):
            raise _too_large_error(max_bytes)
        body = _Body(self.memory, max_bytes, has_key)
        if declared or "transfer-encoding" in headers:
            return await self._read_in_time(receive, body)
        message = await receive()  # there is no body, so this does not wait
        if message["type"] == "http.request" and not message.get("body") and not message.get("more_body"):
            return b""
        return await self._read_in_time(replay(message, receive), body)

    async def _read_in_time(self, receive: Receive, body: "_Body") -> bytes:
        try:
            async with asyncio.timeout(self._seconds) as timeout:
                deadline = timeout.when() or 0.0
                has_more = True
                while has_more and body.size <= MAX_DRAINED_BYTES:
                    part, has_more = _read_part(await receive())
                    body.add(part)
                    if has_more and not body.is_too_large:
                        timeout.reschedule(deadline + body.size / MIN_BYTES_PER_SECOND)
            if not body.is_too_large:
                return bytes(body.content)
        except TimeoutError:
            if not body.is_too_large:
                body.drop()
                raise BodyTimeout from None
        except BaseException:
            body.drop()
            raise
        raise _too_large_error(body.max_bytes)


class _Body:
    """A body that is being received. Drops its content once it is too large."""

    def __init__(self, memory: BodyMemory, max_bytes: int, has_key: bool) -> None:
        self.content = bytearray()
        self.size = 0
        self.max_bytes = max_bytes
        self._memory = memory
        self._has_key = has_key

    @property
    def is_too_large(self) -> bool:
        return self.size > self.max_bytes

    def add(self, part: bytes) -> None:
        self.size += len(part)
        if self.is_too_large:
            self.drop()
        else:
            self._memory.grow(len(self.content), self.size, self._has_key)
            self.content += part

    def drop(self) -> None:
        self._memory.release(len(self.content), self._has_key)
        self.content = bytearray()


def _read_part(message: Message) -> tuple[bytes, bool]:
    """Returns the part of the body in this message, and whether more may follow."""
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


def replay(message: Message, receive: Receive) -> Receive:
    """Returns a `receive` that first returns this message, and then the next messages of the connection."""
    is_replayed = False

    async def receive_again() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return message

    return receive_again


def _too_large_error(max_bytes: int) -> RequestTooLarge:
    return RequestTooLarge(f"The request body is larger than {max_bytes // 1024} KiB.")
