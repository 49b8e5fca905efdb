"""Corrections of folded views: withdrawing some, or changing their classes. Counts the days of these views again."""

from collections.abc import Callable, Sequence

from copydesk.analytics.stores.base import CLASS_BITS, Correction, Reclassification
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.compaction import delete_rows
from copydesk.analytics.stores.duckdb.folding.last_folded import read_last_folded
from copydesk.analytics.stores.duckdb.folding.page_visitors import correct_page_visitors
from copydesk.analytics.stores.duckdb.folding.view_summaries import correct_summaries
from copydesk.analytics.stores.duckdb.folding.visitor_index import VisitorIndex
from copydesk.analytics.stores.duckdb.ids.id_tables import IdTables
from copydesk.analytics.stores.duckdb.ids.scopes import AGENT_SCOPE, MISSING_AGENT_SCOPE, append_rows
from copydesk.analytics.stores.duckdb.log.event_coverage import delete_coverage
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.errors import RawViewsDeleted

SELECT_WITHDRAWN = """
    create or replace temp table affected_views as
    with withdrawn as (select id, seq from events where project = $project and id in (select unnest($events::bigint[])))
    select views.seq, visitor, (time // 86400000)::usmallint as day, withdrawn.id as event
    from views join withdrawn on withdrawn.seq = views.seq
    where project = $project
"""
SELECT_RECLASSIFIED = """
    create or replace temp table affected_views as
    select views.seq, views.visitor, (time // 86400000)::usmallint as day, new_agent, new_kind, new_rule
    from views join rules on rules.id = views.rule join new_classes
        on new_classes.agent = views.agent and new_classes.rule = rules.rule
    where views.project = $project
"""
APPLY_RECLASSIFIED = """
    update views set agent = new_agent, kind = new_kind, rule = new_rule
    from affected_views where affected_views.seq = views.seq
"""
DELETE_AFFECTED_VIEWS = "delete from views where seq in (select seq from affected_views)"
DELETE_EVENTS = "delete from events where project = $project and id in (select event from affected_views)"
"""Events without a raw view stay, because the numbers still include their views."""
OF_AFFECTED_DAYS = "project = $project and day in (select day from affected_days)"
DELETE_AFFECTED_REFERRERS = f"delete from missing_referrers where {OF_AFFECTED_DAYS}"  # noqa: S608 - ours
VIEWS_OF_AFFECTED_DAYS = """
    where project = $project and seq <= $folded and (time // 86400000)::usmallint in (select day from affected_days)
"""
VIEWS_OF_AFFECTED_VISITORS = """
    where project = $project and seq <= $folded and (time // 86400000)::usmallint in (select day from affected_days)
        and visitor in (select visitor from affected_visitors)
"""
TEMPORARY_TABLES = ("affected_views", "affected_days", "affected_visitors")


def withdraw_views(index: VisitorIndex, connection: DuckConnection, project: int, events: Sequence[int]) -> int:
    """Deletes the views of these events, and the events. Returns how many views."""
    connection.execute(SELECT_WITHDRAWN, {"project": project, "events": list(events)})
    if incomplete_days := _select_incomplete_days(connection, project):
        raise RawViewsDeleted.for_days(incomplete_days)
    [(deleted_events,)] = connection.execute(DELETE_EVENTS, {"project": project}).fetchall()
    if deleted_events:
        delete_coverage(connection)
    return _correct(index, connection, project, lambda: connection.execute(DELETE_AFFECTED_VIEWS))


def reclassify_views(
    index: VisitorIndex,
    connection: DuckConnection,
    id_tables: IdTables,
    project_name: str,
    changes: Sequence[Reclassification],
    version: str,
) -> Correction:
    """Gives views another class, except on days of which raw views were deleted."""
    project = id_tables.projects[project_name]
    _store_new_classes(connection, id_tables, project_name, changes, version)
    connection.execute(SELECT_RECLASSIFIED, {"project": project})
    skipped_days = _select_incomplete_days(connection, project)
    if skipped_days:
        connection.execute(
            "delete from affected_views where day in (select unnest($days::usmallint[]))", {"days": skipped_days}
        )
    views = _correct(index, connection, project, lambda: connection.execute(APPLY_RECLASSIFIED))
    connection.execute("drop table new_classes")
    return Correction(views, tuple(skipped_days))


def _store_new_classes(
    connection: DuckConnection,
    id_tables: IdTables,
    project_name: str,
    changes: Sequence[Reclassification],
    version: str,
) -> None:
    connection.execute(
        "create or replace temp table new_classes"
        " (agent integer, rule varchar, new_agent integer, new_kind integer, new_rule integer)"
    )
    id_tables.add_rules(connection, {(change.new_rule, version) for change in changes})
    rows = []
    for sort in (AGENT_SCOPE, MISSING_AGENT_SCOPE):
        known_changes = [
            (agent_id, change)
            for change in changes
            if (agent_id := id_tables.find_agent(project_name, change.agent, change.operator, change.kind, sort))
            is not None
        ]
        new_agents = {(project_name, c.new_agent, c.new_operator, c.new_kind) for _, c in known_changes}
        id_tables.add_agents(connection, new_agents, sort)
        rows += [
            (
                agent_id,
                change.rule,
                id_tables.find_agent(project_name, change.new_agent, change.new_operator, change.new_kind, sort),
                CLASS_BITS[change.new_kind],
                id_tables.find_rule(change.new_rule, version),
            )
            for agent_id, change in known_changes
        ]
    append_rows(connection, "new_classes", ["agent", "rule", "new_agent", "new_kind", "new_rule"], rows)


def _select_incomplete_days(connection: DuckConnection, project: int) -> list[int]:
    """Stores the affected days and returns those of which raw views were deleted."""
    folded = read_last_folded(connection)
    connection.execute(
        "create or replace temp table affected_days as select distinct day from affected_views where seq <= $folded",
        {"folded": folded},
    )
    rows = connection.execute(load_sql("correct_incomplete_days"), {"project": project, "folded": folded}).fetchall()
    return [day for (day,) in rows]


def _correct(index: VisitorIndex, connection: DuckConnection, project: int, change_views: Callable[[], object]) -> int:
    """Changes the affected views and everything that was counted from them. Returns the number of affected views."""
    folded = read_last_folded(connection)
    connection.execute(
        "create or replace temp table affected_days as select distinct day from affected_views where seq <= $folded",
        {"folded": folded},
    )
    connection.execute(
        "create or replace temp table affected_visitors as"
        " select distinct visitor from affected_views where seq <= $folded and visitor is not null",
        {"folded": folded},
    )
    params = {"project": project, "folded": folded}
    old_visits = index.load_visits(connection, VIEWS_OF_AFFECTED_VISITORS, params)
    change_views()
    index.replace_visits(connection, old_visits, index.load_visits(connection, VIEWS_OF_AFFECTED_VISITORS, params))
    delete_rows(connection, "counts", OF_AFFECTED_DAYS, {"project": project})
    connection.execute(DELETE_AFFECTED_REFERRERS, {"project": project})
    index.count_views(connection, VIEWS_OF_AFFECTED_DAYS, params)
    correct_summaries(connection, project)
    correct_page_visitors(connection, project)
    [(view_count,)] = connection.execute("select count(*) from affected_views").fetchall()
    for table in TEMPORARY_TABLES:
        connection.execute(f"drop table {table}")
    return int(view_count)
