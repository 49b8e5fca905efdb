"""Stores the visitors and views of finished days by hour, so that the first report about such a day reads no raw views.

What is stored for a day is valid while the table `counts` has as many views of the day as it had then, because
folds only add views. A transaction that changes or deletes stored views, or a project's AI classes, deletes what it
makes invalid.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.folding.scope_table import HUMAN_BIT
from copydesk.analytics.stores.duckdb.ids.scopes import append_rows
from copydesk.analytics.stores.duckdb.log.view_changes import read_view_changes
from copydesk.analytics.stores.duckdb.reports.day_visitors import HOURS, build_day_visitors
from copydesk.analytics.stores.duckdb.reports.snapshot import Snapshot, load_snapshots
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.core.clock import DAY

MAX_VIEWS_IN_MEMORY = 500_000
"""Days with more views are counted by DuckDB, which needs less memory."""
WHOLE_DAY = -1
"""The hour of the row with the totals of the day."""
COLUMNS = [
    "project", "day", "views", "hour", "human_visitors", "ai_visitors", "visitors", "human_views", "ai_views",
]  # fmt: skip
NO_VISITORS = (WHOLE_DAY, 0, 0, 0, 0, 0)
SELECT_AI_CLASSES = "select id, ai from projects"
SELECT_VIEWS_OF_DAY = """
    select coalesce(sum(n), 0)::bigint from counts where project = $project and scope = $site and day = $day
"""
SELECT_VIEWS_OF_SITES = """
    select project, sum(n)::bigint from counts where list_contains($sites, scope) and day = $day group by project
"""
SELECT_STORED = """
    select views, hour, human_visitors, ai_visitors, visitors, human_views, ai_views
    from hour_counts where project = $project and day = $day
