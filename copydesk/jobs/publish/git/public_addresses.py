"""Where a repository's address really leads, for projects that forbid private addresses."""

import socket
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from copydesk.jobs.job import RepositoryFailed

DEFAULT_PORTS = {"http": 80, "https": 443}
# NAT64, 6to4, Teredo: an IPv4 address of any kind may hide in these.
TRANSLATION_NETWORKS = tuple(
    ip_network(network) for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")
)


def is_public(address: str) -> bool:
    """Whether an address is one machine of the public internet, and not a private one behind a translation."""
    ip = ip_address(address)
    translated = any(ip in network for network in TRANSLATION_NETWORKS if network.version == ip.version)
    return ip.is_global and not ip.is_multicast and not translated


def pin_public_host(url: str) -> str:
    """`host:port:address` for git to connect to and no other: what was checked is what is used."""
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise RepositoryFailed("This project takes its repository from a public address only, not from this machine.")
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    try:
        entries = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        raise RepositoryFailed(f"The host {parts.hostname} cannot be found.") from None
    addresses = [str(entry[4][0]) for entry in entries]
    for address in addresses:
        if not is_public(address.split("%")[0]):
            raise RepositoryFailed(f"{parts.hostname} leads to a private address, which this project forbids.")
    chosen = addresses[0]
    return f"{parts.hostname}:{port}:{f'[{chosen}]' if ':' in chosen else chosen}"
