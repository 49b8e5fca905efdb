"""Reports: sums over the index and the counts. No report here reads visits; `list_rules` reads raw views that are not
summed up yet."""

from collections.abc import Collection, Sequence

from copydesk.analytics.stores.base import CLASS_BITS, DayRange, Interval
from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.last_folded import read_last_folded
from copydesk.analytics.stores.duckdb.folding.scope_table import HUMAN_BIT
from copydesk.analytics.stores.duckdb.folding.view_summaries import read_last_summarized
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.names.missing_paths import (
    MAX_REFERRERS_PER_PATH,
    build_missing_report,
    split_missing_results,
)
from copydesk.analytics.stores.names.referrer_hosts import build_referrer_row, build_referrer_totals
from copydesk.analytics.stores.report_rows import (
    AgentRow,
    Counts,
    MissingReport,
    PageCounts,
    ReferrerReport,
    ReportPage,
    RuleRow,
    SiteTotals,
    TimeseriesPoint,
)
from copydesk.core.clock import DAY

KIND_BY_BIT = {bit: kind for kind, bit in CLASS_BITS.items()}
SELECT_SITE = "select site, ai from projects where id = $project"
SELECT_SITES = "select name, site, ai from projects where list_contains($names, name) order by name"
SELECT_SITE_VISITORS = """
    select scope, (sum(human)::bigint, sum(ai)::bigint, sum(total)::bigint) from firsts
    where list_contains($sites::integer[], scope) and day >= $first and day < $end and prev < $first
    group by scope
"""
SELECT_SITE_VIEWS = """
    select scope, kind, sum(n)::bigint from counts
    where list_contains($sites::integer[], scope) and day >= $first and day < $end
    group by scope, kind
"""
PageResults = list[tuple[str, int, int, int]]


def count_views_by_page(database: DuckDatabase, project_id: str, days: DayRange, limit: int, offset: int) -> ReportPage:
    with database.read() as connection:
        params = {"project": find_project(connection, project_id), "first": days.first, "end": days.end}
        results = connection.execute(load_sql("views"), {**params, "limit": limit, "offset": offset}).fetchall()
    return build_report_page(results, limit, offset)


def list_agents(
    database: DuckDatabase, project_id: str, days: DayRange, limit: int, offset: int
) -> tuple[Sequence[AgentRow], bool]:
    with database.read() as connection:
        params = {"project": find_project(connection, project_id), "first": days.first, "end": days.end}
        results = connection.execute(load_sql("agents"), {**params, "limit": limit, "offset": offset}).fetchall()
    rows = [
        AgentRow(agent or None, operator or None, KIND_BY_BIT[kind], visitor_count, view_count)
        for agent, operator, kind, visitor_count, view_count in results
    ]
    return rows[:limit], len(rows) > limit


def list_missing_pages(
    database: DuckDatabase, project_id: str, days: DayRange, limit: int, offset: int
) -> MissingReport:
    with database.read() as connection:
        params = {"project": find_project(connection, project_id), "first": days.first, "end": days.end}
        results = connection.execute(load_sql("missing"), {**params, "limit": limit, "offset": offset}).fetchall()
        other, page_results, has_more = split_missing_results(results, limit, offset)
        scopes = [scope for scope, *_ in page_results]
        detail_params = {**params, "scopes": scopes, "referrers": MAX_REFERRERS_PER_PATH}
        details = connection.execute(load_sql("missing_details"), detail_params).fetchall() if scopes else []
    return build_missing_report(other, page_results, details, has_more)


def list_referrers(database: DuckDatabase, project_id: str, days: DayRange, limit: int, offset: int) -> ReferrerReport:
    with database.read() as connection:
        params = {"project": find_project(connection, project_id), "first": days.first, "end": days.end}
        totals = connection.execute(load_sql("referrer_totals"), params).fetchall()
        row_params = {**params, "limit": limit, "offset": offset}
        results = connection.execute(load_sql("referrers"), row_params).fetchall() if limit else []
    rows = [build_referrer_row(*result) for result in results[:limit]]
    return ReferrerReport(build_referrer_totals(totals), rows, len(results) > limit)


