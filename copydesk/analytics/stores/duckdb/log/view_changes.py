"""Numbers the states of the stored views, and of what is counted from them.

A cache of folded views, or of their counts, remembers the number. The views up to a folded one, and their counts, are
the same in every transaction that reads the same number: each transaction that changes or deletes stored views, or
counts them again, also changes the number.
"""

from copydesk.analytics.stores.duckdb.database import DuckConnection

INCREMENT = "update marks set value = value + 1 where name = 'view_changes'"
SELECT_LAST = "select value from marks where name = 'view_changes'"


def count_view_change(connection: DuckConnection) -> None:
    """Changes the number. Call it in each transaction that changes or deletes stored views, or counts them again."""
    connection.execute(INCREMENT)


def read_view_changes(connection: DuckConnection) -> int:
    [(number,)] = connection.execute(SELECT_LAST).fetchall()
    return int(number)
