"""Refuses requests of web pages that pretend to be this service, as the protocol requires (DNS rebinding)."""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from copydesk.core.errors import RequestError

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class OriginRefused(RequestError):
    status, code = 403, "origin_refused"
    message = "MCP cannot be called from this web page. Its host is not that of COPYDESK_BASE_URL."


class HostRefused(RequestError):
    status, code = 421, "host_refused"
    message = (
        "This service is not known under this host name. Use the host of COPYDESK_BASE_URL, or add the name to "
        "COPYDESK_MCP_HOSTS."
    )


class OriginCheck:
    """Compares the headers Host and Origin with the host of the base URL and the other hosts in the settings.

    An attacker's page can make its own host name resolve to this server. So a name must be a known one, while an IP
    address needs no check. Browsers send Origin with every POST; other clients do not.
    """

    def __init__(self, base_url: str, more_hosts: Collection[str]) -> None:
        base_host = urlsplit(base_url).hostname or ""
        own_hosts = {base_host, *(_parse_host(f"//{host}") for host in more_hosts)} - {""}
        self._origin_hosts = own_hosts | (LOOPBACK_HOSTS if base_host in LOOPBACK_HOSTS else set())
        self._hosts = own_hosts | LOOPBACK_HOSTS

    def check(self, host: str | None, origin: str | None) -> None:
        """Raises HostRefused or OriginRefused."""
        host_name = _parse_host(f"//{host}")
        if host_name not in self._hosts and not _is_ip_address(host_name):
            raise HostRefused
        if origin is not None and _parse_host(origin) not in self._origin_hosts:
            raise OriginRefused


def _parse_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
