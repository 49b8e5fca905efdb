"""Tells public IP addresses from those of this machine, its network and its cloud."""

from ipaddress import ip_address, ip_network

# NAT64, 6to4, Teredo and IPv4-compatible addresses can embed any IPv4 address, also a private one.
TRANSLATION_NETWORKS = tuple(
    ip_network(network) for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")
)
# Unique local addresses replaced this range of private networks, but routers may still know it.
SITE_LOCAL_NETWORKS = (ip_network("fec0::/10"),)


def is_public(address: str) -> bool:
    """Returns whether an address is public and unicast, and cannot translate to a private one."""
    ip = ip_address(address)
    if ip.version == 6 and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    refused_networks = (*TRANSLATION_NETWORKS, *SITE_LOCAL_NETWORKS)
    is_refused = any(ip in network for network in refused_networks if network.version == ip.version)
    return ip.is_global and not ip.is_multicast and not is_refused
