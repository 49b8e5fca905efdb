"""The report by hour, which is counted from raw views.

The visitors of the days of recent reports stay in memory, so that the next report reads only the views that were folded
since. They are right for each transaction that reads the same number of view changes and the same AI classes: the views
that they were counted from are the same there.
"""

import threading
from dataclasses import dataclass

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.folding.visitor_index import read_last_folded
from copydesk.analytics.stores.duckdb.log.view_changes import read_view_changes
from copydesk.analytics.stores.duckdb.reports.day_visitors import HOURS, DayVisitors, build_day_visitors
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.report_rows import HourlyReport, build_hourly_report
from copydesk.core.clock import DAY, HOUR

MAX_VISITORS_IN_MEMORY = 1_000_000
"""Visitors of all days in memory, 16 bytes each. A day with more views than this is not loaded."""
SELECT_PROJECT = "select id, site, ai from projects where name = $name"
SELECT_VIEWS_OF_DAY = """
    select coalesce(sum(n), 0)::bigint from counts where project = $project and scope = $site and day = $day
"""
DayKey = tuple[int, int]
"""A project and a day."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a project that a transaction sees."""

    project: int
    site: int
    ai_mask: int
    view_changes: int
    folded: int


@dataclass(frozen=True, slots=True)
class CountedDay:
    """The visitors of a day in a snapshot."""

    snapshot: Snapshot
    visitors: DayVisitors

    def is_part_of(self, snapshot: Snapshot) -> bool:
        """Returns whether a later snapshot has the same views up to the last folded one of this day's snapshot."""
        own = self.snapshot
        is_same = (own.view_changes, own.ai_mask) == (snapshot.view_changes, snapshot.ai_mask)
        return is_same and own.folded <= snapshot.folded


class HourReports:
    """The reports by hour of a store. Thread-safe."""

    def __init__(self, database: DuckDatabase, max_visitors: int = MAX_VISITORS_IN_MEMORY) -> None:
        self._database = database
        self._max_visitors = max_visitors
        self._lock = threading.Lock()
        self._days: dict[DayKey, CountedDay] = {}
        """The least recently used first."""

    def load_hours(self, project_id: str, first_at: int, end_at: int) -> HourlyReport:
        day = first_at // DAY
        with self._database.read() as connection:
            found = connection.execute(SELECT_PROJECT, {"name": project_id}).fetchall()
            if not found or first_at >= end_at:
                return build_hourly_report([])
            [(project, site, ai_mask)] = found
            snapshot = Snapshot(project, site, ai_mask, read_view_changes(connection), read_last_folded(connection))
            is_part_of_day = (end_at - 1) // DAY == day and first_at % HOUR == 0
            visitors = self._load_day(connection, snapshot, day) if is_part_of_day else None
            if visitors is None:
                return _count_from_raw_views(connection, snapshot, first_at, end_at)
            visitors = visitors.select_hours(first_at // HOUR - day * HOURS, end_at // HOUR - day * HOURS)
            if end_at % HOUR:
                part_at = max(first_at, end_at // HOUR * HOUR)
                visitors = visitors.add(_read_visitors(connection, snapshot, part_at, end_at))
        return _build_report(day, visitors)

    def _load_day(self, connection: DuckConnection, snapshot: Snapshot, day: int) -> DayVisitors | None:
        """Returns the visitors of a day, or None if they are too many."""
        known = self._find(snapshot, day)
        if known is None:
            params = {"project": snapshot.project, "site": snapshot.site, "day": day}
            [(views,)] = connection.execute(SELECT_VIEWS_OF_DAY, params).fetchall()
            if views > self._max_visitors:
                return None
            visitors = _read_visitors(connection, snapshot, day * DAY, (day + 1) * DAY)
        elif known.snapshot.folded < snapshot.folded:
            after = known.snapshot.folded
            visitors = known.visitors.add(_read_visitors(connection, snapshot, day * DAY, (day + 1) * DAY, after))
        else:
            return known.visitors
        self._remember(CountedDay(snapshot, visitors), day)
        return visitors

    def _find(self, snapshot: Snapshot, day: int) -> CountedDay | None:
        with self._lock:
            key = snapshot.project, day
            known = self._days.get(key)
            if known is None or not known.is_part_of(snapshot):
                return None
            self._days[key] = self._days.pop(key)
            return known

    def _remember(self, counted: CountedDay, day: int) -> None:
        with self._lock:
            view_changes = counted.snapshot.view_changes
            self._days = {key: held for key, held in self._days.items() if held.snapshot.view_changes == view_changes}
            key = counted.snapshot.project, day
            self._days.pop(key, None)
            self._days[key] = counted
            held_visitors = sum(len(held.visitors) for held in self._days.values())
            while held_visitors > self._max_visitors:
                held_visitors -= len(self._days.pop(next(iter(self._days))).visitors)


def _read_visitors(
    connection: DuckConnection, snapshot: Snapshot, first_at: int, end_at: int, after: int = 0
) -> DayVisitors:
    """Returns the visitors of folded views after this one, from `first_at` to before `end_at`, in one day."""
    params = {
        "project": snapshot.project, "ai": snapshot.ai_mask, "first": first_at, "end": end_at, "after": after,
        "folded": snapshot.folded,
    }  # fmt: skip
    return build_day_visitors(connection.execute(load_sql("hour_visitors"), params).fetchnumpy())


def _count_from_raw_views(connection: DuckConnection, snapshot: Snapshot, first_at: int, end_at: int) -> HourlyReport:
    params = {"project": snapshot.project, "ai": snapshot.ai_mask, "first": first_at, "end": end_at}
    return build_hourly_report(connection.execute(load_sql("hours"), {**params, "folded": snapshot.folded}).fetchall())


def _build_report(day: int, visitors: DayVisitors) -> HourlyReport:
    rows = [
        (day * HOURS + hour, *visitors.visitors_by_hour[hour].tolist(), *visitors.views_by_hour[hour].tolist())
        for hour in range(HOURS)
    ]
    return build_hourly_report([*rows, (-1, *visitors.count_visitors(), *visitors.views_by_hour.sum(axis=0).tolist())])
