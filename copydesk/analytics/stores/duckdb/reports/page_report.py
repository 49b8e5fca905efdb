"""The report about one page. Views by agent and referrer are sums of raw views; visitors are counted from their copy by
page, and from the raw views that are not copied yet, if these are not too many."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from copydesk.analytics.stores.base import CLASS_BITS, MAX_PAGE_DETAIL_ROWS, DayRange, RawViewLimits
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.page_visitors import read_last_copied
from copydesk.analytics.stores.duckdb.folding.scope_table import HUMAN_BIT
from copydesk.analytics.stores.duckdb.reports.site_reports import (
    KIND_BY_BIT,
    build_raw_view_params,
    find_project,
)
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.names.referrer_hosts import name_referrer
from copydesk.analytics.stores.report_rows import Counts, PageAgentRow, PageDetail, PageReferrerRow, TimeseriesPoint

SELECT_PAGE = """
    select scopes.id, site, ai from scopes join projects on projects.id = scopes.project
    where scopes.project = $project and sort = 0 and path = $path
"""
SELECT_ALL_VIEWS = """
    select coalesce(sum(n), 0)::bigint from counts where project = $project and scope = $page
"""
SELECT_VISITORS = """
    select
        day, sum(human)::bigint, sum(ai)::bigint, sum(total)::bigint,
        coalesce(sum(human) filter (prev < $first), 0)::bigint, coalesce(sum(ai) filter (prev < $first), 0)::bigint,
        coalesce(sum(total) filter (prev < $first), 0)::bigint
    from firsts
    where project = $project and scope = $page and day >= $first and day < $end
    group by day
"""
"""The visitors of the page by day, and those of them who came for the first time in the range."""
SELECT_VIEWS = """
    select
        day, coalesce(sum(n) filter (scope = $page and kind = 1), 0)::bigint,
        coalesce(sum(n) filter (scope = $page and kind & $ai <> 0), 0)::bigint,
        coalesce(sum(n) filter (scope = $page), 0)::bigint, coalesce(sum(n) filter (scope = $site), 0)::bigint
    from counts
    where project = $project and scope in ($page, $site) and day >= $first and day < $end
    group by day
    order by day
"""
"""The views of the page by day, by people and by AI, and the views of the page and of its site of all classes."""


class DayVisitors(NamedTuple):
    day: int
    human: int
    ai: int
    total: int
    new_human: int
    new_ai: int
    new_total: int


class DayViews(NamedTuple):
    day: int
    human: int
    ai: int
    of_page: int
    of_site: int


class PageVisitorCounts(NamedTuple):
    """The visitors of a page by agent, and those of people by source. An agent or a source may have none."""

    by_agent: Counter[int]
    by_source: Counter[int]


def load_page(
    database: DuckDatabase, project_id: str, path: str, days: DayRange, limits: RawViewLimits
) -> PageDetail | None:
    with database.read() as connection:
        project = find_project(connection, project_id)
        found = connection.execute(SELECT_PAGE, {"project": project, "path": path}).fetchall()
        if not found:
            return None
        [(page, site, ai_mask)] = found
        params = {"project": project, "page": page, "first": days.first, "end": days.end}
        rows = connection.execute(SELECT_VIEWS, {**params, "site": site, "ai": ai_mask}).fetchall()
        views_by_day = [DayViews(*row) for row in rows]
        views_of_page = sum(day.of_page for day in views_by_day)
        if not views_of_page and not _has_views(connection, project, page):
            return None
        visitors_by_day = [DayVisitors(*row) for row in connection.execute(SELECT_VISITORS, params).fetchall()]
        raw_params = {"project": project, "page": page, **build_raw_view_params(connection, days)}
        results = connection.execute(load_sql("page_views"), raw_params).fetchall()
        last_copied = read_last_copied(connection)
        searched_views = min(sum(day.of_site for day in views_by_day), raw_params["folded"] - last_copied)
        visitors = None
        if views_of_page <= limits.of_page and searched_views <= limits.of_site:
            people = sorted({agent_id for agent_id, _, _, agent_kind, *_ in results if agent_kind == HUMAN_BIT})
            visitors = _count_visitors(connection, {**raw_params, "after": last_copied, "people": people})
    totals = Counts(
        sum(day.new_human for day in visitors_by_day),
        sum(day.new_ai for day in visitors_by_day),
        sum(day.new_total for day in visitors_by_day),
    )
    timeseries = _build_timeseries(views_by_day, visitors_by_day)
    counted_views = sum(point.views.total for point in timeseries)
    return PageDetail(totals, counted_views, timeseries, *_build_rows(results, visitors))


def _has_views(connection: DuckConnection, project: int, page: int) -> bool:
    """Returns whether a page has views on any day."""
    [(views,)] = connection.execute(SELECT_ALL_VIEWS, {"project": project, "page": page}).fetchall()
    return bool(views > 0)


def _build_timeseries(views: Sequence[DayViews], visitors: Sequence[DayVisitors]) -> Sequence[TimeseriesPoint]:
    """Returns the days with views by people or AI."""
    visitors_by_day = {each.day: Counts(each.human, each.ai, each.total) for each in visitors}
    return [
        TimeseriesPoint(
            each.day, visitors_by_day.get(each.day, Counts()), Counts(each.human, each.ai, each.human + each.ai)
        )
        for each in views
        if each.human + each.ai
    ]


def _build_rows(
    results: Sequence[tuple[Any, ...]], visitors: PageVisitorCounts | None
) -> tuple[list[PageAgentRow], list[PageReferrerRow]]:
    """Returns the agents that read a page, and where its people came from."""
    agent_views: Counter[tuple[int, str, str, int]] = Counter()
    source_views: Counter[tuple[int, int, str]] = Counter()
    for agent_id, agent, operator, agent_kind, source_id, source_kind, host, views in results:
        agent_views[agent_id, agent, operator, agent_kind] += views
        if source_id:
            source_views[source_id, source_kind, host] += views
    agents = [
        PageAgentRow(
            agent or None, operator or None, KIND_BY_BIT[kind], visitors and visitors.by_agent[agent_id], views
        )
        for (agent_id, agent, operator, kind), views in agent_views.items()
    ]
    referrers = [
        PageReferrerRow(*name_referrer(kind, host), visitors and visitors.by_source[source_id], views)
        for (source_id, kind, host), views in source_views.items()
    ]
    agents.sort(key=_rank_agent)
    referrers.sort(key=_rank_referrer)
    return agents[:MAX_PAGE_DETAIL_ROWS], referrers[:MAX_PAGE_DETAIL_ROWS]


def _count_visitors(connection: DuckConnection, params: Mapping[str, Any]) -> PageVisitorCounts:
    rows = connection.execute(load_sql("page_visitors"), params).fetchall()
    return PageVisitorCounts(
        Counter({agent: count for agent, _, count in rows if agent is not None}),
        Counter({source: count for _, source, count in rows if source is not None}),
    )


def _rank_agent(row: PageAgentRow) -> tuple[int, int, str, str, int]:
    """Puts the most visitors first, if they are known, then the most views, then sorts by name."""
    return -(row.visitors or 0), -row.views, row.agent or "", row.operator or "", CLASS_BITS[row.kind]


def _rank_referrer(row: PageReferrerRow) -> tuple[int, int, str, str]:
    """Puts the most visitors first, if they are known, then the most views, then sorts by name."""
    return -(row.visitors or 0), -row.views, row.referrer or "", row.kind
