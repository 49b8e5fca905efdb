"""Addresses: read in all the forms that servers write them, and believed only from proxies that are trusted."""

import re
import socket
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Generic, TypeVar

LONGEST = 64
MAPPED = bytes(10) + b"\xff\xff"
FORWARDED_FOR = re.compile(r'(?:^|[;,])[ \t]*for=("[^"\\]{0,80}"|[^",;\s]{0,80})', re.IGNORECASE)
Value = TypeVar("Value")


@lru_cache(maxsize=1 << 16)
def packed(text: str) -> bytes | None:
    """4 or 16 bytes; None for what is no address. Takes ports, brackets and zones; IPv4 within IPv6 becomes IPv4."""
    text = text.strip().strip('"')
    if len(text) > LONGEST or not text.isascii():
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
    return address[12:] if address.startswith(MAPPED) else address


class Networks(Generic[Value]):
    """Networks and what is known of each: the answer for an address is that of the narrowest network around it."""

    def __init__(self, known: Iterable[tuple[str, Value]]) -> None:
        """The first of equal networks stays. ValueError for what is no network."""
        networks: dict[int, dict[tuple[bytes, int], tuple[bytes, Value]]] = {4: {}, 16: {}}
        for text, value in known:
            network = _plain(ip_network(text.strip(), strict=False))
            first, last = network.network_address.packed, network.broadcast_address.packed
            networks[len(first)].setdefault((first, network.prefixlen), (last, value))
        self._steps = {size: _steps(found) for size, found in networks.items()}

    def get(self, address: bytes) -> Value | None:
        firsts, values = self._steps[len(address)]
        return values[bisect_right(firsts, address)]


def trusted(networks: Iterable[str]) -> Networks[bool]:
    return Networks((network, True) for network in networks)


def client(
    peer: str | None, lines: Sequence[str], proxies: Networks[bool], header: str = "x-forwarded-for"
) -> str | None:
    """Who is at the far end: the rightmost hop that is no trusted proxy; everything left of it may be forged.

    `lines` are the values of the one header that the proxies are known to write. None when a trusted proxy
    names a hop that is no address: counting the proxy as a visitor would be worse than counting nobody.
    """
    hops = [*_hops(lines, header), *([peer] if peer else [])]  # a local socket has no peer, and only we have the socket
    for hop in reversed(hops):
        address = packed(hop)
        if address is None:
            return None
        if not proxies.get(address):
            return hop
    return hops[0] if hops else None


def _hops(lines: Sequence[str], header: str) -> list[str]:
    text = ",".join(lines)
    found = FORWARDED_FOR.findall(text) if header.lower() == "forwarded" else text.split(",")
    return [hop.strip() for hop in found if hop.strip()]


def _steps(networks: Mapping[tuple[bytes, int], tuple[bytes, Value]]) -> tuple[list[bytes], list[Value | None]]:
    """Where the answer changes, and to what: `values[n]` holds from `firsts[n - 1]` on. Networks nest or are apart."""
    firsts: list[bytes] = []
    values: list[Value | None] = [None]
    around: list[tuple[bytes, Value | None]] = []
    for (first, _), (last, value) in [*sorted(networks.items()), ((b"\xff" * 17, 0), (b"", None))]:
        while around and around[-1][0] < first:
            after, _ = around.pop()
            firsts.append(_next(after))
            values.append(around[-1][1] if around else None)
        firsts.append(first)
        values.append(value)
        around.append((last, value))
    return firsts, values


def _next(address: bytes) -> bytes:
    """The one after; after the last of all, one that no address reaches."""
    number = int.from_bytes(address, "big") + 1
    return number.to_bytes(len(address), "big") if number >> 8 * len(address) == 0 else address + b"\0"


def _plain(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """An IPv4 network written as IPv6 is the IPv4 one."""
    if isinstance(network, IPv6Network) and (mapped := network.network_address.ipv4_mapped) and network.prefixlen >= 96:
        return IPv4Network((mapped, network.prefixlen - 96))
    return network
