"""Reports: sums over the index and the counts. Nothing here looks at a visit, and only the rules at views."""

from collections.abc import Sequence

from copydesk.analytics.stores.base import (
    BITS,
    MOST_FIRST,
    AgentRow,
    Choice,
    Column,
    Interval,
    Moment,
    Page,
    Range,
    Row,
    RuleRow,
    Split,
)
from copydesk.analytics.stores.duckdb.database import Connection, Database
from copydesk.analytics.stores.duckdb.sql_files import sql
from copydesk.core.clock import DAY

KINDS = {bit: kind for kind, bit in BITS.items()}
ORDERS: dict[tuple[Column, bool], str] = {
    ("path", False): "", ("path", True): "path desc,",
    ("human", False): "found.human,", ("human", True): "found.human desc,",
    ("ai", False): "found.ai,", ("ai", True): "found.ai desc,",
    ("total", False): "total,", ("total", True): "total desc,",
}  # fmt: skip
"""Written out, not bound: DuckDB plans what it can read in two thirds of the time."""
SITE = "select site, ai from projects where id = $project"
Found = list[tuple[str, int, int, int]]


def visitors(
    database: Database, project_id: str, days: Range, limit: int, offset: int, choice: Choice = MOST_FIRST
) -> Page:
    with database.read() as connection:
        asked = {"project": _project(connection, project_id), "first": days.first, "end": days.end}
        ordered = sql("visitors").replace("/* chosen */", ORDERS[choice.by, choice.descending])
        paged = {"limit": limit, "offset": offset, "search": choice.search}
        found = connection.execute(ordered, {**asked, **paged}).fetchall()
    return _page(found, limit, offset)


def views(database: Database, project_id: str, days: Range, limit: int, offset: int) -> Page:
    with database.read() as connection:
        asked = {"project": _project(connection, project_id), "first": days.first, "end": days.end}
        found = connection.execute(sql("views"), {**asked, "limit": limit, "offset": offset}).fetchall()
    return _page(found, limit, offset)


def agents(
    database: Database, project_id: str, days: Range, limit: int, offset: int
) -> tuple[Sequence[AgentRow], bool]:
    with database.read() as connection:
        asked = {"project": _project(connection, project_id), "first": days.first, "end": days.end}
        found = connection.execute(sql("agents"), {**asked, "limit": limit, "offset": offset}).fetchall()
    rows = [
        AgentRow(agent or None, operator or None, KINDS[kind], met, seen) for agent, operator, kind, met, seen in found
    ]
    return rows[:limit], len(rows) > limit


def rules(database: Database, project_id: str, days: Range, limit: int) -> Sequence[RuleRow]:
    with database.read() as connection:
        asked = {"project": _project(connection, project_id), "first": days.first * DAY, "end": days.end * DAY}
        found = connection.execute(sql("rules"), {**asked, "limit": limit}).fetchall()
    return [
        RuleRow(agent or None, operator or None, KINDS[kind], rule, seen) for agent, operator, kind, rule, seen in found
    ]


def timeseries(database: Database, project_id: str, interval: Interval, days: Range) -> Sequence[Moment]:
    with database.read() as connection:
        project = _project(connection, project_id)
        [(site, ai)] = connection.execute(SITE, {"project": project}).fetchall() or [(0, 0)]
        asked = {"project": project, "site": site, "ai": ai, "first": days.first, "end": days.end}
        found = connection.execute(sql("timeseries"), {**asked, "interval": interval}).fetchall()
    return [
        Moment(day, Split(human, ai, total), Split(human_views, ai_views, human_views + ai_views))
        for day, human, ai, total, human_views, ai_views in found
    ]


def _project(connection: Connection, project_id: str) -> int:
    """Its number as of this transaction; 0 is nobody's."""
    found = connection.execute("select id from projects where name = $name", {"name": project_id}).fetchall()
    return int(found[0][0]) if found else 0


def _page(found: Found, limit: int, offset: int) -> Page:
    """The first row is the site's; beyond the pages asked for there may be one more, which only says that it exists.

    To leave out the pages before them here is cheaper than to have DuckDB number all pages for it."""
    if not found:
        return Page(Split(), [], False)
    (_, *totals), *rows = found
    asked = rows[offset : offset + limit]
    return Page(Split(*totals), [Row(path, Split(*count)) for path, *count in asked], len(rows) > offset + limit)
