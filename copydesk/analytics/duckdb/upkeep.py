"""What happens now and then: tidying, rebuilding, dropping and forgetting."""

from copydesk.analytics.duckdb.database import Connection, Database
from copydesk.analytics.duckdb.fold import folded
from copydesk.analytics.duckdb.statements import sql
from copydesk.core.clock import DAY

PART = 1_000_000
"""Visits that are chained at once in a rebuild."""
UNTIDY_FROM = 100_000


def tidy(database: Database, least: int = UNTIDY_FROM) -> None:
    """Adds up rows that folds have left side by side, once a table is half again as long as after the last time."""
    for table in ("firsts", "counts"):
        with database.write() as connection:
            mark = {"table": table}
            [(tidied,)] = connection.execute("select value from marks where name = $table", mark).fetchall()
            if _length(connection, table) - tidied > max(least, tidied // 2):
                connection.execute(sql(f"tidy_{table}"))
                left = _length(connection, table)
                connection.execute("update marks set value = $left where name = $table", {**mark, "left": left})


def _length(connection: Connection, table: str) -> int:
    [(rows,)] = connection.execute("select count(*) from query_table($table)", {"table": table}).fetchall()
    return int(rows)


def rebuild(database: Database) -> None:
    with database.write() as connection:
        _rebuild(connection, None)


def count_as_ai(database: Database, project: int, mask: int) -> None:
    with database.write() as connection:
        asked = {"project": project, "mask": mask}
        connection.execute("update projects set ai = $mask where id = $project", asked)
        connection.execute("update scopes set ai = $mask where project = $project and sort < 2", asked)
        _rebuild(connection, project)


def _rebuild(connection: Connection, project: int | None) -> None:
    """The index of one project, or of all."""
    connection.execute("delete from firsts where project = $project or $project is null", {"project": project})
    [(visits,)] = connection.execute("select count(*) from visits").fetchall()
    parts = 1 + visits // PART
    for part in range(parts):
        connection.execute(sql("rebuild_days"), {"part": part, "parts": parts, "project": project})
        connection.execute(sql("chain"))
    connection.execute("drop table days")


def drop_views(database: Database, before: int) -> int:
    with database.write() as connection:
        [(dropped,)] = connection.execute(
            "delete from views where time < $time and seq <= $folded",
            {"time": before * DAY, "folded": folded(connection)},
        ).fetchall()
        return int(dropped)


def forget(connection: Connection, project: int) -> None:
    asked = {"project": project}
    connection.execute("delete from visits where scope in (select id from scopes where project = $project)", asked)
    connection.execute("delete from views where project = $project", asked)
    connection.execute("delete from events where project = $project", asked)
    connection.execute("delete from firsts where project = $project", asked)
    connection.execute("delete from counts where project = $project", asked)
    connection.execute("delete from scopes where project = $project", asked)
    connection.execute("delete from projects where id = $project", asked)


def forget_visitor(database: Database, project: int, visitor: int) -> None:
    with database.write() as connection:
        asked = {"project": project, "visitor": visitor}
        connection.execute(sql("forget_days"), asked)
        connection.execute(sql("chain"))
        connection.execute("drop table days")
        connection.execute(
            "delete from visits"
            " where key in (select xor($visitor::ubigint, salt) from scopes where project = $project)",
            asked,
        )
        connection.execute("update views set visitor = null where project = $project and visitor = $visitor", asked)
