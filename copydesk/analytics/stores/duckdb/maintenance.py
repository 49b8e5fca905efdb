"""Maintenance: rebuilding the index, deleting raw views, projects and visitors, completing copies."""

from collections.abc import Collection, Mapping
from typing import Any

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.compaction import DAY_TABLES, delete_rows
from copydesk.analytics.stores.duckdb.folding.last_folded import read_last_folded
from copydesk.analytics.stores.duckdb.folding.runs.run_file import RunFile
from copydesk.analytics.stores.duckdb.folding.runs.run_merge import merge_runs
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import name_columns
from copydesk.analytics.stores.duckdb.folding.view_summaries import RAW_VIEW_TABLES
from copydesk.analytics.stores.duckdb.folding.visitor_index import VisitorIndex
from copydesk.analytics.stores.duckdb.log.event_coverage import delete_coverage
from copydesk.analytics.stores.duckdb.log.view_changes import count_view_change
from copydesk.core.clock import DAY

COPIED_ROWS = 1_000_000
DELETE_INCOMPLETE_SECTIONS = """
    delete from incomplete_sections where scope in (select id from scopes where project = $project)
"""
SELECT_PAGES_AND_DAYS = """
    select distinct page, (time // 86400000)::usmallint from views where project = $project and visitor = $visitor
"""
FORGET_VISITOR = "update views set visitor = null where project = $project and visitor = $visitor"
DELETE_PAGE_VISITOR = """
    delete from page_visitors where page in (select unnest($pages::integer[])) and visitor = $visitor
"""
DELETE_HOURS = "delete from hour_counts where project = $project and day in (select unnest($days::usmallint[]))"


def rebuild_index(index: VisitorIndex, database: DuckDatabase) -> None:
    with index.change(), database.write(for_fold=True) as connection:
        count_view_change(connection)
        index.rebuild(connection, None)


def set_ai_classes(index: VisitorIndex, database: DuckDatabase, project: int, ai_mask: int) -> None:
    """Sets the classes that count as AI and rebuilds the project's index; does nothing if they are unchanged."""
    with index.change(), database.write(for_fold=True) as connection:
        params = {"project": project, "mask": ai_mask}
        statement = "update projects set ai = $mask where id = $project and ai <> $mask returning id"
        if connection.execute(statement, params).fetchall():
            count_view_change(connection)
            connection.execute("delete from hour_counts where project = $project", {"project": project})
            index.discard_scopes()
            index.rebuild(connection, project)


def delete_raw_views(database: DuckDatabase, before_day: int, project_ids: Collection[str] | None) -> int:
    if project_ids is not None and not project_ids:
        return 0
    project_condition = (
        "" if project_ids is None else " and project in (select id from projects where list_contains($names, name))"
    )
    with database.write() as connection:
        params: dict[str, Any] = {} if project_ids is None else {"names": list(project_ids)}
        for table in RAW_VIEW_TABLES:
            condition = f"day < $day{project_condition}"
            connection.execute(f"delete from {table} where {condition}", {**params, "day": before_day})  # noqa: S608
        condition = f"time < $time and seq <= $folded{project_condition}"
        params |= {"time": before_day * DAY, "folded": read_last_folded(connection)}
        [(deleted,)] = connection.execute(f"delete from views where {condition}", params).fetchall()  # noqa: S608
        if deleted:  # this runs every hour, and mostly deletes nothing
            count_view_change(connection)
        return int(deleted)


def forget_project(index: VisitorIndex, connection: DuckConnection, project: int) -> None:
    index.forget_project(connection, project)
    params = {"project": project}
    connection.execute("delete from views where project = $project", params)
    connection.execute("delete from events where project = $project", params)
    delete_coverage(connection)
    for table in DAY_TABLES:
        delete_rows(connection, table, "project = $project", params)
    connection.execute("delete from missing_referrers where project = $project", params)
    for table in RAW_VIEW_TABLES:
        connection.execute(f"delete from {table} where project = $project", params)  # noqa: S608 - ours
    connection.execute(DELETE_INCOMPLETE_SECTIONS, params)
    connection.execute("delete from scopes where project = $project", params)
    connection.execute("delete from projects where id = $project", params)


def forget_visitor(index: VisitorIndex, database: DuckDatabase, project: int, visitor: int) -> None:
    with index.change(), database.write(for_fold=True) as connection:
        index.forget_visitor(connection, project, visitor)
        count_view_change(connection)
        params = {"project": project, "visitor": visitor}
        views = connection.execute(SELECT_PAGES_AND_DAYS, params).fetchall()
        pages, days = sorted({page for page, _ in views}), sorted({day for _, day in views})
        connection.execute(FORGET_VISITOR, params)
        connection.execute(DELETE_HOURS, {"project": project, "days": days})
        connection.execute(DELETE_PAGE_VISITOR, {"pages": pages, "visitor": visitor})


def complete_copy(runs: Mapping[int, RunFile], connection: DuckConnection, database: str) -> None:
    """Makes a copy of the database independent of files: moves the runs that it lists into its table of visits."""
    listed = connection.execute(f"select id from {database}.visit_runs order by id").fetchall()  # noqa: S608 - ours
    for (run_id,) in listed:
        runs[run_id].verify()
        for rows in merge_runs([runs[run_id]], COPIED_ROWS):
            connection.register("copied_rows", dict(name_columns(rows)))
            connection.execute(f"insert into {database}.visits from copied_rows")
            connection.unregister("copied_rows")
    connection.execute(f"delete from {database}.visit_runs")  # noqa: S608 - ours
    delete_coverage(connection, database)
