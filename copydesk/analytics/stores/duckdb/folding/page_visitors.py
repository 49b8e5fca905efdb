"""Copies the visitors of raw views, sorted by page, so that a report about one page need not read all raw views.

The copy is behind the folds: a report adds the folded views that are not in it. It contains what the raw views contain,
so it is deleted with them.
"""

import logging
import time
from typing import NamedTuple

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.core.errors import StoreUnavailable

log = logging.getLogger(__name__)

VIEWS_PER_PART = 1_966_080
"""So many views are copied at once: the rows of 16 row groups, of which a report reads one or two. Larger parts would
need more memory to sort, and leave more views to search."""


class CopySizes(NamedTuple):
    """When the first views are copied, and how many at once."""

    min_views: int = 5_000_000
    """Nothing is copied before so many views are folded: a report searches fewer quickly, and a copy takes disk."""
    views_per_part: int = VIEWS_PER_PART


DEFAULT_COPY_SIZES = CopySizes()
RETRY_SECONDS = 300
"""The pause after a failure, for example because the disk is full."""
SET_LAST_COPIED = "update marks set value = $upto where name = 'visitors_copied'"
SELECT_NUMBERS_OF_AFFECTED_DAYS = """
    select min(seq), max(seq) from views
    where seq <= $upto and project = $project and (time // 86400000)::usmallint in (select day from affected_days)
"""
OF_AFFECTED_DAYS = "and project = $project and (time // 86400000)::usmallint in (select day from affected_days)"


class PageVisitors:
    """The copied visitors of a store. Only a caller who holds the store's fold lock copies views."""

    def __init__(self, database: DuckDatabase, sizes: CopySizes = DEFAULT_COPY_SIZES) -> None:
        self._database = database
        self._sizes = sizes
        self._last_number: int | None = None
        """The number of the last copied view; None if it must be read."""
        self._next_at = 0.0
        """When the next attempt may start after a failure."""

    def are_behind(self, folded: int) -> bool:
        """Returns whether a part can be copied: its views are folded, and no copy failed a short time ago.

        Any thread may call it. What it finds may be outdated during a copy, so `copy_part` looks again.
        """
        last_number = self._last_number
        if last_number is None:
            with self._database.read() as connection:
                self._last_number = last_number = read_last_copied(connection)
        is_due = folded >= self._sizes.min_views and folded - last_number >= self._sizes.views_per_part
        return is_due and time.monotonic() >= self._next_at

    def copy_part(self, folded: int) -> None:
        """Copies the next part of the views, if all of them are folded. After a failure, a later fold tries again.

        Sorting a part needs as much memory as DuckDB may have, so other free memory is returned before.
        """
        self._database.release_memory()
        try:
            with self._database.write() as connection:
                after = read_last_copied(connection)
                params = {"after": after, "upto": after + self._sizes.views_per_part}
                if params["upto"] <= folded:
                    connection.execute(load_sql("copy_page_visitors"), params)
                    connection.execute(SET_LAST_COPIED, {"upto": params["upto"]})
        except StoreUnavailable as error:
            self._next_at = time.monotonic() + RETRY_SECONDS
            log.warning("could not copy visitors by page; will retry in %d seconds: %s", RETRY_SECONDS, error)
        self._last_number = None
        self._database.release_memory()


def correct_page_visitors(connection: DuckConnection, project: int) -> None:
    """Copies the views of the days in `affected_days` again, in parts, because they may be many.

    `correct_summaries` has deleted the rows of these days.
    """
    params = {"project": project, "upto": read_last_copied(connection)}
    [(first, last)] = connection.execute(SELECT_NUMBERS_OF_AFFECTED_DAYS, params).fetchall()
    if first is None:
        return
    statement = load_sql("copy_page_visitors").replace("/* and condition */", OF_AFFECTED_DAYS)
    for after in range(first - 1, last, VIEWS_PER_PART):
        upto = min(after + VIEWS_PER_PART, last)
        connection.execute(statement, {"project": project, "after": after, "upto": upto})


def read_last_copied(connection: DuckConnection) -> int:
    [(number,)] = connection.execute("select value from marks where name = 'visitors_copied'").fetchall()
    return int(number)
