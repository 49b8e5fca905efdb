"""Connections are limited by address and in total, and the process may open as many files as they need."""

import resource
import subprocess
import sys

from copydesk.analytics.ip_addresses import build_trusted_networks
from copydesk.web.http.connections import Connections


def refusal_codes(connections: Connections, *peers: str | None) -> list[str]:
    """Returns the code of each refusal, and nothing for an accepted connection."""
    refusals = [connections.admit(peer) for peer in peers]
    return [refusal.code if refusal else "" for refusal in refusals]


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    connections = Connections(2, build_trusted_networks([]), total=100)
    assert refusal_codes(connections, "2001:db8::1", "2001:db8::2", "2001:db8::3") == ["", "", "too_many_connections"]
    assert refusal_codes(connections, "2001:db8:0:1::1", "192.0.2.1") == ["", ""]


def test_an_ipv4_address_counts_as_itself_also_within_ipv6() -> None:
    connections = Connections(1, build_trusted_networks([]), total=100)
    assert refusal_codes(connections, "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2") == ["", "too_many_connections", ""]


def test_connections_of_all_addresses_together_are_limited() -> None:
    connections = Connections(2, build_trusted_networks(["192.0.2.9"]), total=4)
    peers = ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.9", "192.0.2.9")
    assert refusal_codes(connections, *peers) == ["", "", "", "", "server_full"]
    connections.release("192.0.2.9")
    connections.release("192.0.2.1")
    assert refusal_codes(connections, "192.0.2.3") == [""]


def test_no_address_gets_more_than_half_of_all_connections() -> None:
    connections = Connections(0, build_trusted_networks([]), total=4)
    assert refusal_codes(connections, *["192.0.2.1"] * 3) == ["", "", "too_many_connections"]


def test_open_file_limit_is_raised_as_far_as_allowed_and_useful() -> None:
    program = (
        "import resource, sys\n"
        "from copydesk.core.runtime.open_files import raise_open_files_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))\n"
        "raise_open_files_limit()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    largest = 1_000_000 if hard == resource.RLIM_INFINITY else hard
    for allowed in (1024, largest):
        command = [sys.executable, "-c", program, str(allowed)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        assert int(ran.stdout) == min(allowed, 16_384)