def list_rules(
    database: DuckDatabase, project_id: str, days: DayRange, limit: int, with_missing: bool
) -> Sequence[RuleRow]:
    with database.read() as connection:
        params = {"project": find_project(connection, project_id), **build_raw_view_params(connection, days)}
        results = connection.execute(load_sql("rules"), {**params, "limit": limit, "missing": with_missing}).fetchall()
    return [
        RuleRow(agent or None, operator or None, KIND_BY_BIT[kind], rule, view_count)
        for agent, operator, kind, rule, view_count in results
    ]


def load_timeseries(
    database: DuckDatabase, project_id: str, interval: Interval, days: DayRange
) -> Sequence[TimeseriesPoint]:
    with database.read() as connection:
        project = find_project(connection, project_id)
        [(site, ai_mask)] = connection.execute(SELECT_SITE, {"project": project}).fetchall() or [(0, 0)]
        return load_scope_timeseries(connection, project, site, ai_mask, interval, days)


def load_scope_timeseries(
    connection: DuckConnection, project: int, scope: int, ai_mask: int, interval: Interval, days: DayRange
) -> Sequence[TimeseriesPoint]:
    """Returns visitors and views of a site or a page by interval."""
    params = {"project": project, "scope": scope, "ai": ai_mask, "first": days.first, "end": days.end}
    results = connection.execute(load_sql("timeseries"), {**params, "interval": interval}).fetchall()
    return [
        TimeseriesPoint(day, Counts(human, ai, total), Counts(human_views, ai_views, human_views + ai_views))
        for day, human, ai, total, human_views, ai_views in results
    ]


def count_site_totals(database: DuckDatabase, project_ids: Collection[str], days: DayRange) -> Sequence[SiteTotals]:
    """Returns the totals of the sites that have views. Three simple statements take a third of the time of one."""
    with database.read() as connection:
        sites = connection.execute(SELECT_SITES, {"names": sorted(set(project_ids))}).fetchall()
        params = {"sites": [site for _, site, _ in sites], "first": days.first, "end": days.end}
        visitors = dict(connection.execute(SELECT_SITE_VISITORS, params).fetchall())
        views = connection.execute(SELECT_SITE_VIEWS, params).fetchall()
    views_by_class: dict[int, dict[int, int]] = {}
    for site, kind, view_count in views:
        views_by_class.setdefault(site, {})[kind] = view_count
    totals = []
    for name, site, ai_mask in sites:
        by_class = views_by_class.get(site, {})
        human, ai = by_class.get(HUMAN_BIT, 0), sum(count for kind, count in by_class.items() if kind & ai_mask)
        if human + ai:
            visitor_counts = Counts(*visitors.get(site, (0, 0, 0)))
            totals.append(SiteTotals(name, visitor_counts, Counts(human, ai, human + ai), ai_mask))
    return totals


def build_raw_view_params(connection: DuckConnection, days: DayRange) -> dict[str, int]:
    """Returns the parameters of a statement that reads sums of raw views, and the views that are not in them.

    DuckDB skips the other views only if the numbers are parameters, not subqueries.
    """
    return {
        "first": days.first, "end": days.end, "first_at": days.first * DAY, "end_at": days.end * DAY,
        "after": read_last_summarized(connection), "folded": read_last_folded(connection),
    }  # fmt: skip


def find_project(connection: DuckConnection, project_id: str) -> int:
    """Returns the id of a project in this transaction; 0, which matches no project, if it is unknown."""
    rows = connection.execute("select id from projects where name = $name", {"name": project_id}).fetchall()
    return int(rows[0][0]) if rows else 0


def build_report_page(results: PageResults, limit: int, offset: int) -> ReportPage:
    """Builds a page of a report.

    The first row is the site's total; one row more than requested means that there are more. Skipping the pages before
    the offset here is cheaper than a row number over all pages in DuckDB.
    """
    if not results:
        return ReportPage(Counts(), [], False)
    (_, *totals), *rows = results
    page_rows = rows[offset : offset + limit]
    return ReportPage(
        Counts(*totals), [PageCounts(path, Counts(*count)) for path, *count in page_rows], len(rows) > offset + limit
    )
