"""Reads up to which number the logged views are folded."""

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase


def read_last_folded(connection: DuckConnection) -> int:
    """Returns the number of the last folded view. All views up to it are folded."""
    [(number,)] = connection.execute("select max(upto) from folds").fetchall()
    return int(number)


def count_unfolded_views(database: DuckDatabase) -> int:
    """Counts the views that are not folded; some numbers are unused, because their views were deleted."""
    with database.read() as connection:
        [(view_count,)] = connection.execute(
            "select count(*) from views where seq > $after", {"after": read_last_folded(connection)}
        ).fetchall()
    return int(view_count)
