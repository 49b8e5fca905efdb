"""Sends one POST request to a checked address, within a total time, and reads only the beginning of the answer."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple, Protocol

import httpx2 as httpx

from copydesk.webhooks.targets import Target

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

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Trusts the certificates of `tls`; by default, those that the system trusts."""
        self._tls = tls

    async def post(self, target: Target, addresses: Sequence[str], headers: Mapping[str, str], body: bytes) -> Reply:
        """Returns the answer of the first address that can be reached. Raises NoReply if there is none.

        The caller limits the total time.
        """
        problem = "there is no address"
        tls = self._tls or _load_ssl_context()
        for address in addresses:
            # A transport for each request: a pool could use a connection whose certificate is that of another host.
            async with httpx.AsyncHTTPTransport(verify=tls, trust_env=False) as transport:
                try:
                    response = await transport.handle_async_request(_build_request(target, address, headers, body))
                except httpx.ConnectError as error:
                    if "CERTIFICATE_VERIFY_FAILED" in str(error):
                        raise NoReply(f"The certificate of {target.host} is not valid.") from None
                    problem = str(error)
                    continue
                except httpx.RemoteProtocolError as error:
                    raise NoReply(f"The answer is not valid HTTP: {error}.") from None
                except httpx.TransportError:
                    raise NoReply("The connection was closed before an answer.") from None
                if response.status_code < 200:
                    raise NoReply("The answer is not a response to a POST request.")
                excerpt = await _read_excerpt(response)
                return Reply(response.status_code, response.headers, excerpt)
        raise NoReply(f"{target.authority} cannot be reached: {problem}.")


@cache
def _load_ssl_context() -> ssl.SSLContext:
    """Returns the TLS context with the system's trusted certificates. Cached, because loading them is slow."""
    return ssl.create_default_context()


def _build_request(target: Target, address: str, headers: Mapping[str, str], body: bytes) -> httpx.Request:
    """Returns a request that connects to this address, while its Host header and TLS name the host."""
    host = f"[{address}]" if ":" in address else address
    return httpx.Request(
        "POST",
        f"{target.scheme}://{host}:{target.port}/",
        headers={"Host": target.authority, **headers, "Connection": "close"},
        content=body,
        extensions={"sni_hostname": target.host, "target": target.path.encode("ascii")},
    )


async def _read_excerpt(response: httpx.Response) -> bytes:
    """Returns the first bytes of the body, as far as they arrive in time."""
    excerpt = bytearray()
    with suppress(TimeoutError, httpx.TransportError):
        async with asyncio.timeout(EXCERPT_SECONDS):
            async for chunk in response.aiter_raw():
                excerpt += chunk
                if len(excerpt) >= MAX_EXCERPT_BYTES:
                    break
    return bytes(excerpt[:MAX_EXCERPT_BYTES])