"""
DELETE_DAY = "delete from hour_counts where list_contains($projects, project) and day = $day"
HourRow = tuple[Any, ...]
"""The hour since 1970, human, AI and all visitors, and human and AI views; the hour -1 has the totals."""


class LargeDay(NamedTuple):
    """A day of a project that has many raw views and no valid stored hours."""

    project: str
    day: int
    views: int
    """How many views of the site are folded."""
    counted_views: int | None
    """How many of them were folded when the stored hours were counted; None if none are stored."""
    is_finished: bool
    """Whether views of a later day are folded, of any project."""


@dataclass(frozen=True, slots=True)
class CountedHours:
    """The hours of a day in a snapshot, counted from raw views, now or earlier."""

    snapshot: Snapshot
    day: int
    views: int
    rows: Sequence[HourRow]


def count_views_of_day(connection: DuckConnection, snapshot: Snapshot, day: int) -> int:
    params = {"project": snapshot.project, "site": snapshot.site, "day": day}
    [(views,)] = connection.execute(SELECT_VIEWS_OF_DAY, params).fetchall()
    return int(views)


def count_hours(connection: DuckConnection, snapshot: Snapshot, first_at: int, end_at: int) -> list[HourRow]:
    """Counts the visitors and views of each hour from raw views."""
    params = {"project": snapshot.project, "ai": snapshot.ai_mask, "first": first_at, "end": end_at}
    return connection.execute(load_sql("hours"), {**params, "folded": snapshot.folded}).fetchall()


def count_day(connection: DuckConnection, projects: Sequence[str], day: int) -> list[CountedHours]:
    """Counts the hours of a day from the raw views of several projects. Ignores projects that are unknown."""
    snapshots = load_snapshots(connection, projects)
    if not snapshots:
        return []
    sites = [snapshot.site for snapshot in snapshots]
    views = dict(connection.execute(SELECT_VIEWS_OF_SITES, {"sites": sites, "day": day}).fetchall())
    count_by_project = _count_in_database if sum(views.values()) > MAX_VIEWS_IN_MEMORY else _count_in_memory
    rows_by_project = count_by_project(connection, snapshots, day)
    return [
        CountedHours(snapshot, day, views.get(snapshot.project, 0), rows_by_project[snapshot.project])
        for snapshot in snapshots
    ]


def _count_in_memory(
    connection: DuckConnection, snapshots: Sequence[Snapshot], day: int
) -> Mapping[int, Sequence[HourRow]]:
    """Returns the hours of each project, counted by numpy, which is faster than DuckDB."""
    views = connection.execute(load_sql("day_views"), _name_params(snapshots, day)).fetchnumpy()
    order = np.argsort(views["project"], kind="stable")
    ordered_project = views["project"][order]
    rows_by_project = {}
    for snapshot in snapshots:
        rows = order[slice(*np.searchsorted(ordered_project, (snapshot.project, snapshot.project + 1)))]
        kind = views["kind"][rows]
        human, ai = kind == HUMAN_BIT, kind & snapshot.ai_mask != 0
        columns = {"visitor": views["visitor"][rows], "hour": views["hour"][rows], "human": human, "ai": ai}
        is_counted = human | ai
        visitors = build_day_visitors({name: column[is_counted] for name, column in columns.items()})
        rows_by_project[snapshot.project] = [hour for hour in visitors.list_hours(day) if any(hour[1:])]
    return rows_by_project


def _count_in_database(
    connection: DuckConnection, snapshots: Sequence[Snapshot], day: int
) -> Mapping[int, Sequence[HourRow]]:
    """Returns the hours of each project, counted by DuckDB, which limits the memory."""
    rows_by_project = defaultdict(list)
    for project, *row in connection.execute(load_sql("project_hours"), _name_params(snapshots, day)).fetchall():
        rows_by_project[project].append(tuple(row))
    return rows_by_project


def _name_params(snapshots: Sequence[Snapshot], day: int) -> dict[str, Any]:
    return {
        "projects": [snapshot.project for snapshot in snapshots], "folded": snapshots[0].folded,
        "first": day * DAY, "end": (day + 1) * DAY,
    }  # fmt: skip


def store_hours(connection: DuckConnection, counted: Sequence[CountedHours]) -> bool:
    """Stores the hours of projects, which were counted for one day. The caller holds the store's fold lock.

    Returns False and stores nothing if stored views or AI classes have changed since they were counted.
    """
    view_changes, ai_masks = read_view_changes(connection), dict(connection.execute(SELECT_AI_CLASSES).fetchall())
    rows: list[HourRow] = []
    for hours in counted:
        snapshot, first_hour = hours.snapshot, hours.day * HOURS
        if (snapshot.view_changes, snapshot.ai_mask) != (view_changes, ai_masks.get(snapshot.project)):
            return False
        rows += [
            (snapshot.project, hours.day, hours.views, hour if hour == WHOLE_DAY else hour - first_hour, *numbers)
            for hour, *numbers in hours.rows or [NO_VISITORS]
        ]
    projects = [hours.snapshot.project for hours in counted]
    connection.execute(DELETE_DAY, {"projects": projects, "day": counted[0].day})
    append_rows(connection, "hour_counts", COLUMNS, rows)
    return True


def read_stored_hours(connection: DuckConnection, snapshot: Snapshot, day: int) -> CountedHours | None:
    """Returns the stored hours of a day, or None if there are none, or if they are not valid.

    Sorts them here, because a statement without an order takes half the time.
    """
    stored = connection.execute(SELECT_STORED, {"project": snapshot.project, "day": day}).fetchall()
    if not stored:
        return None
    views = count_views_of_day(connection, snapshot, day)
    if stored[0][0] != views:
        return None
    first_hour = day * HOURS
    rows = [(hour if hour == WHOLE_DAY else first_hour + hour, *numbers) for _, hour, *numbers in sorted(stored)]
    return CountedHours(snapshot, day, views, rows)


def list_large_days(connection: DuckConnection, min_views: int) -> list[LargeDay]:
    """Returns the days of all projects that have at least this many raw views and no valid stored hours, the latest
    first."""
    return [LargeDay(*row) for row in connection.execute(load_sql("large_days"), {"min_views": min_views}).fetchall()]
