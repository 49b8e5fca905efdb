"""Finds the client address of a request, also behind proxies."""

from collections.abc import Sequence
from functools import lru_cache
from socket import AF_INET, AF_INET6, inet_ntop

from starlette.datastructures import Headers
from starlette.types import Scope

from copydesk.analytics.ip_addresses import build_trusted_networks, find_client_address, parse_ip


class ClientAddressFinder:
    """Finds client addresses. Trusts `X-Forwarded-For` only from trusted proxies, like the import of access logs."""

    def __init__(self, trusted_proxies: Sequence[str]) -> None:
        self._proxies = build_trusted_networks(trusted_proxies)
        self._has_proxies = bool(trusted_proxies)

    def find_address(self, scope: Scope, headers: Headers) -> str | None:
        """Returns the client address without port, brackets or zone, and an IPv4-mapped IPv6 address as IPv4.

        None means unknown: a local socket, or a trusted proxy that sends no address.
        """
        peer = scope["client"][0] if scope.get("client") else None
        if not self._has_proxies:
            return normalize_address(peer) if peer else None
        address = find_client_address(peer, headers.getlist("x-forwarded-for"), self._proxies)
        return normalize_address(address) if address else None


@lru_cache(maxsize=1 << 12)
def normalize_address(text: str) -> str | None:
    address = parse_ip(text)
    if address is None:
        return None
    return inet_ntop(AF_INET if len(address) == 4 else AF_INET6, address)
