"""Resolves and checks a repository's host, for projects that forbid private addresses."""

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from copydesk.core.runtime.ip_addresses import is_public
from copydesk.jobs.job import RepositoryFailed

DEFAULT_PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """Returns whether a host names this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def pin_public_host(url: str) -> str:
    """Resolves the URL's host, and returns `host:port:address` to connect to. Raises RepositoryFailed if it is private.

    Connecting to the checked address prevents DNS rebinding.
    """
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise RepositoryFailed("This project only allows repositories at public addresses, not on this machine.")
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    try:
        entries = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        raise RepositoryFailed(f"The host {parts.hostname} was not found. Check the repository's URL.") from None
    addresses = [str(entry[4][0]) for entry in entries]
    for address in addresses:
        if not is_public(address.split("%")[0]):
            raise RepositoryFailed(
                f"{parts.hostname} resolves to a private address, which this project does not allow."
            )
    chosen = addresses[0]
    return f"{parts.hostname}:{port}:{f'[{chosen}]' if ':' in chosen else chosen}"
