"""Where a repository's address really leads, for projects that forbid private addresses."""

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from copydesk.jobs.job import RepositoryFailed

PORTS = {"http": 80, "https": 443}


def pinned_host(url: str) -> str:
    """`host:port:address` for git to connect to and no other: what was checked is what is used."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise RepositoryFailed("This project takes its repository from a public address only, not from this machine.")
    port = parts.port or PORTS[parts.scheme]
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        raise RepositoryFailed(f"The host {parts.hostname} cannot be found.") from None
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not ip_address(address.split("%")[0]).is_global:
            raise RepositoryFailed(f"{parts.hostname} leads to a private address, which this project forbids.")
    chosen = addresses[0]
    return f"{parts.hostname}:{port}:{f'[{chosen}]' if ':' in chosen else chosen}"
