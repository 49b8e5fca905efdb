"""The report about one page. Its agents and referrers are counted from its raw views."""

from typing import Any

from copydesk.analytics.stores.base import MAX_PAGE_DETAIL_ROWS, DayRange
from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.reports.site_reports import (
    KIND_BY_BIT,
    SELECT_SITE,
    find_project,
    load_scope_timeseries,
)
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.names.referrer_hosts import build_referrer_row
from copydesk.analytics.stores.report_rows import AgentRow, Counts, PageDetail
from copydesk.core.clock import DAY

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


def load_page(database: DuckDatabase, project_id: str, path: str, days: DayRange) -> PageDetail | None:
    with database.read() as connection:
        project = find_project(connection, project_id)
        found = connection.execute(load_sql("page"), {"project": project, "path": path}).fetchall()
        if not found:
            return None
        [(page,)] = found
        [(_, ai_mask)] = connection.execute(SELECT_SITE, {"project": project}).fetchall()
        params: dict[str, Any] = {"project": project, "scope": page, "first": days.first, "end": days.end}
        [(*totals, views)] = connection.execute(SELECT_PAGE_TOTALS, {**params, "ai": ai_mask}).fetchall()
        raw_params = {"page": page, "first": days.first * DAY, "end": days.end * DAY, "limit": MAX_PAGE_DETAIL_ROWS}
        agents = connection.execute(load_sql("page_agents"), raw_params).fetchall()
        referrers = connection.execute(load_sql("page_referrers"), raw_params).fetchall()
        timeseries = load_scope_timeseries(connection, project, page, ai_mask, "day", days)
    return PageDetail(
        Counts(*totals),
        views,
        timeseries,
        [
            AgentRow(agent or None, operator or None, KIND_BY_BIT[kind], visitors, view_count)
            for agent, operator, kind, visitors, view_count in agents
        ],
        [build_referrer_row(*row) for row in referrers],
    )
