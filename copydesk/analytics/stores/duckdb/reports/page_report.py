"""The report about one page. Views by agent and referrer are sums of raw views; visitors are counted from raw views, if
these are not too many."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from copydesk.analytics.stores.base import CLASS_BITS, MAX_PAGE_DETAIL_ROWS, DayRange, RawViewLimits
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.scope_table import HUMAN_BIT
from copydesk.analytics.stores.duckdb.reports.site_reports import (
    KIND_BY_BIT,
    build_raw_view_params,
    find_project,
    load_scope_timeseries,
)
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.names.referrer_hosts import name_referrer
from copydesk.analytics.stores.report_rows import Counts, PageAgentRow, PageDetail, PageReferrerRow
from copydesk.core.clock import DAY

SELECT_PAGE = """
    select scopes.id, site, ai from scopes join projects on projects.id = scopes.project
    where scopes.project = $project and sort = 0 and path = $path
"""
SELECT_ALL_VIEWS = """
    select coalesce(sum(n), 0)::bigint from counts where project = $project and scope = $page
"""
SELECT_VISITORS = """
    select coalesce(sum(human), 0)::bigint, coalesce(sum(ai), 0)::bigint, coalesce(sum(total), 0)::bigint from firsts
    where project = $project and scope = $page and day >= $first and day < $end and prev < $first
"""
SELECT_DAYS = """
    select
        day, coalesce(sum(n) filter (scope = $page), 0)::bigint, coalesce(sum(n) filter (scope = $site), 0)::bigint,
        coalesce(sum(n) filter (scope = $page and kind & (1 | $ai) <> 0), 0)::bigint
    from counts
    where project = $project and scope in ($page, $site) and day >= $first and day < $end
    group by day
    order by day
"""
SELECT_VIEWS = """
    select agent, source, visitor from views
    where seq <= $folded and page = $page and time >= {first_at} and time < {end_at}
"""
"""One part of the days each. The times of many days in one condition would be compared with each view."""
MIN_SKIPPED_VIEWS = 1_000_000
"""Days without views of a page are skipped if the site has at least this many views on them, because each part of a
statement has a cost of its own."""


class DayViews(NamedTuple):
    """The views of a day: those of a page and of its whole site, of all classes, and those by people and AI."""

    day: int
    of_page: int
    of_site: int
    counted: int


def load_page(
    database: DuckDatabase,
    project_id: str,
    path: str,
    days: DayRange,
    limits: RawViewLimits,
    min_skipped_views: int = MIN_SKIPPED_VIEWS,
) -> PageDetail | None:
    with database.read() as connection:
        project = find_project(connection, project_id)
        found = connection.execute(SELECT_PAGE, {"project": project, "path": path}).fetchall()
        if not found:
            return None
        [(page, site, ai_mask)] = found
        params: dict[str, Any] = {"project": project, "page": page, "first": days.first, "end": days.end}
        results = connection.execute(SELECT_DAYS, {**params, "site": site, "ai": ai_mask}).fetchall()
        days_with_views = [DayViews(*result) for result in results]
        views_of_page = sum(each.of_page for each in days_with_views)
        if not views_of_page and not _has_views(connection, project, page):
            return None
        [totals] = connection.execute(SELECT_VISITORS, params).fetchall()
        timeseries = load_scope_timeseries(connection, project, page, ai_mask, "day", days)
        views_of_site = sum(each.of_site for each in days_with_views)
        with_visitors = views_of_page <= limits.of_page and views_of_site <= limits.of_site
        read_days = split_days(days_with_views, min_skipped_views) if with_visitors else []
        agents, referrers = _load_agents_and_referrers(connection, project, page, days, read_days)
    return PageDetail(Counts(*totals), sum(each.counted for each in days_with_views), timeseries, agents, referrers)


def _has_views(connection: DuckConnection, project: int, page: int) -> bool:
    """Returns whether a page has views on any day."""
    [(views,)] = connection.execute(SELECT_ALL_VIEWS, {"project": project, "page": page}).fetchall()
    return bool(views > 0)


def _load_agents_and_referrers(
    connection: DuckConnection, project: int, page: int, days: DayRange, read_days: Sequence[DayRange]
) -> tuple[list[PageAgentRow], list[PageReferrerRow]]:
    """Returns the agents that read a page, and where its people came from; visitors only of the days to read."""
    params = {"page": page, **build_raw_view_params(connection, days)}
    results = connection.execute(load_sql("page_views"), {"project": project, **params}).fetchall()
    people = sorted({agent_id for agent_id, _, _, agent_kind, *_ in results if agent_kind == HUMAN_BIT})
    visitors = _count_visitors(connection, page, people, params["folded"], read_days)
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


def split_days(days: Sequence[DayViews], min_skipped_views: int) -> list[DayRange]:
    """Returns the days on which a page has views, as ranges. Between two ranges, the site has at least this many views.

    The days must be in order.
    """
    ranges: list[DayRange] = []
    skipped_views = 0
    for each in days:
        if not each.of_page:
            skipped_views += each.of_site
            continue
        if ranges and skipped_views < min_skipped_views:
            ranges[-1] = DayRange(ranges[-1].first, each.day + 1)
        else:
            ranges.append(DayRange(each.day, each.day + 1))
        skipped_views = 0
    return ranges


def _count_visitors(
    connection: DuckConnection, page: int, people: Sequence[int], folded: int, days: Sequence[DayRange]
) -> list[tuple[int | None, int | None, int]]:
    """Returns the visitors of a page by agent, and those of people by source, from the raw views of these days.

    `people` are the agents whose views are by people.
    """
    if not days:
        return []
    parts = [SELECT_VIEWS.format(first_at=each.first * DAY, end_at=each.end * DAY) for each in days]
    statement = load_sql("page_visitors").replace("/* views */", " union all ".join(parts))
    return connection.execute(statement, {"page": page, "people": people, "folded": folded}).fetchall()


def _rank_agent(row: PageAgentRow) -> tuple[int, int, str, str, int]:
    """Puts the most visitors first, if they are known, then the most views, then sorts by name."""
    return -(row.visitors or 0), -row.views, row.agent or "", row.operator or "", CLASS_BITS[row.kind]


def _rank_referrer(row: PageReferrerRow) -> tuple[int, int, str, str]:
    """Puts the most visitors first, if they are known, then the most views, then sorts by name."""
    return -(row.visitors or 0), -row.views, row.referrer or "", row.kind
