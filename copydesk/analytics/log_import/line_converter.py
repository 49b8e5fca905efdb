"""Converts log lines to page views.

Runs the stages of the pipeline, with the first checks before it creates a raw view, so that dropped lines cost little.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from copydesk.analytics.classification.classifier import MAX_AGENT_CHARS
from copydesk.analytics.ingest.pipeline import build_view, check_request, classify_and_identify, includes_page_type
from copydesk.analytics.ingest.raw_view import RawView, SiteConfig, validate_timestamp
from copydesk.analytics.ip_addresses import build_trusted_networks, find_client_address, parse_ip
from copydesk.analytics.log_import.formats import AUTO_FORMAT
from copydesk.analytics.log_import.line_ids import LineIds
from copydesk.analytics.log_import.log_line import MALFORMED, LogLine, parse_log_time
from copydesk.analytics.page_paths import NOT_A_PAGE, PageLocation, normalize_host, normalize_url
from copydesk.analytics.page_view import Dropped, DropReason, PageView

EMPTY_FIELD = "-"
FORWARDED_PATTERN = re.compile(r'"?[ \t]*([0-9A-Fa-f.:\[\]%]+(?:[ \t]*,[ \t]*[0-9A-Fa-f.:\[\]%]+)*)[ \t]*(?:"|[ \t]|$)')
PRIVATE_NETWORKS = build_trusted_networks(
    (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16"),
        *("fc00::/7", "fe80::/10", "::1/128"),
    )
)
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


class LineConverter:
    """Converts the lines of one file."""

    def __init__(self, request: ImportRequest) -> None:
        self._site = request.site
        self._now = request.now
        self._hosts = request.hosts
        self._behind_proxies, self._proxies = bool(request.proxies), build_trusted_networks(request.proxies)
        self._line_ids = LineIds()

    def convert(self, line: LogLine) -> PageView | Dropped:
        location = self.locate_page(line)
        if isinstance(location, Dropped):
            return location
        at = validate_timestamp(parse_log_time(line.time), self._now)
        if isinstance(at, Dropped):
            return at
        address = self.find_client(line.address, line.forwarded)
        if isinstance(address, Dropped):
            return address
        extra = line.extra
        user_agent = line.user_agent
        raw = RawView(
            self._site,
            line.url,
            at,
            user_agent[:MAX_AGENT_CHARS] if user_agent and user_agent != EMPTY_FIELD else None,
            address,
            line.referrer,
            line.method,
            int(line.status),
            (extra and extra.accept) or None,
            extra.visitor_id if extra else None,
            (extra and extra.event_id) or self._line_ids.next_id(line.text),
        )
        raw.location = location
        return build_view(classify_and_identify(raw))

    def locate_page(self, line: LogLine) -> PageLocation | Dropped:
        """Returns the page of a request, or why the request is not a page view."""
        _, host, _, _, method, url, status, _, _, _, extra = line
        accept = (extra and extra.accept) or None
        if dropped := check_request(method, int(status), extra and extra.purpose, accept):
            return dropped
        if extra and extra.content_type and not includes_page_type(extra.content_type):
            return NOT_A_PAGE
        if host and url.startswith("/") and (normalized_host := normalize_host(host)):
            url = f"https://{normalized_host}{url}"
        location = normalize_url(url, self._site.base_path, self._site.kept_params)
        if not isinstance(location, Dropped) and self._hosts and location.host and location.host not in self._hosts:
            return OTHER_HOST
        return location

    def find_client(self, address: str, forwarded: str) -> bytes | Dropped | None:
        """Returns the client's address, None if it is unknown, or MALFORMED if the forwarding header is cut off."""
        if "," in address:
            return self._choose_hop(address)
        if not address or address == EMPTY_FIELD:
            return self._choose_hop(match[1]) if (match := FORWARDED_PATTERN.match(forwarded)) else None
        if forwarded and self._behind_proxies:
            return self._find_client_behind_proxies(address, forwarded)
        return parse_ip(address)

    def _choose_hop(self, hops: str) -> bytes | None:
        """Returns the client's address among hops, if the address of the last proxy is unknown.

        With trusted proxies, it is the rightmost hop that is not one of them; otherwise the leftmost public address.
        """
        if self._behind_proxies:
            client_address = find_client_address(None, [hops], self._proxies)
            return parse_ip(client_address) if client_address else None
        addresses = [parse_ip(hop) for hop in hops.split(",")]
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
        if not match or not all(map(parse_ip, match[1].split(","))):
            return parse_ip(peer)
        client_address = find_client_address(peer, [match[1]], self._proxies)
        return parse_ip(client_address) if client_address else None
