"""Counts finished days by hour in the background, so that no fold and no report waits for it."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable

from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.folding.runs.run_merges import get_unexpected
from copydesk.analytics.stores.duckdb.reports.hour_counts import LargeDay, count_day, list_large_days, store_hours

log = logging.getLogger(__name__)

MIN_VIEWS_OF_DAY = 1_000
"""A day with fewer raw views is not stored by hour, because counting it takes a report little time."""
MIN_LOADED_VIEWS = 20_000
"""An unfinished day with fewer raw views is not loaded into memory before a report asks for it."""
RETRY_SECONDS = 300
"""The pause after a failure, for example because the disk is full."""
MAX_PAUSE_SECONDS = 1.0
"""After a day, the thread pauses as long as the day took, so that reports get their share of a core, but no longer than
this."""
MAX_VIEWS_IN_CACHE = 500_000
"""After more views than this, DuckDB's cache is released: it is full of views that no report has asked for, and merges
need memory at the same time."""
FAILED = "could not count finished days by hour; will retry in %d seconds: %s"


class HourCounter:
    """The thread that counts finished days. It takes the store's fold lock only to store what it has counted."""

    def __init__(
        self,
        database: DuckDatabase,
        fold_lock: threading.Lock,
        load_day: Callable[[str, int], object],
        min_views_of_day: int = MIN_VIEWS_OF_DAY,
        min_loaded_views: int = MIN_LOADED_VIEWS,
    ) -> None:
        """`load_day` loads the visitors of an unfinished day of a project into memory."""
        self._database = database
        self._fold_lock = fold_lock
        self._load_day = load_day
        self._min_views_of_day = min_views_of_day
        self._min_loaded_views = min_loaded_views
        self._thread: threading.Thread | None = None
        self._is_stopping = threading.Event()
        self._next_at = 0.0
        """When the next attempt may start after a failure."""
        self._last_number: int | None = None
        """The number of the last view that was summed up when the thread was started; None to start it in any case."""
        self._outdated: dict[tuple[str, int], int] = {}
        """The views of the days whose stored hours were not valid any more when the thread last looked."""

    def start(self, last_number: int) -> None:
        """Starts the thread if more views are summed up, up to this number, than when it was last started.

        The caller holds the lock.
        """
        is_running = self._thread is not None and self._thread.is_alive()
        if last_number == self._last_number or is_running or self._is_stopping.is_set():
            return
        if time.monotonic() >= self._next_at:
            self._last_number = last_number
            self._thread = threading.Thread(target=self._run, name="hours", daemon=True)
            self._thread.start()

    def look_again(self) -> None:
        """Makes the next call of `start` start the thread in any case. The caller holds the lock."""
        self._last_number = None

    def wait(self) -> None:
        """Waits until the thread has ended."""
        if (thread := self._thread) is not None:
            thread.join()

    def stop(self) -> None:
        """Stops the thread after the day that it counts. The next process continues its work."""
        self._is_stopping.set()
        self.wait()

    def _run(self) -> None:
        try:
            with self._database.read() as connection:
                large_days = list_large_days(connection, self._min_views_of_day)
            self._load_largest([day for day in large_days if not day.is_finished])
            cached_views = 0
            for chosen in self._choose_days([day for day in large_days if day.is_finished]):
                started_at = time.monotonic()
                self._count(chosen[0].day, [each.project for each in chosen])
                cached_views += sum(each.views for each in chosen)
                if cached_views > MAX_VIEWS_IN_CACHE:
                    self._database.release_memory()
                    cached_views = 0
                if self._is_stopping.wait(min(time.monotonic() - started_at, MAX_PAUSE_SECONDS)):
                    return
        except Exception as error:
            self._next_at = time.monotonic() + RETRY_SECONDS
            self._last_number = None
            log.warning(FAILED, RETRY_SECONDS, error, exc_info=get_unexpected(error))

    def _load_largest(self, unfinished_days: list[LargeDay]) -> None:
        """Loads the unfinished day with the most views into memory, where the next report reads only new views."""
        largest = max(unfinished_days, key=lambda day: day.views, default=None)
        if largest is not None and largest.views >= self._min_loaded_views:
            self._load_day(largest.project, largest.day)

    def _choose_days(self, finished_days: list[LargeDay]) -> Iterable[list[LargeDay]]:
        """Returns the days to count; those of several projects with the same date together.

        A day whose stored hours are not valid any more, because of late views, is counted again once no more of them
        arrive, so that importing views of many days does not count each of them many times.
        """
        before = self._outdated
        self._outdated = {(day.project, day.day): day.views for day in finished_days if day.counted_views is not None}
        chosen = defaultdict(list)
        for day in finished_days:
            if day.counted_views is None or before.get((day.project, day.day)) == day.views:
                chosen[day.day].append(day)
        return chosen.values()

    def _count(self, day: int, projects: list[str]) -> None:
        """Counts and stores a day of projects. If views are changed meanwhile, the next look counts it."""
        with self._database.read() as connection:
            counted = count_day(connection, projects, day)
        if counted:
            with self._fold_lock, self._database.write() as connection:
                store_hours(connection, counted)
