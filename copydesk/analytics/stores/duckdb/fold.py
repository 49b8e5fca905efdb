"""Folding: logged views become visits, and the visits become links of the index, all in one transaction."""

from collections.abc import Iterator

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.sql_files import load_sql

MAX_VIEWS_PER_TRANSACTION = 250_000
"""Views in one transaction: enough to pay for the pass over all visits, few enough for the memory."""
FOLD_STEPS = ("fold_known", "fold_visits", "fold_days", "chain")
TEMPORARY_TABLES = ("came", "known", "days")
SELECT_HAS_NEW_SCOPES = (
    "select (select max(id) from scopes where sort <> 1) > (select coalesce(max(scope), 0) from targets)"
)


def fold_views(database: DuckDatabase, upto: int, max_views: int = MAX_VIEWS_PER_TRANSACTION) -> Iterator[int]:
    """Counts the logged views up to this number, in as many transactions as they need. How many there were in each."""
    last = 0
    while last < upto:
        with database.write() as connection:
            after = read_last_folded(connection)
            last = min(upto, after + max_views)
            views = _fold_range(connection, after, last) if after < last else 0
        if after < last:
            yield views


def _fold_range(connection: DuckConnection, after: int, last: int) -> int:
    [(has_new_scopes,)] = connection.execute(SELECT_HAS_NEW_SCOPES).fetchall()
    if has_new_scopes:
        connection.execute(load_sql("fold_targets"))
    view_range = {"after": after, "upto": last}
    connection.execute(load_sql("fold_counts"), view_range)
    connection.execute(load_sql("fold_came"), view_range)
    for step in FOLD_STEPS:
        connection.execute(load_sql(step))
    for table in TEMPORARY_TABLES:
        connection.execute(f"drop table {table}")
    connection.execute("update marks set value = $last where name = 'folded'", {"last": last})
    return _count_views(connection, after, last)


def count_unfolded_views(database: DuckDatabase) -> int:
    with database.read() as connection:
        return _count_views(connection, read_last_folded(connection), None)


def read_last_folded(connection: DuckConnection) -> int:
    [(number,)] = connection.execute("select value from marks where name = 'folded'").fetchall()
    return int(number)


def _count_views(connection: DuckConnection, after: int, upto: int | None) -> int:
    """Of the views numbered so; some numbers are nobody's any more."""
    [(view_count,)] = connection.execute(
        "select count(*) from views where seq > $after and (seq <= $upto or $upto is null)",
        {"after": after, "upto": upto},
    ).fetchall()
    return int(view_count)
