"""The addresses that webhooks may be sent to: parses URLs, resolves hosts, and refuses private addresses."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from copydesk.core.errors import InvalidRequest, UserFacingError
from copydesk.core.runtime.ip_addresses import is_public

MAX_URL_CHARS = 2_000
DEFAULT_PORTS = {"http": 80, "https": 443}
ALLOW_HINT = (
    "To allow http:// and private addresses, set COPYDESK_WEBHOOK_ALLOW_PRIVATE=true for the service and for the "
    "copydesk command, and restart the service."
)

Resolver = Callable[[str, int], Sequence[str]]


class TargetRefused(UserFacingError):
    """The host was not found, or it has an address that is not allowed."""


@dataclass(frozen=True)
class Target:
    """Where deliveries of an endpoint go."""

    scheme: str
    host: str
    """In ASCII, without brackets."""
    port: int
    path: str
    """With the query."""

    @property
    def authority(self) -> str:
        """Returns the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str, *, allow_private: bool) -> Target:
    """Returns the parts of a URL. Raises InvalidRequest for a URL that cannot be used."""
    if len(url) > MAX_URL_CHARS or not url.isprintable() or " " in url or not url.isascii():
        raise InvalidRequest(f"The URL must have at most {MAX_URL_CHARS:,} ASCII characters, without spaces.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidRequest("The URL is not valid. Use one such as https://example.org/hook.") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise InvalidRequest("The URL must begin with https:// and name a host.")
    if parts.scheme == "http" and not allow_private:
        raise InvalidRequest(f"The URL must begin with https://, so that others cannot read events. {ALLOW_HINT}")
    if parts.username is not None or parts.password is not None:
        raise InvalidRequest("The URL must not contain a user name or password.")
    if parts.fragment or "\\" in url:
        raise InvalidRequest("The URL must not contain a fragment (#…) or a backslash.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], path)


def resolve_host(host: str, port: int) -> list[str]:
    """Returns the addresses of a host from the system's resolver, without duplicates."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in entries))


def find_addresses(target: Target, *, allow_private: bool, resolve: Resolver = resolve_host) -> Sequence[str]:
    """Returns the addresses to connect to. Raises TargetRefused if one of them is private.

    The caller connects to these addresses and does not resolve the host again, which prevents DNS rebinding.
    """
    try:
        addresses = resolve(target.host, target.port)
    except (OSError, UnicodeError):
        addresses = []
    if not addresses:
        raise TargetRefused(f"The host {target.host} was not found.")
    if not allow_private and not all(is_public(address) for address in addresses):
        raise TargetRefused(f"{target.host} has a private address, which is not allowed. {ALLOW_HINT}")
    return addresses


def mask_url(target: Target, *, hide_path: bool) -> str:
    """Returns the URL without what may be secret: the query, and the path if it is one."""
    path = target.path.partition("?")[0]
    shown = "/…" if hide_path and path != "/" else path + ("?…" if "?" in target.path else "")
    return f"{target.scheme}://{target.authority}{shown}"
