"""Converts log lines to page views.

Runs the stages of the pipeline, with the first checks before it creates a raw view, so that dropped lines cost little.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from copydesk.analytics.classification.classifier import MAX_AGENT_CHARS
from copydesk.analytics.ingest.pipeline import (
    build_view,
    check_request,
    classify_and_identify,
    includes_page_type,
    locate_page,
)
from copydesk.analytics.ingest.raw_view import RawView, SiteConfig, validate_timestamp
from copydesk.analytics.ip_addresses import build_trusted_networks, find_client_address, parse_ip
from copydesk.analytics.log_import.formats import AUTO_FORMAT
from copydesk.analytics.log_import.line_ids import LineIds
from copydesk.analytics.log_import.log_line import MALFORMED, LogLine, parse_log_time
from copydesk.analytics.page_paths import NOT_A_PAGE, normalize_host
from copydesk.analytics.page_view import Dropped, DropReason, PageView

EMPTY_FIELD = "-"
FORWARDED_PATTERN = re.compile(r'"?[ \t]*([0-9A-Fa-f.:\[\]%]+(?:[ \t]*,[ \t]*[0-9A-Fa-f.:\[\]%]+)*)[ \t]*(?:"|[ \t]|$)')
PRIVATE_NETWORKS = build_trusted_networks(
    (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16"),
        *("fc00::/7", "fe80::/10", "::1/128"),
    )
)
UNSPECIFIED_ADDRESSES = (bytes(4), bytes(16))
OTHER_HOST = Dropped(DropReason.OTHER_HOST)


@dataclass(frozen=True)
class ImportRequest:
    """The files to import, and how. Plain data, because it is sent to another process."""

    file_names: Sequence[str]
    site: SiteConfig
    now: int
    format: str = AUTO_FORMAT
    hosts: frozenset[str] = frozenset()
    """The hosts whose lines count; empty means all. Lines without a host count too."""
    proxies: tuple[str, ...] = ()
    """Networks of proxies whose `X-Forwarded-For` is trusted."""
    field_map: tuple[tuple[str, str], ...] = ()
    """The fields of a custom format and their names (see `parse_field_map`); empty means none."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """The files that hold the content of streams, by the names of the streams."""


@lru_cache(maxsize=1 << 16)
def parse_client_ip(text: str) -> bytes | None:
    """Returns an address, or None if it is invalid or unspecified.

    CDNs that do not store addresses write `0.0.0.0` and `::` instead.
    """
    address = parse_ip(text)
    return None if address in UNSPECIFIED_ADDRESSES else address


class LineConverter:
    """Converts the lines of one file."""

    def __init__(self, request: ImportRequest) -> None:
        self._site = request.site
        self._now = request.now
        self._hosts = request.hosts
        self._behind_proxies, self._proxies = bool(request.proxies), build_trusted_networks(request.proxies)
        self._line_ids = LineIds()

    def convert(self, line: LogLine) -> PageView | Dropped:
        text, host, address, time, method, url, status_text, referrer, user_agent, forwarded, extra = line
        status = int(status_text)
        site = self._site
        accept = (extra and extra.accept) or None
        if dropped := check_request(method, status, extra and extra.purpose, accept):
            return dropped
        if extra and extra.content_type and not includes_page_type(extra.content_type):
            return NOT_A_PAGE
        if host and url.startswith("/") and (normalized_host := normalize_host(host)):
            url = f"https://{normalized_host}{url}"
        location = locate_page(url, status, site)
        if isinstance(location, Dropped):
            return location
        if self._hosts and location.host and location.host not in self._hosts:
            return OTHER_HOST
        at = validate_timestamp(parse_log_time(time), self._now)
        if isinstance(at, Dropped):
            return at
        client_address = self._find_client(address, forwarded)
        if isinstance(client_address, Dropped):
            return client_address
        raw = RawView(
            site,
            url,
            at,
            user_agent[:MAX_AGENT_CHARS] if user_agent and user_agent != EMPTY_FIELD else None,
            client_address,
            referrer,
            method,
            status,
            accept,
            extra.visitor_id if extra else None,
            (extra and extra.event_id) or self._line_ids.next_id(text),
        )
        raw.location = location
        return build_view(classify_and_identify(raw))

    def _find_client(self, address: str, forwarded: str) -> bytes | Dropped | None:
        """Returns the client's address, None if it is unknown, or MALFORMED if the forwarding header is cut off."""
        if "," in address:
            return self._choose_hop(address)
        if not address or address == EMPTY_FIELD:
            return self._choose_hop(match[1]) if (match := FORWARDED_PATTERN.match(forwarded)) else None
        if forwarded and self._behind_proxies:
            return self._find_client_behind_proxies(address, forwarded)
        return parse_client_ip(address)

    def _choose_hop(self, hops: str) -> bytes | None:
        """Returns the client's address among hops, if the address of the last proxy is unknown.

        With trusted proxies, it is the rightmost hop that is not one of them; otherwise the leftmost public address.
        """
        if self._behind_proxies:
            client_address = find_client_address(None, [hops], self._proxies)
            return parse_client_ip(client_address) if client_address else None
        addresses = [parse_client_ip(hop) for hop in hops.split(",")]
        if None in addresses:
            return None
        public_addresses = [address for address in addresses if address and not PRIVATE_NETWORKS.get(address)]
        return (public_addresses or addresses)[0]

    def _find_client_behind_proxies(self, peer: str, forwarded: str) -> bytes | Dropped | None:
        """Returns the client's address behind trusted proxies; the peer's if the header is not a list of addresses.

        The header may be in quotes, as in the default format of nginx, or plain, as in JSON logs.
        """
        if forwarded.startswith('"') and '"' not in forwarded[1:]:
            return MALFORMED
        match = FORWARDED_PATTERN.match(forwarded)
        if not match or not all(map(parse_client_ip, match[1].split(","))):
            return parse_client_ip(peer)
        client_address = find_client_address(peer, [match[1]], self._proxies)
        return parse_client_ip(client_address) if client_address else None
