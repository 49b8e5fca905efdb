"""Finds the client address of a request, also behind proxies."""

import logging
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address
from socket import AF_INET, AF_INET6, inet_ntop

from starlette.datastructures import Headers
from starlette.types import Scope

from copydesk.analytics.ip_addresses import build_trusted_networks, find_client_address, parse_ip

log = logging.getLogger(__name__)


class ClientAddressFinder:
    """Finds client addresses. Trusts `X-Forwarded-For` only from trusted proxies, like the import of access logs.

    Warns once if requests come through a proxy although none is trusted.
    """

    def __init__(self, trusted_proxies: Sequence[str]) -> None:
        self._proxies = build_trusted_networks(trusted_proxies)
        self._has_proxies = bool(trusted_proxies)
        self._has_warned = False

    def find_address(self, scope: Scope, headers: Headers) -> str | None:
        """Returns the client address without port, brackets or zone, and an IPv4-mapped IPv6 address as IPv4.

        None means unknown: a local socket, or a trusted proxy that sends no address.
        """
        peer = scope["client"][0] if scope.get("client") else None
        if not self._has_proxies:
            client_address = normalize_address(peer) if peer else None
            if not self._has_warned and client_address and "x-forwarded-for" in headers:
                self._warn_of_untrusted_proxy(client_address)
            return client_address
        address = find_client_address(peer, headers.getlist("x-forwarded-for"), self._proxies)
        return normalize_address(address) if address else None

    def _warn_of_untrusted_proxy(self, peer: str) -> None:
        """Logs a warning if the sender of `X-Forwarded-For` is on this machine or in a private network.

        Other senders are no proxy of ours: everyone can send the header.
        """
        if ip_address(peer).is_private:
            self._has_warned = True
            log.warning(
                "requests come through a proxy at %s, but COPYDESK_TRUSTED_PROXIES is not set. So all callers seem to "
                "have the proxy's address: they share its rate limits, and readers with the same browser count as one "
                "visitor. If this is your proxy, set COPYDESK_TRUSTED_PROXIES=%s and restart",
                peer,
                peer,
            )


@lru_cache(maxsize=1 << 12)
def normalize_address(text: str) -> str | None:
    address = parse_ip(text)
    if address is None:
        return None
    return inet_ntop(AF_INET if len(address) == 4 else AF_INET6, address)
