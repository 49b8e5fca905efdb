"""Reports: sums over the index and the counts of all shards.

Only `list_sections` reads visits; only `list_rules`, `load_page` and `load_hours` read raw views.
"""

from collections.abc import Collection, Sequence
from typing import Any

from copydesk.analytics.stores.base import (
    CLASS_BITS,
    MAX_PAGE_DETAIL_ROWS,
    DayRange,
    Interval,
    PageQuery,
    RawViewLimits,
    SectionQuery,
)
from copydesk.analytics.stores.clickhouse.connection.cluster import Cluster
from copydesk.analytics.stores.clickhouse.connection.node import MAX_PROJECTS_PER_STATEMENT, Rows
from copydesk.analytics.stores.clickhouse.folding.batches import DEFAULT_AI_MASK, ViewBatches
from copydesk.analytics.stores.clickhouse.sql_files import load_sql
from copydesk.analytics.stores.names.missing_paths import (
    MAX_REFERRERS_PER_PATH,
    build_missing_report,
    split_missing_results,
)
from copydesk.analytics.stores.names.referrer_hosts import build_referrer_row, build_referrer_totals, name_referrer
from copydesk.analytics.stores.report_rows import (
    AgentRow,
    Counts,
    HourlyReport,
    MissingReport,
    PageAgentRow,
    PageCounts,
    PageDetail,
    PageReferrerRow,
    ReferrerReport,
    ReportPage,
    RuleRow,
    SectionReport,
    SectionRow,
    SiteTotals,
    TimeseriesPoint,
    build_hourly_report,
)
from copydesk.core.clock import DAY
from copydesk.core.runtime.batches import split_into_batches

PAGE_SORT, SITE_SORT = 0, 1
SELECT_PAGE_SCOPE = "select sipHash64({project:String}, 'page', {path:String})"
SELECT_SITE_SCOPE = "select sipHash64({project:String}, 'site')"
KIND_BY_BIT = {bit: kind for kind, bit in CLASS_BITS.items()}


