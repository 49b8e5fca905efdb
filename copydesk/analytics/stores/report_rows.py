"""The rows and totals of reports, which all stores return. A day is a UTC day, as days since 1970."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Counts:
    """Numbers of visitors or views. The total of visitors is the size of the union; the total of views is the sum."""

    human: int = 0
    ai: int = 0
    total: int = 0


@dataclass(frozen=True)
class PageCounts:
    path: str
    count: Counts


@dataclass(frozen=True)
class ReportPage:
    """One page of results. The totals cover the whole range of days."""

    totals: Counts
    rows: Sequence[PageCounts]
    has_more: bool


@dataclass(frozen=True)
class AgentRow:
    agent: str | None
    operator: str | None
    kind: str
    visitors: int
    views: int


@dataclass(frozen=True)
class ReferrerCount:
    """How many requests came from a referrer: the host of another site, or a path of the same site."""

    referrer: str
    views: int


@dataclass(frozen=True)
class MissingRow:
    """A path whose requests found no page: its unique visitors, and its requests by people and AI."""

    path: str
    count: Counts
    views: int
    last_at: int
    """The time of the last request in the range, in milliseconds since 1970."""
    referrers: Sequence[ReferrerCount]
    """The most frequent referrers first, at most MAX_REFERRERS_PER_PATH."""


@dataclass(frozen=True)
class MissingReport:
    """Missing pages. `other` are the visitors of all paths beyond the limit of missing paths, and `other_views` their
    requests."""

    rows: Sequence[MissingRow]
    has_more: bool
    other: Counts = Counts()
    other_views: int = 0


@dataclass(frozen=True)
class ReferrerRow:
    """People who came from one place. The referrer is a host, None for `direct`, or the name of all other hosts."""

    referrer: str | None
    kind: str
    """`ai`, `search`, `social`, `site` (other web sites) or `direct` (no referrer)."""
    visitors: int
    views: int


@dataclass(frozen=True)
class ReferrerTotals:
    """Unique people by the kind of their referrer. A person who came in two ways is counted in both."""

    ai: int = 0
    search: int = 0
    social: int = 0
    site: int = 0
    direct: int = 0


@dataclass(frozen=True)
class ReferrerReport:
    totals: ReferrerTotals
    rows: Sequence[ReferrerRow]
    has_more: bool


@dataclass(frozen=True)
class SectionRow:
    section: str
    count: Counts
    views: int


@dataclass(frozen=True)
class SectionReport:
    """Sections, with the totals of the section that they are below, or of the site."""

    totals: Counts
    views: int
    rows: Sequence[SectionRow]
    has_more: bool


@dataclass(frozen=True)
class RuleRow:
    """How many of an agent's views a rule classified."""

    agent: str | None
    operator: str | None
    kind: str
    rule: str
    views: int


@dataclass(frozen=True)
class TimeseriesPoint:
    """An interval with at least one view. `day` is its first day, which may be before the range."""

    day: int
    visitors: Counts
    views: Counts


@dataclass(frozen=True)
class PageAgentRow:
    """An agent that read one page. `visitors` is None if there are too many views to count them."""

    agent: str | None
    operator: str | None
    kind: str
    visitors: int | None
    views: int


@dataclass(frozen=True)
class PageReferrerRow:
    """People who came to one page from one place, like ReferrerRow. `visitors` is None if there are too many views to
    count them."""

    referrer: str | None
    kind: str
    visitors: int | None
    views: int


@dataclass(frozen=True)
class PageDetail:
    """One page. `views` are those by people and AI; agents and referrers are counted from raw views."""

    totals: Counts
    views: int
    timeseries: Sequence[TimeseriesPoint]
    agents: Sequence[PageAgentRow]
    """The agents of all classes, at most MAX_PAGE_DETAIL_ROWS."""
    referrers: Sequence[PageReferrerRow]
    """Where people came from, at most MAX_PAGE_DETAIL_ROWS."""


@dataclass(frozen=True)
class HourPoint:
    """An hour with at least one view. `hour` is the number of hours since 1970."""

    hour: int
    visitors: Counts
    views: Counts


@dataclass(frozen=True)
class HourlyReport:
    """Visitors and views of a time by hour. The totals count a visitor of several hours once."""

    visitors: Counts
    views: Counts
    hours: Sequence[HourPoint]


@dataclass(frozen=True)
class SiteTotals:
    """Unique visitors and views of a whole site. `ai_mask` are the bits of the classes that were counted as AI."""

    project_id: str
    visitors: Counts
    views: Counts
    ai_mask: int


def build_hourly_report(results: Iterable[Sequence[Any]]) -> HourlyReport:
    """Builds the report from rows of the hour, human, AI and total visitors, and human and AI views.

    The row of the hour -1 has the totals. Omits hours in which neither people nor AI came.
    """
    visitors = views = Counts()
    hours = []
    for hour, human, ai, total, human_views, ai_views in results:
        point = HourPoint(hour, Counts(human, ai, total), Counts(human_views, ai_views, human_views + ai_views))
        if hour < 0:
            visitors, views = point.visitors, point.views
        elif point.views.total:
            hours.append(point)
    return HourlyReport(visitors, views, hours)
