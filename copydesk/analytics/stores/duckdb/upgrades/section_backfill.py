"""Computes the visits of the sections of the first level from those of their pages, for a store of an earlier version.

Each part has some of the visitors and is a transaction that moves a mark, so that the work continues where it was
interrupted.
"""

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.visitor_index import VisitorIndex

VISITS_PER_PART = 1_000_000
SELECT_MARKS = "select name, value from marks where name in ('sections_done', 'sections_parts')"
COUNT_VISITS = """
    select (select count(*) from visits) + (select coalesce(sum(rows), 0) from visit_runs)::bigint
"""


def is_section_backfill_needed(connection: DuckConnection) -> bool:
    return bool(connection.execute(SELECT_MARKS).fetchall())


def backfill_sections(index: VisitorIndex, connection: DuckConnection) -> None:
    """Adds the visits of sections by the next part of the visitors. Changes nothing for those that have them."""
    marks = dict(connection.execute(SELECT_MARKS).fetchall())
    done, parts = marks["sections_done"], marks.get("sections_parts")
    if parts is None:  # visits are added in the meantime, so the number of parts must not be computed again
        [(visits,)] = connection.execute(COUNT_VISITS).fetchall()
        parts = 1 + visits // VISITS_PER_PART
        connection.execute("insert into marks values ('sections_parts', $parts)", {"parts": parts})
    index.add_sections(connection, done, parts)
    if done + 1 < parts:
        connection.execute("update marks set value = $done where name = 'sections_done'", {"done": done + 1})
    else:
        connection.execute("delete from marks where name in ('sections_done', 'sections_parts')")
