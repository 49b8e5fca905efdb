"""Folding: logged views become visits, and the visits become links of the index, all in one transaction."""

from collections.abc import Iterator

from copydesk.analytics.stores.duckdb.database import Connection, Database
from copydesk.analytics.stores.duckdb.sql_files import sql

MOST = 250_000
"""Views in one transaction: enough to pay for the pass over all visits, few enough for the memory."""
STEPS = ("fold_known", "fold_visits", "fold_days", "chain")
TEMPORARY = ("came", "known", "days")
NEW = "select (select max(id) from scopes where sort <> 1) > (select coalesce(max(scope), 0) from targets)"


def fold(database: Database, upto: int, most: int = MOST) -> Iterator[int]:
    """Counts the logged views up to this number, in as many transactions as they need. How many there were in each."""
    last = 0
    while last < upto:
        with database.write() as connection:
            after = folded(connection)
            last = min(upto, after + most)
            views = _fold_some(connection, after, last) if after < last else 0
        if after < last:
            yield views


def _fold_some(connection: Connection, after: int, last: int) -> int:
    [(new,)] = connection.execute(NEW).fetchall()
    if new:
        connection.execute(sql("fold_targets"))
    some = {"after": after, "upto": last}
    connection.execute(sql("fold_counts"), some)
    connection.execute(sql("fold_came"), some)
    for step in STEPS:
        connection.execute(sql(step))
    for table in TEMPORARY:
        connection.execute(f"drop table {table}")
    connection.execute("update marks set value = $last where name = 'folded'", {"last": last})
    return _count(connection, after, last)


def backlog(database: Database) -> int:
    with database.read() as connection:
        return _count(connection, folded(connection), None)


def folded(connection: Connection) -> int:
    [(number,)] = connection.execute("select value from marks where name = 'folded'").fetchall()
    return int(number)


def _count(connection: Connection, after: int, upto: int | None) -> int:
    """Of the views numbered so; some numbers are nobody's any more."""
    [(views,)] = connection.execute(
        "select count(*) from views where seq > $after and (seq <= $upto or $upto is null)",
        {"after": after, "upto": upto},
    ).fetchall()
    return int(views)
