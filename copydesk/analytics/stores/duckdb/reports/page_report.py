"""The report about one page. Views by agent and referrer are sums of raw views; visitors are counted from raw views, if
these are not too many."""

from collections import Counter
from typing import Any

from copydesk.analytics.stores.base import CLASS_BITS, MAX_PAGE_DETAIL_ROWS, DayRange, RawViewLimits
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.reports.site_reports import (
    KIND_BY_BIT,
    SELECT_SITE,
    build_raw_view_params,
    find_project,
    load_scope_timeseries,
)
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.names.referrer_hosts import name_referrer
from copydesk.analytics.stores.report_rows import Counts, PageAgentRow, PageDetail, PageReferrerRow

SELECT_PAGE_TOTALS = """
    select
        coalesce(sum(human), 0)::bigint, coalesce(sum(ai), 0)::bigint, coalesce(sum(total), 0)::bigint,
        (
            select coalesce(sum(n), 0)::bigint from counts
            where project = $project and scope = $scope and day >= $first and day < $end and kind & (1 | $ai) <> 0
        )
    from firsts
    where project = $project and scope = $scope and day >= $first and day < $end and prev < $first
"""
SELECT_VIEWS_OF_ALL_CLASSES = """
    select coalesce(sum(n) filter (scope = $page), 0)::bigint, coalesce(sum(n) filter (scope = $site), 0)::bigint
    from counts
    where project = $project and scope in ($page, $site) and day >= $first and day < $end
"""


def load_page(
    database: DuckDatabase, project_id: str, path: str, days: DayRange, limits: RawViewLimits
) -> PageDetail | None:
    with database.read() as connection:
        project = find_project(connection, project_id)
        found = connection.execute(load_sql("page"), {"project": project, "path": path}).fetchall()
        if not found:
            return None
        [(page,)] = found
        [(site, ai_mask)] = connection.execute(SELECT_SITE, {"project": project}).fetchall()
        params: dict[str, Any] = {"project": project, "first": days.first, "end": days.end}
        [(*totals, views)] = connection.execute(SELECT_PAGE_TOTALS, {**params, "scope": page, "ai": ai_mask}).fetchall()
        timeseries = load_scope_timeseries(connection, project, page, ai_mask, "day", days)
        [(page_views, site_views)] = connection.execute(
            SELECT_VIEWS_OF_ALL_CLASSES, {**params, "page": page, "site": site}
        ).fetchall()
        with_visitors = page_views <= limits.of_page and site_views <= limits.of_site
        agents, referrers = _load_agents_and_referrers(connection, project, page, days, with_visitors)
    return PageDetail(Counts(*totals), views, timeseries, agents, referrers)


def _load_agents_and_referrers(
    connection: DuckConnection, project: int, page: int, days: DayRange, with_visitors: bool
) -> tuple[list[PageAgentRow], list[PageReferrerRow]]:
    """Returns the agents that read a page, and where its people came from."""
    params = {"page": page, **build_raw_view_params(connection, days)}
    results = connection.execute(load_sql("page_views"), {"project": project, **params}).fetchall()
    visitor_params = {name: params[name] for name in ("page", "folded", "first_at", "end_at")}
    visitors = connection.execute(load_sql("page_visitors"), visitor_params).fetchall() if with_visitors else []
    by_agent = {agent: count for agent, _, count in visitors if agent is not None}
    by_source = {source: count for _, source, count in visitors if source is not None}
    agent_views: Counter[tuple[int, str, str, int]] = Counter()
    source_views: Counter[tuple[int, int, str]] = Counter()
    for agent_id, agent, operator, agent_kind, source_id, source_kind, host, views in results:
        agent_views[agent_id, agent, operator, agent_kind] += views
        if source_id:
            source_views[source_id, source_kind, host] += views
    agents = [
        PageAgentRow(agent or None, operator or None, KIND_BY_BIT[kind], by_agent.get(agent_id), views)
        for (agent_id, agent, operator, kind), views in agent_views.items()
    ]
    referrers = [
        PageReferrerRow(*name_referrer(kind, host), by_source.get(source_id), views)
        for (source_id, kind, host), views in source_views.items()
    ]
    agents.sort(key=_rank_agent)
    referrers.sort(key=_rank_referrer)
    return agents[:MAX_PAGE_DETAIL_ROWS], referrers[:MAX_PAGE_DETAIL_ROWS]


def _rank_agent(row: PageAgentRow) -> tuple[int, int, str, str, int]:
    """Puts the most visitors first, if they are known, then the most views, then sorts by name."""
    return -(row.visitors or 0), -row.views, row.agent or "", row.operator or "", CLASS_BITS[row.kind]


def _rank_referrer(row: PageReferrerRow) -> tuple[int, int, str, str]:
    """Puts the most visitors first, if they are known, then the most views, then sorts by name."""
    return -(row.visitors or 0), -row.views, row.referrer or "", row.kind
