"""A reference store: views in a list, visitors in sets, every report counted by iteration."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from datetime import date, timedelta
from typing import TypeVar

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.base import (
    CLASS_BITS,
    DEFAULT_AI_CLASSES,
    DEFAULT_PAGE_QUERY,
    DEFAULT_RAW_VIEW_LIMITS,
    Correction,
    DayRange,
    Interval,
    LogResult,
    PageQuery,
    RawViewLimits,
    Reclassification,
    SectionQuery,
)
from copydesk.analytics.stores.report_rows import (
    AgentRow,
    Counts,
    HourlyReport,
    HourPoint,
    MissingReport,
    MissingRow,
    PageAgentRow,
    PageCounts,
    PageDetail,
    PageReferrerRow,
    ReferrerCount,
    ReferrerReport,
    ReferrerRow,
    ReferrerTotals,
    ReportPage,
    RuleRow,
    SectionReport,
    SectionRow,
    SiteTotals,
    TimeseriesPoint,
)
from copydesk.core.clock import DAY, HOUR

K = TypeVar("K", bound=Hashable)
EPOCH = date(1970, 1, 1)
KINDS_BY_HOST = {
    "": "direct", "chatgpt.com": "ai", "google.co.uk": "search", "bing.com": "search", "old.reddit.com": "social",
    "example.org": "site", "docs.example.com": "site", "/a": "site",
}  # fmt: skip
"""All referrers of the tests, without www."""


class ReferenceStore:
    def __init__(self) -> None:
        self.logged: list[PageView] = []
        self.folded: list[PageView] = []
        self.events: set[tuple[str, int]] = set()
        self.ai: dict[str, frozenset[str]] = {}
        self.without_raw: Counter[PageView] = Counter()
        """The folded views whose raw views were deleted."""

    def log_views(self, views: Iterable[PageView]) -> LogResult:
        accepted, duplicates = 0, []
        for position, view in enumerate(views):
            if view.event is not None:
                if (view.project, view.event) in self.events:
                    duplicates.append(position)
                    continue
                self.events.add((view.project, view.event))
            self.logged.append(view)
            accepted += 1
        return LogResult(accepted, tuple(duplicates))

    def fold(self) -> int:
        count, self.folded, self.logged = len(self.logged), self.folded + self.logged, []
        return count

    def forget_project(self, project: str) -> None:
        self.logged = [view for view in self.logged if view.project != project]
        self.folded = [view for view in self.folded if view.project != project]
        self.without_raw = Counter(view for view in self.without_raw.elements() if view.project != project)
        self.events = {event for event in self.events if event[0] != project}
        self.ai.pop(project, None)

    def forget_visitor(self, project: str, visitor: int) -> None:
        def nobody(view: PageView) -> PageView:
            theirs = view.project == project and view.visitor == visitor
            return view._replace(visitor=None) if theirs else view

        self.logged, self.folded = list(map(nobody, self.logged)), list(map(nobody, self.folded))
        self.without_raw = Counter(map(nobody, self.without_raw.elements()))

    def delete_raw_views(self, before_day: int) -> None:
        old_views = Counter(view for view in self.folded if view.at // DAY < before_day)
        self.without_raw |= old_views

    def withdraw_views(self, project: str, events: Iterable[int]) -> int | None:
        """Returns how many views were withdrawn, or None if raw views of their days were deleted."""
        affected = [v for v in self._raw_views(project) if v.event is not None and v.event in set(events)]
        if {view.at // DAY for view in affected} & self._incomplete_days(project):
            return None
        self.events -= {(project, view.event) for view in affected if view.event is not None}
        self.folded = list((Counter(self.folded) - Counter(affected)).elements())
        return len(affected)

    def reclassify_views(self, project: str, changes: Iterable[Reclassification], version: str) -> Correction:
        new_classes = {(c.rule, c.agent, c.operator, c.kind): c for c in changes}
        affected = [
            (view, change)
            for view in self._raw_views(project)
            if (change := new_classes.get((view.rule, view.agent, view.operator, view.kind.value)))
        ]
        skipped_days = {view.at // DAY for view, _ in affected} & self._incomplete_days(project)
        affected = [(view, change) for view, change in affected if view.at // DAY not in skipped_days]
        unaffected = Counter(self.folded) - Counter(view for view, _ in affected)
        self.folded = [
            *unaffected.elements(),
            *(
                view._replace(
                    rule=change.new_rule,
                    agent=change.new_agent,
                    operator=change.new_operator,
                    kind=VisitorClass(change.new_kind),
                    agent_table_version=version,
                )
                for view, change in affected
            ),
        ]
        return Correction(len(affected), tuple(sorted(skipped_days)))

    def list_missing_pages(self, project: str, days: DayRange, limit: int, offset: int) -> MissingReport:
        counted = {"human", *self.ai.get(project, DEFAULT_AI_CLASSES)}
        requests = [v for v in self._views_in_range(project, days, missing=True) if v.kind.value in counted]
        rows = []
        for path, group in _group_views(requests, lambda v: v.path).items():
            referrers = Counter(v.referrer for v in group if v.referrer)
            ordered = sorted(referrers.items(), key=lambda item: (-item[1], item[0]))[:10]
            last_at = max(v.at for v in group)
            visitors = self._visitors(project, group)
            rows.append(MissingRow(path, visitors, len(group), last_at, [ReferrerCount(*item) for item in ordered]))
        rows.sort(key=lambda row: (-row.count.total, row.path))
        return MissingReport(rows[offset : offset + limit], len(rows) > offset + limit)

    def list_referrers(self, project: str, days: DayRange, limit: int, offset: int) -> ReferrerReport:
        rows, totals = self._find_referrers(self._views_in_range(project, days))
        return ReferrerReport(totals, rows[offset : offset + limit], len(rows) > offset + limit)

    def _find_referrers(self, views: list[PageView]) -> tuple[list[ReferrerRow], ReferrerTotals]:
        arrivals = [view for view in views if view.kind == "human" and find_source(view)]
        rows = [
            ReferrerRow(host, kind, len({v.visitor for v in group} - {None}), len(group))
            for (kind, host), group in _group_views(arrivals, find_source).items()
        ]
        rows.sort(key=lambda row: (-row.visitors, -row.views, row.referrer or ""))
        by_kind = _group_views(arrivals, lambda view: find_source(view)[0])
        return rows, ReferrerTotals(**{k: len({v.visitor for v in group} - {None}) for k, group in by_kind.items()})

    def list_sections(
        self, project: str, days: DayRange, limit: int, offset: int, query: SectionQuery
    ) -> SectionReport:
        views = [
            view
            for view in self._views_in_range(project, days)
            if not query.prefix or f"/{'/'.join(_split_path(view.path))}/".startswith(f"{query.prefix}/")
        ]
        groups: dict[str, list[PageView]] = {}
        for view in views:
            segments = _split_path(view.path)
            if len(segments) >= query.depth:
                groups.setdefault("/" + "/".join(segments[: query.depth]), []).append(view)
        rows = [
            SectionRow(name, self._visitors(project, group), self._views(project, group).total)
            for name, group in groups.items()
        ]
        rows = sorted((row for row in rows if row.views), key=lambda row: (-row.count.total, row.section))
        has_more = len(rows) > offset + limit
        totals, view_total = self._visitors(project, views), self._views(project, views).total
        return SectionReport(totals, view_total, rows[offset : offset + limit], has_more)

    def load_page(
        self, project: str, path: str, days: DayRange, limits: RawViewLimits = DEFAULT_RAW_VIEW_LIMITS
    ) -> PageDetail | None:
        """Returns a page whose raw views are complete in the range."""
        if not any(view.path == path for view in self._views_in_range(project, DayRange())):
            return None
        views = [view for view in self._views_in_range(project, days) if view.path == path]
        page = ReferenceStore()
        page.folded, page.ai = views, self.ai
        all_agents, _ = page.list_agents(project, days, 1000, 0)
        all_referrers, _ = self._find_referrers(views)
        agents = [PageAgentRow(*vars(row).values()) for row in all_agents]
        referrers = [PageReferrerRow(*vars(row).values()) for row in all_referrers]
        if len(views) > limits.of_page or len(self._views_in_range(project, days)) > limits.of_site:
            agents = [replace(row, visitors=None) for row in agents]
            agents.sort(key=lambda row: (-row.views, row.agent or "", row.operator or "", CLASS_BITS[row.kind]))
            referrers = [replace(row, visitors=None) for row in referrers]
            referrers.sort(key=lambda row: (-row.views, row.referrer or ""))
        totals, view_total = self._visitors(project, views), self._views(project, views).total
        return PageDetail(totals, view_total, page.load_timeseries(project, "day", days), agents, referrers)

    def has_all_raw_views(self, project: str) -> bool:
        return not self._incomplete_days(project)

    def list_rules(self, project: str, with_missing: bool = False) -> set[RuleRow]:
        raw_views = [v for v in self._raw_views(project) if with_missing or v.status not in (404, 410)]
        groups = _group_views(raw_views, lambda v: (v.agent, v.operator, v.kind.value, v.rule))
        return {
            RuleRow(agent or None, operator or None, kind, rule, len(group))
            for (agent, operator, kind, rule), group in groups.items()
        }

    def _raw_views(self, project: str) -> list[PageView]:
        raw_views = Counter(self.folded) - self.without_raw
        return [view for view in raw_views.elements() if view.project == project]

    def _incomplete_days(self, project: str) -> set[int]:
        return {view.at // DAY for view in self.without_raw.elements() if view.project == project}

    def count_visitors_by_page(
        self, project: str, days: DayRange, limit: int, offset: int, query: PageQuery = DEFAULT_PAGE_QUERY
    ) -> ReportPage:
        return self._page(self._views_in_range(project, days), self._visitors, project, limit, offset, query)

    def count_views_by_page(self, project: str, days: DayRange, limit: int, offset: int) -> ReportPage:
        return self._page(self._views_in_range(project, days), self._views, project, limit, offset)

    def list_agents(self, project: str, days: DayRange, limit: int, offset: int) -> tuple[list[AgentRow], bool]:
        groups = _group_views(self._views_in_range(project, days), lambda v: (v.agent, v.operator, v.kind.value))
        rows = [
            AgentRow(agent or None, operator or None, kind, len({v.visitor for v in group} - {None}), len(group))
            for (agent, operator, kind), group in groups.items()
        ]
        rows.sort(
            key=lambda row: (-row.visitors, -row.views, row.agent or "", row.operator or "", CLASS_BITS[row.kind])
        )
        return rows[offset : offset + limit], len(rows) > offset + limit

    def load_timeseries(self, project: str, interval: Interval, days: DayRange) -> list[TimeseriesPoint]:
        groups = _group_views(self._views_in_range(project, days), lambda v: interval_start(v.at // DAY, interval))
        points = [
            TimeseriesPoint(day, self._visitors(project, g), self._views(project, g)) for day, g in groups.items()
        ]
        return sorted((moment for moment in points if moment.views.total), key=lambda moment: moment.day)

    def count_site_totals(self, projects: Iterable[str], days: DayRange) -> list[SiteTotals]:
        totals = []
        for project in sorted(set(projects)):
            views = self._views_in_range(project, days)
            ai_mask = sum(CLASS_BITS[kind] for kind in self.ai.get(project, DEFAULT_AI_CLASSES))
            totals.append(SiteTotals(project, self._visitors(project, views), self._views(project, views), ai_mask))
        return [each for each in totals if each.views.total]

    def load_hours(self, project: str, first_at: int, end_at: int) -> HourlyReport:
        raw_views = self._raw_views(project)
        views = [v for v in raw_views if first_at <= v.at < end_at and v.status not in (404, 410)]
        points = [
            HourPoint(hour, self._visitors(project, group), self._views(project, group))
            for hour, group in sorted(_group_views(views, lambda v: v.at // HOUR).items())
        ]
        shown = [point for point in points if point.views.total]
        return HourlyReport(self._visitors(project, views), self._views(project, views), shown)

    def _views_in_range(self, project: str, days: DayRange, missing: bool = False) -> list[PageView]:
        return [
            v
            for v in self.folded
            if v.project == project and days.first <= v.at // DAY < days.end and (v.status in (404, 410)) == missing
        ]

    def _page(
        self,
        views: list[PageView],
        count: Callable[[str, list[PageView]], Counts],
        project: str,
        limit: int,
        offset: int,
        query: PageQuery = DEFAULT_PAGE_QUERY,
    ) -> ReportPage:
        rows = [
            PageCounts(path, count(project, group)) for path, group in _group_views(views, lambda v: v.path).items()
        ]
        rows = [row for row in rows if row.count.total and query.search.lower() in row.path.lower()]
        rows.sort(key=lambda row: row.path)
        by = {row.path: row.path if query.by == "path" else getattr(row.count, query.by) for row in rows}
        rows.sort(key=lambda row: by[row.path], reverse=query.descending)
        return ReportPage(count(project, views), rows[offset : offset + limit], len(rows) > offset + limit)

    def _visitors(self, project: str, views: list[PageView]) -> Counts:
        human = {v.visitor for v in views if v.kind == "human"} - {None}
        ai = {v.visitor for v in views if v.kind in self.ai.get(project, DEFAULT_AI_CLASSES)} - {None}
        return Counts(len(human), len(ai), len(human | ai))

    def _views(self, project: str, views: list[PageView]) -> Counts:
        human = sum(v.kind == "human" for v in views)
        ai = sum(v.kind in self.ai.get(project, DEFAULT_AI_CLASSES) for v in views)
        return Counts(human, ai, human + ai)


def find_source(view: PageView) -> tuple[str, str | None]:
    """Returns the kind and the host of a view's referrer; an empty tuple if it is on the same host."""
    host = view.referrer.removeprefix("www.")
    if host and host == view.host.removeprefix("www."):
        return ()  # type: ignore[return-value]
    return (KINDS_BY_HOST[host], host or None)


def _split_path(path: str) -> list[str]:
    return [segment for segment in path.partition("?")[0].split("/") if segment]


def interval_start(day: int, interval: Interval) -> int:
    moment = EPOCH + timedelta(day)
    if interval == "week":
        moment -= timedelta(moment.weekday())
    elif interval == "month":
        moment = moment.replace(day=1)
    return (moment - EPOCH).days


def _group_views(views: list[PageView], key: Callable[[PageView], K]) -> dict[K, list[PageView]]:
    groups: dict[K, list[PageView]] = {}
    for view in views:
        groups.setdefault(key(view), []).append(view)
    return groups
