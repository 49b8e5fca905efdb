"""Compacts tables: merges the rows that folds have added for the same keys, and sorts them for reports.

A mark has the number of rows that a table had after its last compaction. Rows that were added since then follow these.
"""

from collections.abc import Callable, Mapping

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.view_summaries import SUM_TABLES
from copydesk.analytics.stores.duckdb.sql_files import load_sql

DAY_TABLES = ("firsts", "counts")
"""Tables of which only the days since the first one with new rows are compacted. Most views are of recent days."""
MIN_NEW_ROWS = 100_000
MAX_GROWTH, MAX_GROWTH_OF_SUMS = 0.5, 2.0
"""By how much a table may grow before it is compacted. The sums of raw views have few rows with the same key."""
MAX_NEW_ROWS_OF_SECTIONS = 500_000
"""When sections have been indexed, so many new rows are left to a later fold, which compacts them quickly: a compaction
leaves free space in the file, 1.8 bytes per view with one million views."""
SELECT_TABLE_LENGTHS = """
    select name, value, case name
        when 'firsts' then (select count(*) from firsts)
        when 'counts' then (select count(*) from counts)
        when 'page_counts' then (select count(*) from page_counts)
        when 'rule_counts' then (select count(*) from rule_counts)
        else (select count(*) from missing_referrers)
    end
    from marks where name in ('firsts', 'counts', 'page_counts', 'rule_counts', 'missing_referrers')
"""
SELECT_FIRST_NEW_DAY = "select min(day) from (select day from {table} offset $compacted_rows)"
"""DuckDB returns rows in the order in which they were added."""
SELECT_REPEATED_REFERRERS = """
    select 1 from missing_referrers group by project, scope, day, kind, referrer having count(*) > 1 limit 1
"""


def compact_tables(
    database: DuckDatabase, max_new_rows: int | None = None, free_memory: Callable[[], None] = lambda: None
) -> bool:
    """Compacts each table that has grown enough since its last compaction. Returns whether any was compacted.

    With `max_new_rows`, also compacts the tables by day that have more new rows than this. Calls `free_memory` before
    the first one, because sorting a table needs as much memory as DuckDB may have.
    """
    with database.read() as connection:
        rows = connection.execute(SELECT_TABLE_LENGTHS).fetchall()
    oversized = []
    for table, compacted_rows, length in rows:
        growth = MAX_GROWTH_OF_SUMS if table in SUM_TABLES else MAX_GROWTH
        limit = max(MIN_NEW_ROWS, compacted_rows * growth)
        if max_new_rows is not None and table in DAY_TABLES:
            limit = min(limit, max_new_rows)
        if length - compacted_rows > limit:
            oversized.append((table, compacted_rows))
    if oversized:
        free_memory()
        database.release_memory()
    for table, compacted_rows in oversized:
        with database.write() as connection:
            _compact_table(connection, table, compacted_rows)
    return bool(oversized)


def delete_rows(connection: DuckConnection, table: str, condition: str, params: Mapping[str, object]) -> None:
    """Deletes rows of a table by day. Counts them as compacted ones, so that all new rows will be compacted."""
    [(deleted,)] = connection.execute(f"delete from {table} where {condition}", params).fetchall()  # noqa: S608 - ours
    statement = "update marks set value = value - least(value, $deleted) where name = $table"
    connection.execute(statement, {"table": table, "deleted": deleted})


def merge_missing_referrers(database: DuckDatabase) -> None:
    """Merges rows with the same key, if there are any; otherwise changes nothing, not even the order of the rows."""
    with database.write() as connection:
        if connection.execute(SELECT_REPEATED_REFERRERS).fetchall():
            connection.execute(load_sql("tidy_missing_referrers"))


def _compact_table(connection: DuckConnection, table: str, compacted_rows: int) -> None:
    sql = load_sql(f"tidy_{table}")
    if table in DAY_TABLES:
        statement = SELECT_FIRST_NEW_DAY.format(table=table)
        [(first_day,)] = connection.execute(statement, {"compacted_rows": compacted_rows}).fetchall()
        sql = sql.replace("/* first day */ 0", str(first_day or 0))
    connection.execute(sql)
    [(row_count,)] = connection.execute("select count(*) from query_table($table)", {"table": table}).fetchall()
    connection.execute("update marks set value = $rows where name = $table", {"table": table, "rows": row_count})
