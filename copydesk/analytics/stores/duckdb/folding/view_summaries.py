"""Sums up raw views by page, agent and source, and by agent and rule, so that reports need not read them all.

The sums are behind the folds: a report adds the folded views that are not in them. They contain what the raw views
contain, so they are deleted with them.
"""

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.sql_files import load_sql

MIN_SUMMED_VIEWS = 50_000
"""So many views are summed up at once: enough to share the cost, few enough for a report to read them."""
MAX_SUMMED_VIEWS = 1_000_000
"""At most this many views are summed up in a transaction."""
SUM_TABLES = ("page_counts", "rule_counts")
RAW_VIEW_TABLES = (*SUM_TABLES, "hour_counts", "page_visitors")
"""Tables that contain what the raw views of a project and day contain, and are deleted with them."""
NEW_VIEWS = "seq > $after and seq <= $upto"
VIEWS_OF_AFFECTED_DAYS = """
    seq <= $upto and project = $project and (time // 86400000)::usmallint in (select day from affected_days)
"""


class ViewSummaries:
    """The sums of a store. Only a caller who holds the store's fold lock adds views."""

    def __init__(self, database: DuckDatabase, min_views: int = MIN_SUMMED_VIEWS) -> None:
        self._database = database
        self._min_views = min_views
        self._last_number: int | None = None
        """The number of the last view in the sums; None if it must be read."""

    def get_last_number(self) -> int:
        """Returns the number of the last view in the sums."""
        last_number = self._last_number
        if last_number is None:
            with self._database.read() as connection:
                self._last_number = last_number = read_last_summarized(connection)
        return last_number

    def are_behind(self, folded: int) -> bool:
        """Returns whether enough views are folded and not summed up."""
        return folded - self.get_last_number() >= self._min_views

    def add_views(self, connection: DuckConnection, folded: int) -> None:
        """Sums up folded views, at most MAX_SUMMED_VIEWS of them."""
        self._last_number = None
        after = read_last_summarized(connection)
        upto = min(folded, after + MAX_SUMMED_VIEWS)
        _sum_up(connection, NEW_VIEWS, {"after": after, "upto": upto})
        connection.execute("update marks set value = $upto where name = 'summarized'", {"upto": upto})


def correct_summaries(connection: DuckConnection, project: int) -> None:
    """Sums up the views of the days in `affected_days` again, and deletes what the other tables have of these days."""
    for table in RAW_VIEW_TABLES:
        connection.execute(
            f"delete from {table} where project = $project and day in (select day from affected_days)",  # noqa: S608
            {"project": project},
        )
    _sum_up(connection, VIEWS_OF_AFFECTED_DAYS, {"project": project, "upto": read_last_summarized(connection)})


def read_last_summarized(connection: DuckConnection) -> int:
    [(number,)] = connection.execute("select value from marks where name = 'summarized'").fetchall()
    return int(number)


def _sum_up(connection: DuckConnection, condition: str, params: dict[str, int]) -> None:
    for table in SUM_TABLES:
        connection.execute(load_sql(f"sum_{table}").replace("/* condition */", condition), params)
