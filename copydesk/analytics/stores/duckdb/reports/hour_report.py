"""The report by hour, which is read from the stored hours of a finished day, or counted from raw views.

The visitors of the days of recent reports stay in memory, so that the next report reads only the views that were folded
since. They are right for each transaction that reads the same number of view changes and the same AI classes: the views
that they were counted from are the same there.
"""

import threading
from dataclasses import dataclass

from copydesk.analytics.stores.duckdb.database import DuckConnection, DuckDatabase
from copydesk.analytics.stores.duckdb.reports.day_visitors import HOURS, DayVisitors, build_day_visitors
from copydesk.analytics.stores.duckdb.reports.hour_counts import (
    count_hours,
    count_views_of_day,
    read_stored_hours,
)
from copydesk.analytics.stores.duckdb.reports.snapshot import Snapshot, load_snapshots
from copydesk.analytics.stores.duckdb.sql_files import load_sql
from copydesk.analytics.stores.report_rows import HourlyReport, build_hourly_report
from copydesk.core.clock import DAY, HOUR

MAX_VISITORS_IN_MEMORY = 1_000_000
"""Visitors of all days in memory, 16 bytes each. A day with more views than this is not loaded."""
MAX_STORED_DAYS_IN_MEMORY = 100
"""Reports from stored hours in memory, a few kilobytes each."""
DayKey = tuple[int, int]
"""A project and a day."""


@dataclass(frozen=True, slots=True)
class CountedDay:
    """The visitors of a day in a snapshot."""

    snapshot: Snapshot
    visitors: DayVisitors


@dataclass(frozen=True, slots=True)
class StoredDay:
    """The report about a day in a snapshot, from the stored hours of the day."""

    snapshot: Snapshot
    views: int
    report: HourlyReport


class HourReports:
    """The reports by hour of a store. Thread-safe."""

    def __init__(self, database: DuckDatabase, max_visitors: int = MAX_VISITORS_IN_MEMORY) -> None:
        self._database = database
        self._max_visitors = max_visitors
        self._lock = threading.Lock()
        self._days: dict[DayKey, CountedDay] = {}
        """The least recently used first."""
        self._stored_days: dict[DayKey, StoredDay] = {}
        """The least recently checked first."""

    def load_hours(self, project_id: str, first_at: int, end_at: int) -> HourlyReport:
        day = first_at // DAY
        with self._database.read() as connection:
            snapshots = load_snapshots(connection, [project_id])
            if not snapshots or first_at >= end_at:
                return build_hourly_report([])
            [snapshot] = snapshots
            if (end_at - 1) // DAY != day or first_at % HOUR:
                return build_hourly_report(count_hours(connection, snapshot, first_at, end_at))
            known = self._find(snapshot, day)
            is_whole_day = end_at - first_at == DAY
            if known is None and is_whole_day and (report := self._load_stored(connection, snapshot, day)) is not None:
                return report
            visitors = self._load_day(connection, snapshot, day, known)
            if visitors is None:
                return build_hourly_report(count_hours(connection, snapshot, first_at, end_at))
            visitors = visitors.select_hours(first_at // HOUR - day * HOURS, end_at // HOUR - day * HOURS)
            if end_at % HOUR:
                part_at = max(first_at, end_at // HOUR * HOUR)
                visitors = visitors.add(_read_visitors(connection, snapshot, part_at, end_at))
        return _build_report(day, visitors)

    def load_day(self, project_id: str, day: int) -> None:
        """Loads the visitors of a day into memory, unless its hours are stored, or it has too many views."""
        self.load_hours(project_id, day * DAY, (day + 1) * DAY)

    def _load_stored(self, connection: DuckConnection, snapshot: Snapshot, day: int) -> HourlyReport | None:
        """Returns the report about a whole day from its stored hours, or None if it has no valid ones."""
        key = snapshot.project, day
        with self._lock:
            known = self._stored_days.get(key)
        if known is not None and not known.snapshot.is_part_of(snapshot):
            known = None
        if known is not None and known.snapshot.folded == snapshot.folded:
            return known.report
        if known is not None and known.views == count_views_of_day(connection, snapshot, day):
            stored = StoredDay(snapshot, known.views, known.report)
        elif (hours := read_stored_hours(connection, snapshot, day)) is not None:
            stored = StoredDay(snapshot, hours.views, build_hourly_report(hours.rows))
        else:
            return None
        with self._lock:
            self._stored_days.pop(key, None)
            self._stored_days[key] = stored
            if len(self._stored_days) > MAX_STORED_DAYS_IN_MEMORY:
                self._stored_days.pop(next(iter(self._stored_days)))
        return stored.report

    def _load_day(
        self, connection: DuckConnection, snapshot: Snapshot, day: int, known: CountedDay | None
    ) -> DayVisitors | None:
        """Returns the visitors of a day, of which those in memory are known, or None if they are too many."""
        if known is None:
            if count_views_of_day(connection, snapshot, day) > self._max_visitors:
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
            if known is None or not known.snapshot.is_part_of(snapshot):
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


def _build_report(day: int, visitors: DayVisitors) -> HourlyReport:
    return build_hourly_report(visitors.list_hours(day))
