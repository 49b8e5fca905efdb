"""Folding: logged views become visits, and the visits become links of the index, all in one transaction."""

from copydesk.analytics.duckdb.database import Connection, Database
from copydesk.analytics.duckdb.statements import sql

MOST = 250_000
"""Views in one transaction: enough to pay for the pass over all visits, few enough for the memory."""
STEPS = ("counts", "came", "history", "fresh", "visits", "days")
TEMPORARY = ("batch", "placed", "came", "history", "fresh", "days")


def fold(database: Database, upto: int, most: int = MOST) -> int:
    """Counts the logged views up to this number, in as many transactions as they need. How many there were."""
    counted = 0
    while (done := _fold_some(database, upto, most)) is not None:
        counted += done
    return counted


def _fold_some(database: Database, upto: int, most: int) -> int | None:
    with database.write() as connection:
        after = folded(connection)
        if after >= upto:
            return None
        last = min(upto, after + most)
        connection.execute(sql("fold_batch"), {"after": after, "upto": last})
        if _places(connection):
            connection.execute(sql("fold_scopes"))
            _places(connection)
        for step in STEPS:
            connection.execute(sql(f"fold_{step}"))
        connection.execute(sql("chain"))
        [(views,)] = connection.execute("select coalesce(sum(n), 0) from batch").fetchall()
        for table in TEMPORARY:
            connection.execute(f"drop table {table}")
        connection.execute("update marks set value = $last where name = 'folded'", {"last": last})
        return int(views)


def _places(connection: Connection) -> bool:
    """Finds the scopes of each view; whether some are new. Most folds bring none, and looking twice is dear."""
    connection.execute(sql("fold_placed"))
    [(new,)] = connection.execute(
        "select count(*) from placed where page is null or site is null or agent is null"
    ).fetchall()
    return bool(new)


def backlog(database: Database) -> int:
    with database.read() as connection:
        [(views,)] = connection.execute(
            "select count(*) from views where seq > $after", {"after": folded(connection)}
        ).fetchall()
        return int(views)


def folded(connection: Connection) -> int:
    [(number,)] = connection.execute("select value from marks where name = 'folded'").fetchall()
    return int(number)