class Reports:
    def __init__(self, cluster: Cluster, batches: ViewBatches) -> None:
        self._cluster = cluster
        self._batches = batches

    def count_visitors_by_page(
        self, project: str, days: DayRange, limit: int, offset: int, query: PageQuery
    ) -> ReportPage:
        return _build_page(self._query("visitors", project, days, limit=limit, offset=offset, **vars(query)), limit)

    def count_views_by_page(self, project: str, days: DayRange, limit: int, offset: int) -> ReportPage:
        ai_mask = self._batches.read_ai_mask(project)
        return _build_page(self._query("views", project, days, limit=limit, offset=offset, ai=ai_mask), limit)

    def list_agents(self, project: str, days: DayRange, limit: int, offset: int) -> tuple[Sequence[AgentRow], bool]:
        results = self._query("agents", project, days, limit=limit, offset=offset)
        rows = [_build_agent_row(*result) for result in results]
        return rows[:limit], len(rows) > limit

    def list_missing_pages(self, project: str, days: DayRange, limit: int, offset: int) -> MissingReport:
        ai_mask = self._batches.read_ai_mask(project)
        results = self._query("missing", project, days, limit=limit, offset=offset, ai=ai_mask)
        other, results, has_more = split_missing_results(results, limit, offset)
        scopes = [scope for scope, *_ in results]
        params = {"scopes": scopes, "referrers": MAX_REFERRERS_PER_PATH, "ai": ai_mask}
        details = self._query("missing_details", project, days, **params) if scopes else []
        return build_missing_report(other, results, details, has_more)

    def list_referrers(self, project: str, days: DayRange, limit: int, offset: int) -> ReferrerReport:
        totals = self._query("referrer_totals", project, days)
        results = self._query("referrers", project, days, limit=limit, offset=offset) if limit else []
        rows = [build_referrer_row(*result) for result in results[:limit]]
        return ReferrerReport(build_referrer_totals(totals), rows, len(results) > limit)

    def list_sections(
        self, project: str, days: DayRange, limit: int, offset: int, query: SectionQuery
    ) -> SectionReport:
        params = {**vars(query), "prefix_depth": query.prefix.count("/"), "ai": self._batches.read_ai_mask(project)}
        results = self._query("sections", project, days, limit=limit, offset=offset, **params)
        if not results:
            return SectionReport(Counts(), 0, [], False)
        (_, *totals, views), *others = results
        rows = [SectionRow(section, Counts(*count), view_count) for section, *count, view_count in others]
        return SectionReport(Counts(*totals), views, rows[offset : offset + limit], len(rows) > offset + limit)

    def load_page(self, project: str, path: str, days: DayRange, limits: RawViewLimits) -> PageDetail | None:
        ai_mask = self._batches.read_ai_mask(project)
        [(scope,)] = self._cluster.reader.query(SELECT_PAGE_SCOPE, {"project": project, "path": path})
        totals = self._query("page_totals", project, days, scope=scope, ai=ai_mask)
        if not totals:
            return None
        [(visitors, views, page_views, site_views)] = totals
        with_visitors = page_views <= limits.of_page and site_views <= limits.of_site
        params = {"path": path, "with_visitors": with_visitors, "limit": MAX_PAGE_DETAIL_ROWS}
        time_range = DayRange(days.first * DAY, days.end * DAY)
        return PageDetail(
            Counts(*visitors),
            views,
            self._load_scope_timeseries(project, PAGE_SORT, scope, "day", days),
            [
                PageAgentRow(
                    agent or None, operator or None, KIND_BY_BIT[kind], count if with_visitors else None, view_count
                )
                for agent, operator, kind, count, view_count in self._query(
                    "page_agents", project, time_range, **params
                )
            ],
            [
                PageReferrerRow(*name_referrer(kind, host), count if with_visitors else None, view_count)
                for kind, host, count, view_count in self._query("page_referrers", project, time_range, **params)
            ],
        )

    def list_rules(self, project: str, days: DayRange, limit: int, with_missing: bool) -> Sequence[RuleRow]:
        time_range = DayRange(days.first * DAY, days.end * DAY)
        results = self._query("rules", project, time_range, limit=limit, missing=with_missing)
        return [
            RuleRow(agent or None, operator or None, KIND_BY_BIT[kind], rule, view_count)
            for agent, operator, kind, rule, view_count in results
        ]

    def load_timeseries(self, project: str, interval: Interval, days: DayRange) -> Sequence[TimeseriesPoint]:
        [(scope,)] = self._cluster.reader.query(SELECT_SITE_SCOPE, {"project": project})
        return self._load_scope_timeseries(project, SITE_SORT, scope, interval, days)

    def _load_scope_timeseries(
        self, project: str, sort: int, scope: int, interval: Interval, days: DayRange
    ) -> Sequence[TimeseriesPoint]:
        ai_mask = self._batches.read_ai_mask(project)
        results = self._query("timeseries", project, days, sort=sort, scope=scope, interval=interval, ai=ai_mask)
        return [
            TimeseriesPoint(day, Counts(human, ai, total), Counts(human_views, ai_views, human_views + ai_views))
            for day, human, ai, total, human_views, ai_views in results
        ]

    def count_site_totals(self, projects: Collection[str], days: DayRange) -> Sequence[SiteTotals]:
        stored_masks = self._batches.read_ai_masks()
        results: list[Sequence[Any]] = []
        for project_ids in split_into_batches(sorted(set(projects)), MAX_PROJECTS_PER_STATEMENT):
            ai_masks = [stored_masks.get(project, DEFAULT_AI_MASK) for project in project_ids]
            params = {"projects": project_ids, "masks": ai_masks, "first": days.first, "end": days.end}
            results += self._cluster.reader.query(load_sql("site_totals"), params)
        return [
            SiteTotals(
                project, Counts(human, ai, total), Counts(human_views, ai_views, human_views + ai_views), ai_mask
            )
            for project, ai_mask, human, ai, total, human_views, ai_views in results
        ]

    def load_hours(self, project: str, first_at: int, end_at: int) -> HourlyReport:
        ai_mask = self._batches.read_ai_mask(project)
        return build_hourly_report(self._query("hours", project, DayRange(first_at, end_at), ai=ai_mask))

    def _query(self, name: str, project: str, days: DayRange, **params: Any) -> Rows:
        return self._cluster.reader.query(
            load_sql(name), {"project": project, "first": days.first, "end": days.end, **params}
        )


def _build_agent_row(agent: str, operator: str, kind: int, visitors: int, views: int) -> AgentRow:
    return AgentRow(agent or None, operator or None, KIND_BY_BIT[kind], visitors, views)


def _build_page(results: Rows, limit: int) -> ReportPage:
    """Builds a page of a report.

    The first row is the site's total; one row more than requested means there are more.
    """
    if not results:
        return ReportPage(Counts(), [], False)
    (_, *totals), *rows = results
    return ReportPage(
        Counts(*totals), [PageCounts(path, Counts(*count)) for path, *count in rows[:limit]], len(rows) > limit
    )
