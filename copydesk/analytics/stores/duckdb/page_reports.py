"""Reports about a part of the pages: sections, which read visits, and one page, which reads its raw views."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from copydesk.analytics.stores.base import MAX_PAGE_DETAIL_ROWS, DayRange, SectionQuery
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.section_visitors import SectionPages, count_section_visitors
from copydesk.analytics.stores.duckdb.reports import KIND_BY_BIT, SELECT_SITE, find_project, load_scope_timeseries
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.errors import StoreDamaged
from copydesk.analytics.stores.names.referrer_hosts import build_referrer_row
from copydesk.analytics.stores.report_rows import AgentRow, Counts, PageDetail, SectionReport, SectionRow
from copydesk.core.clock import DAY

READ_ATTEMPTS = 5
"""A report reads files that a merge may delete; the next attempt reads the merged one."""
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


def list_sections(
    database: DuckDatabase, project_id: str, days: DayRange, limit: int, offset: int, query: SectionQuery
) -> SectionReport:
    for attempt in range(READ_ATTEMPTS):
        try:
            with database.read() as connection:
                return _list_sections(connection, database, project_id, days, limit, offset, query)
        except StoreDamaged:
            if attempt == READ_ATTEMPTS - 1:
                raise
    raise StoreDamaged


def _list_sections(
    connection: DuckConnection,
    database: DuckDatabase,
    project_id: str,
    days: DayRange,
    limit: int,
    offset: int,
    query: SectionQuery,
) -> SectionReport:
    project = find_project(connection, project_id)
    params = {
        "project": project, "first": days.first, "end": days.end, "depth": query.depth, "prefix": query.prefix,
        "prefix_depth": query.prefix.count("/"),
    }  # fmt: skip
    rows = connection.execute(load_sql("section_pages"), params).fetchall()
    if not rows:
        return SectionReport(Counts(), 0, [], False)
    [(_, ai_mask)] = connection.execute(SELECT_SITE, {"project": project}).fetchall()
    names = sorted({section for _, _, section, _ in rows})
    pages = _build_pages(rows, {name: number for number, name in enumerate(names)})
    *visitors, totals = count_section_visitors(connection, database.path, pages, days, ai_mask, len(names)).tolist()
    views = dict.fromkeys(names, 0)
    for _, _, section, view_count in rows:
        views[section] += view_count
    sections = [
        SectionRow(name, Counts(*count), views[name]) for name, count in zip(names, visitors, strict=True) if name
    ]
    sections.sort(key=lambda row: (-row.count.total, row.section))
    has_more = len(sections) > offset + limit
    return SectionReport(Counts(*totals), sum(views.values()), sections[offset : offset + limit], has_more)


def _build_pages(rows: Sequence[tuple[int, int, str, int]], numbers: dict[str, int]) -> SectionPages:
    size = max(page for page, *_ in rows) + 1
    salt, section = np.zeros(size, np.int64), np.full(size, -1, np.int32)
    for page, page_salt, name, _ in rows:
        salt[page], section[page] = page_salt, numbers[name]
    return SectionPages(salt, section)


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
