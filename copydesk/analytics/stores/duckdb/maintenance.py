"""What happens now and then: tidying, rebuilding, dropping and forgetting."""

from collections.abc import Collection

from copydesk.analytics.stores.duckdb.database import Connection, Database
from copydesk.analytics.stores.duckdb.fold import folded
from copydesk.analytics.stores.duckdb.sql_files import sql
from copydesk.core.clock import DAY

PART = 1_000_000
"""Visits that are chained at once in a rebuild."""
UNTIDY_FROM = 100_000
LENGTHS = """
    select name, value, if(name = 'firsts', (select count(*) from firsts), (select count(*) from counts))
    from marks where name in ('firsts', 'counts')
"""


def tidy(database: Database, least: int = UNTIDY_FROM) -> bool:
    """Adds up rows that folds have left side by side, once a table is half again as long as after the last time.
    Whether there was something to do."""
    with database.read() as connection:
        found = connection.execute(LENGTHS).fetchall()
    untidy = [table for table, tidied, length in found if length - tidied > max(least, tidied // 2)]
    for table in untidy:
        with database.write() as connection:
            connection.execute(sql(f"tidy_{table}"))
            [(left,)] = connection.execute("select count(*) from query_table($table)", {"table": table}).fetchall()
            marked = {"table": table, "left": left}
            connection.execute("update marks set value = $left where name = $table", marked)
    return bool(untidy)


def rebuild(database: Database) -> None:
    with database.write() as connection:
        _rebuild(connection, None)


def count_as_ai(database: Database, project: int, mask: int) -> None:
    """Costs nothing when it is so already."""
    with database.write() as connection:
        asked = {"project": project, "mask": mask}
        changing = "update projects set ai = $mask where id = $project and ai <> $mask returning id"
        if not connection.execute(changing, asked).fetchall():
            return
        connection.execute("update targets set ai = $mask where project = $project and human <> 0", asked)
        _rebuild(connection, project)


def _rebuild(connection: Connection, project: int | None) -> None:
    """The index of one project, or of all."""
    connection.execute("delete from firsts where project = $project or $project is null", {"project": project})
    [(visits,)] = connection.execute("select count(*) from visits").fetchall()
    parts = 1 + visits // PART
    for part in range(parts):
        connection.execute(sql("rebuild_days"), {"part": part, "parts": parts, "project": project})
        connection.execute(sql("whole"), {"sign": 1})
    connection.execute("drop table days")


def drop_views(database: Database, before: int, projects: Collection[str] | None) -> int:
    if projects is not None and not projects:
        return 0
    of_these = "" if projects is None else " and project in (select id from projects where list_contains($names, name))"
    with database.write() as connection:
        asked = {"time": before * DAY, "folded": folded(connection)}
        [(dropped,)] = connection.execute(
            f"delete from views where time < $time and seq <= $folded{of_these}",  # noqa: S608 - ours
            asked if projects is None else {**asked, "names": list(projects)},
        ).fetchall()
        return int(dropped)


def forget(connection: Connection, project: int) -> None:
    asked = {"project": project}
    connection.execute("delete from visits where scope in (select id from scopes where project = $project)", asked)
    connection.execute("delete from views where project = $project", asked)
    connection.execute("delete from events where project = $project", asked)
    connection.execute("delete from firsts where project = $project", asked)
    connection.execute("delete from counts where project = $project", asked)
    connection.execute("delete from targets where project = $project", asked)
    connection.execute("delete from scopes where project = $project", asked)
    connection.execute("delete from projects where id = $project", asked)


def forget_visitor(database: Database, project: int, visitor: int) -> None:
    with database.write() as connection:
        asked = {"project": project, "visitor": visitor}
        connection.execute(sql("forget_days"), asked)
        connection.execute(sql("whole"), {"sign": -1})
        connection.execute("drop table days")
        connection.execute(
            "delete from visits using scopes"
            " where scopes.id = scope and project = $project and key = xor($visitor::bigint, salt)",
            asked,
        )
        connection.execute("update views set visitor = null where project = $project and visitor = $visitor", asked)
