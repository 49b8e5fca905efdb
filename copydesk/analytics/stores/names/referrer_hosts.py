"""Referrers: the limit of their hosts, because anyone can send made-up ones, and the rows of their reports."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from copydesk.analytics.page_view import MISSING_STATUSES, PageView
from copydesk.analytics.stores.names.name_limit import NameLimit
from copydesk.analytics.stores.names.referrer_sources import Source, SourceKind, find_source
from copydesk.analytics.stores.report_rows import ReferrerRow, ReferrerTotals
from copydesk.core.clock import DAY

MAX_REFERRER_HOSTS = 20_000
"""How many referring hosts of a project are counted by themselves."""
MAX_NEW_REFERRER_HOSTS_PER_DAY = 500
"""How many of them may have their first view on the same day, so that one wave of spam does not use up all."""
OTHER_HOSTS = ""
"""Stands for all other hosts of a kind."""
OTHER_REFERRERS_NAME = "(other)"
"""How reports call all other hosts of a kind; no host has parentheses."""


class ReferrerHostLimit:
    """Finds the sources of views. Hosts beyond the limit are counted together, as one row of their kind."""

    def __init__(self, max_age_seconds: float | None = None) -> None:
        self._hosts = NameLimit(max_age_seconds)

    def find_source(self, view: PageView, load_hosts: Callable[[str], Iterable[str]]) -> Source | None:
        """Returns where a view came from; None if it is no arrival, or a request for a missing page.

        `load_hosts` returns the stored hosts of a project.
        """
        if view.status in MISSING_STATUSES:
            return None
        source = find_source(view.host, view.referrer)
        if source is None or source.kind is SourceKind.DIRECT:
            return source
        is_admitted = self._hosts.admit(
            view.project, view.at // DAY, source.host, load_hosts, MAX_REFERRER_HOSTS, MAX_NEW_REFERRER_HOSTS_PER_DAY
        )
        return source if is_admitted else Source(source.kind, OTHER_HOSTS)


def build_referrer_row(kind: int, host: str, visitors: int, views: int) -> ReferrerRow:
    return ReferrerRow(*name_referrer(kind, host), visitors, views)


def name_referrer(kind: int, host: str) -> tuple[str | None, str]:
    """Returns how reports call a host and its kind."""
    source_kind = SourceKind(kind)
    name = None if source_kind is SourceKind.DIRECT else host or OTHER_REFERRERS_NAME
    return name, source_kind.name.lower()


def build_referrer_totals(rows: Iterable[Sequence[Any]]) -> ReferrerTotals:
    """Builds the totals from kinds with their numbers of visitors."""
    return ReferrerTotals(**{SourceKind(kind).name.lower(): visitors for kind, visitors in rows})
