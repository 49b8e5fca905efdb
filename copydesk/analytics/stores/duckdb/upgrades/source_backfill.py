"""Finds where the views came from that an earlier version has logged, and counts it.

Each part is a transaction that moves a mark, so that the work continues where it was interrupted.
"""

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.last_folded import read_last_folded
from copydesk.analytics.stores.duckdb.folding.visitor_index import VisitorIndex
from copydesk.analytics.stores.duckdb.ids.id_tables import IdTables
from copydesk.analytics.stores.duckdb.ids.scopes import append_rows

VIEWS_PER_PART = 100_000
SELECT_MARKS = "select name, value from marks where name in ('sources_done', 'sources_end')"
SELECT_UNKNOWN = """
    create or replace temp table unknown_views as
    select seq, project, host, referrer, time from views
    where seq > $after and seq <= $upto and source is null and page not in (select id from scopes where sort = 3)
"""
SELECT_REFERRERS = """
    select project, host, referrer, min(time) from unknown_views
    group by project, host, referrer order by min(time), project, host, referrer
"""
SET_SOURCES = """
    update views set source = found.source
    from (select seq, source from unknown_views join found_sources using (project, host, referrer)) as found
    where found.seq = views.seq
"""


def is_source_backfill_needed(connection: DuckConnection) -> bool:
    return bool(connection.execute(SELECT_MARKS).fetchall())


def backfill_sources(index: VisitorIndex, connection: DuckConnection, id_tables: IdTables) -> None:
    """Finds and counts the sources of the next part of the views, which must be folded."""
    marks = dict(connection.execute(SELECT_MARKS).fetchall())
    after, end = marks["sources_done"], marks["sources_end"]
    upto = min(after + VIEWS_PER_PART, end, read_last_folded(connection))
    connection.execute(SELECT_UNKNOWN, {"after": after, "upto": upto})
    _store_sources(connection, id_tables)
    connection.execute(SET_SOURCES)
    index.add_sources(connection, "where seq in (select seq from unknown_views)", {})
    for table in ("found_sources", "unknown_views"):
        connection.execute(f"drop table {table}")
    if upto < end:
        connection.execute("update marks set value = $upto where name = 'sources_done'", {"upto": upto})
    else:
        connection.execute("delete from marks where name in ('sources_done', 'sources_end')")


def _store_sources(connection: DuckConnection, id_tables: IdTables) -> None:
    """Stores the ids of the sources of views, in a temporary table."""
    project_names = {project_id: name for name, project_id in id_tables.projects.items()}
    rows = connection.execute(SELECT_REFERRERS).fetchall()
    views = [_make_view(project_names[project], at, host, referrer) for project, host, referrer, at in rows]
    id_tables.sources.add(connection, id_tables.projects, views)
    ids = id_tables.sources.get_ids()
    connection.execute(
        "create or replace temp table found_sources (project integer, host varchar, referrer varchar, source integer)"
    )
    sources = [(project, host, referrer, ids[project, host, referrer]) for project, host, referrer, _ in rows]
    append_rows(connection, "found_sources", ["project", "host", "referrer", "source"], sources)


def _make_view(project: str, at: int, host: str, referrer: str) -> PageView:
    """Returns a view with what a source is found by."""
    return PageView(project, "/", at, VisitorClass.HUMAN, "", "", "", "", None, host, referrer, 200, None)
