"""Converts log lines to page views.

Runs the stages of the pipeline, with the first checks before it creates a raw view, so that dropped lines cost little.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.analytics.classification.classifier import MAX_AGENT_CHARS
from copydesk.analytics.ingest.pipeline import build_view, check_request, classify_and_identify, includes_page_type
from copydesk.analytics.ingest.raw_view import RawView, SiteConfig, validate_timestamp
from copydesk.analytics.ip_addresses import build_trusted_networks, find_client_address, parse_ip
from copydesk.analytics.log_import.formats import AUTO_FORMAT
from copydesk.analytics.log_import.line_ids import LineIds
from copydesk.analytics.log_import.log_line import LogLine, parse_log_time
from copydesk.analytics.page_paths import NOT_A_PAGE, normalize_host, normalize_url
from copydesk.analytics.page_view import Dropped, DropReason, PageView

EMPTY_FIELD = "-"
FORWARDED_PATTERN = re.compile(r'"?([^"]+)')
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
        location = normalize_url(url, site.base_path, site.kept_params)
        if isinstance(location, Dropped):
            return location
        if self._hosts and location.host and location.host not in self._hosts:
            return OTHER_HOST
        at = validate_timestamp(parse_log_time(time), self._now)
        if isinstance(at, Dropped):
            return at
        raw = RawView(
            site,
            url,
            at,
            user_agent[:MAX_AGENT_CHARS] if user_agent and user_agent != EMPTY_FIELD else None,
            self._find_client(address, forwarded) if forwarded and self._behind_proxies else parse_ip(address),
            referrer,
            method,
            status,
            accept,
            extra.visitor_id if extra else None,
            (extra and extra.event_id) or self._line_ids.next_id(text),
        )
        raw.location = location
        return build_view(classify_and_identify(raw))

    def _find_client(self, peer: str, forwarded: str) -> bytes | None:
        """Returns the client's address behind trusted proxies; the peer's if the header is not a list of addresses.

        The header may be in quotes, as in the default format of nginx, or plain, as in JSON logs.
        """
        match = FORWARDED_PATTERN.match(forwarded)
        hops = match[1] if match else ""
        if not all(map(parse_ip, hops.split(","))):
            return parse_ip(peer)
        client_address = find_client_address(peer, [hops], self._proxies)
        return parse_ip(client_address) if client_address else None
