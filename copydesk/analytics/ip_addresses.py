"""Addresses: read in all the forms that servers write them, and believed only from proxies that are trusted."""

import re
import socket
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Generic, TypeVar

MAX_ADDRESS_CHARS = 64
IPV4_MAPPED_PREFIX = bytes(10) + b"\xff\xff"
FORWARDED_FOR_PATTERN = re.compile(r'(?:^|[;,])[ \t]*for=("[^"\\]{0,80}"|[^",;\s]{0,80})', re.IGNORECASE)
Value = TypeVar("Value")


@lru_cache(maxsize=1 << 16)
def parse_ip(text: str) -> bytes | None:
    """4 or 16 bytes; None for what is no address. Takes ports, brackets and zones; IPv4 within IPv6 becomes IPv4."""
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


class NetworkTable(Generic[Value]):
    """Networks and what is known of each: the answer for an address is that of the narrowest network around it."""

    def __init__(self, entries: Iterable[tuple[str, Value]]) -> None:
        """The first of equal networks stays. ValueError for what is no network."""
        networks: dict[int, dict[tuple[bytes, int], tuple[bytes, Value]]] = {4: {}, 16: {}}
        for text, value in entries:
            network = _unmap_ipv4_network(ip_network(text.strip(), strict=False))
            first, last = network.network_address.packed, network.broadcast_address.packed
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
    """Who is at the far end: the rightmost hop that is no trusted proxy; everything left of it may be forged.

    `lines` are the values of the one header that the proxies are known to write. None when a trusted proxy
    names a hop that is no address: counting the proxy as a visitor would be worse than counting nobody.
    """
    hops = [
        *_parse_hops(header_values, header_name),
        *([peer] if peer else []),
    ]  # a local socket has no peer, and only we have the socket
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
    """Where the answer changes, and to what: `values[n]` holds from `firsts[n - 1]` on. Networks nest or are apart."""
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
    """The one after; after the last of all, one that no address reaches."""
    number = int.from_bytes(address, "big") + 1
    return number.to_bytes(len(address), "big") if number >> 8 * len(address) == 0 else address + b"\0"


def _unmap_ipv4_network(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """An IPv4 network written as IPv6 is the IPv4 one."""
    if isinstance(network, IPv6Network) and (mapped := network.network_address.ipv4_mapped) and network.prefixlen >= 96:
        return IPv4Network((mapped, network.prefixlen - 96))
    return network
