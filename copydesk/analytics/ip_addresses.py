"""Parses IP addresses in all forms that servers write, and finds the client's address behind trusted proxies."""

import re
import socket
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Generic, TypeVar

MAX_ADDRESS_CHARS = 64
IPV4_BYTES, IPV6_NETWORK_BYTES = 4, 8
IPV4_MAPPED_PREFIX = bytes(10) + b"\xff\xff"
FORWARDED_FOR_PATTERN = re.compile(r'(?:^|[;,])[ \t]*for=("[^"\\]{0,80}"|[^",;\s]{0,80})', re.IGNORECASE)
Value = TypeVar("Value")


@lru_cache(maxsize=1 << 16)
def parse_ip(text: str) -> bytes | None:
    """Returns the address as 4 or 16 bytes, or None if it is invalid.

    Accepts ports, brackets and zones. Converts IPv4-mapped IPv6 addresses to IPv4.
    """
    text = text.strip().strip('"')
    if len(text) > MAX_ADDRESS_CHARS or not text.isascii():
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    text = text.partition("%")[0]
    if "\0" in text:
        return None
    try:
        if ":" not in text:
            return socket.inet_pton(socket.AF_INET, text)
        address = socket.inet_pton(socket.AF_INET6, text)
    except OSError:
        return None
    return address[12:] if address.startswith(IPV4_MAPPED_PREFIX) else address


def to_client_network(address: bytes) -> bytes:
    """Returns an IPv4 address unchanged, and the /64 network of an IPv6 address.

    One client usually has a whole /64, and its device changes the rest of the address daily (RFC 8981).
    """
    return address if len(address) == IPV4_BYTES else address[:IPV6_NETWORK_BYTES]


class NetworkTable(Generic[Value]):
    """Maps networks to values. An address has the value of the narrowest network that contains it."""

    def __init__(self, entries: Iterable[tuple[str, Value]]) -> None:
        """Keeps the first entry of equal networks. Raises ValueError for an invalid network."""
        networks: dict[int, dict[tuple[bytes, int], tuple[bytes, Value]]] = {4: {}, 16: {}}
        for text, value in entries:
            network = _unmap_ipv4_network(ip_network(text.strip(), strict=False))
            first = network.network_address.packed
            last = network.broadcast_address.packed
            networks[len(first)].setdefault((first, network.prefixlen), (last, value))
        self._intervals = {size: _build_intervals(same_size) for size, same_size in networks.items()}

    def get(self, address: bytes) -> Value | None:
        starts, values = self._intervals[len(address)]
        return values[bisect_right(starts, address)]


def build_trusted_networks(networks: Iterable[str]) -> NetworkTable[bool]:
    return NetworkTable((network, True) for network in networks)


def find_client_address(
    peer: str | None,
    header_values: Sequence[str],
    trusted_proxies: NetworkTable[bool],
    header_name: str = "x-forwarded-for",
) -> str | None:
    """Returns the client's address: the rightmost hop that is not a trusted proxy. Hops left of it may be forged.

    `header_values` are the values of the header that the proxies write. Returns None if a trusted proxy reports a hop
    that is not an address: counting the proxy as a visitor would be worse than counting no visitor.
    """
    # A Unix socket has no peer address, and only our own proxy can open it.
    hops = [*_parse_hops(header_values, header_name), *([peer] if peer else [])]
    for hop in reversed(hops):
        address = parse_ip(hop)
        if address is None:
            return None
        if not trusted_proxies.get(address):
            return hop
    return hops[0] if hops else None


def _parse_hops(header_values: Sequence[str], header_name: str) -> list[str]:
    text = ",".join(header_values)
    parts = FORWARDED_FOR_PATTERN.findall(text) if header_name.lower() == "forwarded" else text.split(",")
    return [hop.strip() for hop in parts if hop.strip()]


def _build_intervals(
    networks: Mapping[tuple[bytes, int], tuple[bytes, Value]],
) -> tuple[list[bytes], list[Value | None]]:
    """Returns the addresses where the value changes, and the values: `values[n]` applies from `starts[n - 1]` on.

    Networks either nest or are disjoint, so a stack of the enclosing networks is enough.
    """
    starts: list[bytes] = []
    values: list[Value | None] = [None]
    enclosing: list[tuple[bytes, Value | None]] = []
    for (first, _), (last, value) in [*sorted(networks.items()), ((b"\xff" * 17, 0), (b"", None))]:
        while enclosing and enclosing[-1][0] < first:
            previous_last, _ = enclosing.pop()
            starts.append(_next_address(previous_last))
            values.append(enclosing[-1][1] if enclosing else None)
        starts.append(first)
        values.append(value)
        enclosing.append((last, value))
    return starts, values


def _next_address(address: bytes) -> bytes:
    """Returns the next address. After the last address, returns a value that sorts after every address."""
    number = int.from_bytes(address, "big") + 1
    return number.to_bytes(len(address), "big") if number >> 8 * len(address) == 0 else address + b"\0"


def _unmap_ipv4_network(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """Converts an IPv4-mapped IPv6 network to IPv4."""
    if isinstance(network, IPv6Network) and (mapped := network.network_address.ipv4_mapped) and network.prefixlen >= 96:
        return IPv4Network((mapped, network.prefixlen - 96))
    return network
