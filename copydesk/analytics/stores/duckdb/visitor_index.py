"""Keeps the index of visitors: folds logged views into visits, and visits into its links, in one transaction.

`reports.count_visitors_by_page` counts from it.
"""

from collections.abc import Iterator

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.sql_files import load_sql

MAX_VIEWS_PER_TRANSACTION = 250_000
"""Views per transaction: enough to share the cost of the pass over all visits, few enough to bound the memory."""
FOLD_STEPS = ("fold_known_visits", "fold_visits", "fold_days", "fold_firsts")
TEMPORARY_TABLES = ("new_visits", "affected_visits", "changed_days")
SELECT_HAS_NEW_SCOPES = (
    "select (select max(id) from scopes where sort <> 1) > (select coalesce(max(scope), 0) from targets)"
)


def fold_views(database: DuckDatabase, upto: int, max_views: int = MAX_VIEWS_PER_TRANSACTION) -> Iterator[int]:
    """Counts the logged views up to this number, in several transactions if needed. Yields how many each counted."""
    last = 0
    while last < upto:
        with database.write() as connection:
            after = read_last_folded(connection)
            last = min(upto, after + max_views)
            views = _fold_range(connection, after, last) if after < last else 0
        if after < last:
            yield views


def _fold_range(connection: DuckConnection, after: int, last: int) -> int:
    add_targets(connection)
    view_range = {"after": after, "upto": last}
    connection.execute(load_sql("fold_view_counts"), view_range)
    connection.execute(load_sql("fold_new_visits"), view_range)
    for step in FOLD_STEPS:
        connection.execute(load_sql(step))
    for table in TEMPORARY_TABLES:
        connection.execute(f"drop table {table}")
    connection.execute("update marks set value = $last where name = 'folded'", {"last": last})
    return _count_views(connection, after, last)


def add_targets(connection: DuckConnection) -> None:
    """Adds the targets of scopes that were created since the last call."""
    [(has_new_scopes,)] = connection.execute(SELECT_HAS_NEW_SCOPES).fetchall()
    if has_new_scopes:
        connection.execute(load_sql("fold_targets"))


def count_unfolded_views(database: DuckDatabase) -> int:
    with database.read() as connection:
        return _count_views(connection, read_last_folded(connection), None)


def read_last_folded(connection: DuckConnection) -> int:
    [(number,)] = connection.execute("select value from marks where name = 'folded'").fetchall()
    return int(number)


def _count_views(connection: DuckConnection, after: int, upto: int | None) -> int:
    """Counts the views in this range of numbers; some numbers are unused, because their views were deleted."""
    [(view_count,)] = connection.execute(
        "select count(*) from views where seq > $after and (seq <= $upto or $upto is null)",
        {"after": after, "upto": upto},
    ).fetchall()
    return int(view_count)
