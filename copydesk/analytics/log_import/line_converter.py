"""From a line to a view: the stages of the pipeline, the first of them before anything is made of the line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from copydesk.analytics.classification.classifier import LONGEST_AGENT
from copydesk.analytics.ingest.pipeline import asks_for_a_page, kept, recognise, refused
from copydesk.analytics.ingest.raw_view import Raw, Site, plausible
from copydesk.analytics.ip_addresses import client, packed, trusted
from copydesk.analytics.log_import.formats import AUTO
from copydesk.analytics.log_import.line_ids import Ordinals
from copydesk.analytics.log_import.log_line import Line, moment
from copydesk.analytics.page_paths import NOT_A_PAGE, clean, host_name
from copydesk.analytics.page_view import Dropped, Reason, View

NOTHING = "-"
FORWARDED = re.compile(r'"?([^"]+)')
OTHER_HOST = Dropped(Reason.OTHER_HOST)


@dataclass(frozen=True)
class Job:
    """What is to be imported, for which site. Sent to another process, so plain data."""

    names: Sequence[str]
    site: Site
    now: int
    format: str = AUTO
    hosts: frozenset[str] = frozenset()
    """The hosts whose lines count; empty for all. A line without a host is taken to be of the right one."""
    proxies: tuple[str, ...] = ()
    """Networks whose `X-Forwarded-For` is believed."""


class Judge:
    """For the lines of one file."""

    def __init__(self, job: Job) -> None:
        self._site, self._now, self._hosts = job.site, job.now, job.hosts
        self._behind_proxies, self._proxies = bool(job.proxies), trusted(job.proxies)
        self._ordinals = Ordinals()

    def view(self, line: Line) -> View | Dropped:
        text, host, address, when, method, url, told, referrer, agent, rest, more = line
        status, site = int(told), self._site
        accept = (more and more.accept) or None
        if dropped := refused(method, status, more and more.purpose, accept):
            return dropped
        if more and more.type and not asks_for_a_page(more.type):
            return NOT_A_PAGE
        if host and url.startswith("/") and (name := host_name(host)):
            url = f"https://{name}{url}"
        place = clean(url, site.base, site.keep)
        if isinstance(place, Dropped):
            return place
        if self._hosts and place.host and place.host not in self._hosts:
            return OTHER_HOST
        at = plausible(moment(when), self._now)
        if isinstance(at, Dropped):
            return at
        raw = Raw(
            site,
            url,
            at,
            agent[:LONGEST_AGENT] if agent and agent != NOTHING else None,
            self._client(address, rest) if rest and self._behind_proxies else packed(address),
            referrer,
            method,
            status,
            accept,
            more.visitor_id if more else None,
            (more and more.event_id) or self._ordinals.id(text),
        )
        raw.place = place
        return kept(recognise(raw))

    def _client(self, peer: str, rest: str) -> bytes | None:
        """nginx's own example of a format ends with the forwarding header, in quotes; JSON logs give it as it is."""
        found = FORWARDED.match(rest)
        hops = found[1] if found else ""
        if not all(map(packed, hops.split(","))):
            return packed(peer)
        told = client(peer, [hops], self._proxies)
        return packed(told) if told else None
