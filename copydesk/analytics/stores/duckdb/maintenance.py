"""Maintenance: compacting tables, rebuilding the index, deleting raw views, projects and visitors."""

from collections.abc import Collection

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.duckdb.visitor_index import read_last_folded
from copydesk.core.clock import DAY

VISITS_PER_PART = 1_000_000
"""How many visits a rebuild links at once."""
MIN_NEW_ROWS = 100_000
SELECT_TABLE_LENGTHS = """
    select name, value, if(name = 'firsts', (select count(*) from firsts), (select count(*) from counts))
    from marks where name in ('firsts', 'counts')
"""


def compact_tables(database: DuckDatabase, min_new_rows: int = MIN_NEW_ROWS) -> bool:
    """Merges rows that folds have added for the same keys, once a table has grown by half since the last compaction.
    Returns whether any table was compacted."""
    with database.read() as connection:
        rows = connection.execute(SELECT_TABLE_LENGTHS).fetchall()
    oversized = [
        table
        for table, compacted_length, length in rows
        if length - compacted_length > max(min_new_rows, compacted_length // 2)
    ]
    for table in oversized:
        with database.write() as connection:
            connection.execute(load_sql(f"tidy_{table}"))
            [(row_count,)] = connection.execute("select count(*) from query_table($table)", {"table": table}).fetchall()
            params = {"table": table, "left": row_count}
            connection.execute("update marks set value = $left where name = $table", params)
    return bool(oversized)


def rebuild_index(database: DuckDatabase) -> None:
    with database.write() as connection:
        _rebuild_index(connection, None)


def set_ai_classes(database: DuckDatabase, project: int, ai_mask: int) -> None:
    """Sets the classes that count as AI and rebuilds the project's index; does nothing if they are unchanged."""
    with database.write() as connection:
        params = {"project": project, "mask": ai_mask}
        statement = "update projects set ai = $mask where id = $project and ai <> $mask returning id"
        if not connection.execute(statement, params).fetchall():
            return
        connection.execute("update targets set ai = $mask where project = $project and human <> 0", params)
        _rebuild_index(connection, project)


def _rebuild_index(connection: DuckConnection, project: int | None) -> None:
    """Rebuilds the index of one project; None means all."""
    connection.execute("delete from firsts where project = $project or $project is null", {"project": project})
    [(visit_count,)] = connection.execute("select count(*) from visits").fetchall()
    parts = 1 + visit_count // VISITS_PER_PART
    for part in range(parts):
        connection.execute(load_sql("rebuild_days"), {"part": part, "parts": parts, "project": project})
        connection.execute(load_sql("rebuild_firsts"), {"sign": 1})
    connection.execute("drop table visitor_days")


def delete_raw_views(database: DuckDatabase, before_day: int, project_ids: Collection[str] | None) -> int:
    if project_ids is not None and not project_ids:
        return 0
    project_condition = (
        "" if project_ids is None else " and project in (select id from projects where list_contains($names, name))"
    )
    with database.write() as connection:
        params = {"time": before_day * DAY, "folded": read_last_folded(connection)}
        [(deleted,)] = connection.execute(
            f"delete from views where time < $time and seq <= $folded{project_condition}",  # noqa: S608 - ours
            params if project_ids is None else {**params, "names": list(project_ids)},
        ).fetchall()
        return int(deleted)


def forget_project(connection: DuckConnection, project: int) -> None:
    params = {"project": project}
    connection.execute("delete from visits where scope in (select id from scopes where project = $project)", params)
    connection.execute("delete from views where project = $project", params)
    connection.execute("delete from events where project = $project", params)
    connection.execute("delete from firsts where project = $project", params)
    connection.execute("delete from counts where project = $project", params)
    connection.execute("delete from targets where project = $project", params)
    connection.execute("delete from scopes where project = $project", params)
    connection.execute("delete from projects where id = $project", params)


def forget_visitor(database: DuckDatabase, project: int, visitor: int) -> None:
    with database.write() as connection:
        params = {"project": project, "visitor": visitor}
        connection.execute(load_sql("forget_days"), params)
        connection.execute(load_sql("rebuild_firsts"), {"sign": -1})
        connection.execute("drop table visitor_days")
        connection.execute(
            "delete from visits using scopes"
            " where scopes.id = scope and project = $project and key = xor($visitor::bigint, salt)",
            params,
        )
        connection.execute("update views set visitor = null where project = $project and visitor = $visitor", params)
