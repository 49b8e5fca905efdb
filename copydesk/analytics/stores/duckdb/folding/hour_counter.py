"""Counts finished days by hour in the background, so that no fold and no report waits for it."""

import logging
import threading
import time
from collections.abc import Callable

from copydesk.analytics.stores.duckdb.database import DuckDatabase
from copydesk.analytics.stores.duckdb.folding.hour_counts import LargeDay, count_day, list_large_days, store_hours
from copydesk.core.errors import StoreUnavailable

log = logging.getLogger(__name__)

MIN_VIEWS_OF_DAY = 5_000
"""A day with fewer raw views is not stored by hour, because counting it takes a report little time."""
RETRY_SECONDS = 300
"""The pause after a failure, for example because the disk is full."""
MAX_DAYS_IN_CACHE = 10
"""After more days than this, DuckDB's cache is released: it is full of views that no report has asked for."""
FAILED = "could not count finished days by hour; will retry in %d seconds: %s"


class HourCounter:
    """The thread that counts finished days. It takes the store's fold lock only to store what it has counted."""

    def __init__(
        self,
        database: DuckDatabase,
        fold_lock: threading.Lock,
        load_day: Callable[[str, int], object],
        min_views_of_day: int = MIN_VIEWS_OF_DAY,
    ) -> None:
        """`load_day` loads the visitors of an unfinished day of a project into memory."""
        self._database = database
        self._fold_lock = fold_lock
        self._load_day = load_day
        self._min_views_of_day = min_views_of_day
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
            days = self._find_days()
            for day in days:
                started_at = time.monotonic()
                if day.is_finished:
                    self._count(day)
                else:
                    self._load_day(day.project, day.day)
                if self._is_stopping.wait(time.monotonic() - started_at):  # it uses at most half of a core
                    return
            if len(days) > MAX_DAYS_IN_CACHE:
                self._database.release_cache()
        except Exception as error:
            self._next_at = time.monotonic() + RETRY_SECONDS
            self._last_number = None
            is_expected = isinstance(error, StoreUnavailable)
            log.warning(FAILED, RETRY_SECONDS, error, exc_info=None if is_expected else error)

    def _find_days(self) -> list[LargeDay]:
        """Returns the days to count or to load.

        A day whose stored hours are not valid any more, because of late views, is counted again once no more of them
        arrive, so that importing views of many days does not count each of them many times.
        """
        with self._database.read() as connection:
            days = list_large_days(connection, self._min_views_of_day)
        before = self._outdated
        self._outdated = {
            (day.project, day.day): day.views
            for day in days
            if day.is_finished and day.counted_views not in (None, day.views)
        }
        return [
            day
            for day in days
            if day.counted_views is None
            or (day.is_finished and day.counted_views != day.views == before.get((day.project, day.day)))
        ]

    def _count(self, day: LargeDay) -> None:
        with self._database.read() as connection:
            counted = count_day(connection, day.project, day.day)
        if counted is not None:
            with self._fold_lock, self._database.write() as connection:
                store_hours(
                    connection, counted
                )  # if views were changed, the thread counts the day when it starts again
