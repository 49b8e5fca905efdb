"""Client addresses: all spellings, and trusted and untrusted proxies."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.ip_addresses import (
    NetworkTable,
    build_trusted_networks,
    find_client_address,
    parse_ip,
    to_client_network,
)

PROXIES = build_trusted_networks(["10.0.0.0/8", "2001:db8:aa::/48", "192.0.2.7"])


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("203.0.113.9", "203.0.113.9"),
        (" 203.0.113.9 ", "203.0.113.9"),
        ("203.0.113.9:51234", "203.0.113.9"),
        ('"203.0.113.9:51234"', "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("[::ffff:cb00:7109]:443", "203.0.113.9"),
        ("2001:DB8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:8080", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_address_is_parsed_in_every_usual_spelling(written: str, address: str) -> None:
    assert parse_ip(written) == ip_address(address).packed


@pytest.mark.parametrize(
    "text",
    ["", "unknown", "_hidden", "203.0.113", "203.0.113.256", "0x7f.1", "010.0.0.1\0", "١.١.١.١", "a" * 99],
)
def test_invalid_address_is_none(text: str) -> None:
    assert parse_ip(text) is None


@given(st.text())
def test_parsing_an_address_never_raises(text: str) -> None:
    assert parse_ip(text) is None or len(parse_ip(text) or b"") in (4, 16)


@given(st.ip_addresses())
def test_every_address_is_parsed(address: object) -> None:
    mapped = getattr(address, "ipv4_mapped", None)
    assert parse_ip(str(address)) == (mapped or ip_address(str(address))).packed


def test_untrusted_peer_is_the_client_whatever_its_headers_say() -> None:
    assert find_client_address("203.0.113.9", ["198.51.100.1"], PROXIES) == "203.0.113.9"
    assert find_client_address("203.0.113.9", [], PROXIES) == "203.0.113.9"


def test_rightmost_untrusted_hop_is_the_client() -> None:
    assert find_client_address("10.0.0.1", ["198.51.100.1"], PROXIES) == "198.51.100.1"
    assert find_client_address("10.0.0.1", ["6.6.6.6, 198.51.100.1, 10.2.3.4"], PROXIES) == "198.51.100.1"
    assert (
        find_client_address("10.0.0.1", ["6.6.6.6", "198.51.100.1:4711", "192.0.2.7"], PROXIES) == "198.51.100.1:4711"
    )
    assert (
        find_client_address("::ffff:10.0.0.1", ["[2001:db8:bb::1]:99, 2001:db8:aa::5"], PROXIES)
        == "[2001:db8:bb::1]:99"
    )


def test_forwarded_header_is_used_when_configured() -> None:
    lines = ['for=6.6.6.6, For="[2001:db8:bb::1]:4711";proto=https;by=10.0.0.9', "for=10.1.1.1;host=example.com"]
    assert find_client_address("10.0.0.1", lines, PROXIES, "Forwarded") == '"[2001:db8:bb::1]:4711"'
    assert find_client_address("10.0.0.1", ["for=unknown"], PROXIES, "Forwarded") is None
    assert find_client_address("10.0.0.1", ["for=_secret, for=10.1.1.1"], PROXIES, "Forwarded") is None


def test_invalid_hop_gives_no_client_address() -> None:
    assert find_client_address("10.0.0.1", ["198.51.100.1, garbage"], PROXIES) is None


def test_a_local_socket_has_no_peer_and_is_trusted() -> None:
    assert find_client_address(None, ["198.51.100.1"], PROXIES) == "198.51.100.1"
    assert find_client_address(None, [], PROXIES) is None


def test_first_hop_is_the_client_when_all_are_proxies() -> None:
    assert find_client_address("10.0.0.1", ["10.9.9.9, 10.8.8.8"], PROXIES) == "10.9.9.9"


@given(st.none() | st.text(), st.lists(st.text(), max_size=4), st.sampled_from(["forwarded", "x-forwarded-for"]))
def test_finding_the_client_never_raises(peer: str | None, lines: list[str], header: str) -> None:
    found = find_client_address(peer, lines, PROXIES, header)
    assert found is None or parse_ip(found) is not None


def test_narrowest_matching_network_wins() -> None:
    networks = NetworkTable(
        [("192.0.2.0/24", "wide"), ("192.0.2.8/29", "narrow"), ("::ffff:198.51.100.0/120", "mapped")]
    )
    asked = ("192.0.2.1", "192.0.2.9", "198.51.100.3", "2001:db8::1")
    assert [networks.get(ip_address(address).packed) for address in asked] == ["wide", "narrow", "mapped", None]


def test_invalid_network_is_refused() -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        build_trusted_networks(["everyone"])


@given(
    st.lists(st.tuples(st.binary(min_size=4, max_size=4), st.integers(0, 32)), max_size=12),
    st.lists(st.binary(min_size=4, max_size=4), max_size=6),
)
def test_lookup_equals_a_linear_search(made: list[tuple[bytes, int]], asked: list[bytes]) -> None:
    known = [ip_network((address, length), strict=False) for address, length in made]
    networks = NetworkTable((str(network), number) for number, network in enumerate(known))
    edges = [edge.packed for network in known for edge in (network.network_address, network.broadcast_address)]
    for address in asked + edges:
        around = [(-network.prefixlen, n) for n, network in enumerate(known) if ip_address(address) in network]
        assert networks.get(address) == (min(around)[1] if around else None)


@given(st.ip_addresses(), st.ip_addresses())
def test_addresses_of_one_client_are_one_ipv4_address_or_one_ipv6_network(first: object, second: object) -> None:
    one, other = ip_address(str(first)), ip_address(str(second))
    size = 32 if one.version == 4 else 64
    is_same_client = other in ip_network(f"{one}/{size}", strict=False)
    assert (to_client_network(one.packed) == to_client_network(other.packed)) is is_same_client
    assert (
        to_client_network(one.packed) == ip_network(f"{one}/{size}", strict=False).network_address.packed[: size // 8]
    )


def test_ipv6_addresses_of_one_network_are_one_client() -> None:
    client, neighbor, stranger = (
        ip_address(text) for text in ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1")
    )
    assert to_client_network(client.packed) == to_client_network(neighbor.packed)
    assert to_client_network(client.packed) != to_client_network(stranger.packed)
