"""Merges runs in the background, so that a search reads few of them and no fold waits for a merge."""

import logging
import threading
import time

from copydesk.analytics.stores.duckdb.folding.runs.run_merge import RunMerge
from copydesk.analytics.stores.duckdb.folding.runs.visit_runs import VisitRuns
from copydesk.core.errors import StoreUnavailable

log = logging.getLogger(__name__)

RETRY_SECONDS = 300
"""The pause after a merge that failed, for example because the disk is full."""
MERGE_FAILED = "could not merge files of visits; will retry in %d seconds: %s"


class RunMerges:
    """The thread that merges runs. It takes the store's fold lock only to plan a merge and to finish it."""

    def __init__(self, visits: VisitRuns, fold_lock: threading.Lock) -> None:
        self._visits = visits
        self._fold_lock = fold_lock
        self._thread: threading.Thread | None = None
        self._is_stopping = threading.Event()
        self._next_at = 0.0
        self._is_early = False

    def start(self, is_early: bool = False) -> None:
        """Starts a merge if there are enough runs of similar size and none is running. The caller holds the lock.

        With `is_early`, two short runs are enough: each search in a run takes about as long as any other, so fewer runs
        pay off if small folds follow.
        """
        self._is_early = is_early
        is_running = self._thread is not None and self._thread.is_alive()
        if is_running or self._is_stopping.is_set() or time.monotonic() < self._next_at:
            return
        merge = self._visits.plan_merge(is_early=is_early)
        if merge is not None:
            self._thread = threading.Thread(target=self._run, args=[merge], name="merge", daemon=True)
            self._thread.start()

    def catch_up(self) -> None:
        """Merges runs now if very many wait, as in a long fold, whose lock the thread cannot get.

        The caller holds the lock.
        """
        while time.monotonic() >= self._next_at:
            merge = self._visits.plan_merge(is_urgent=True)
            if merge is None:
                return
            is_written = False
            try:
                is_written = merge.write(self._is_stopping.is_set)
            except StoreUnavailable as error:
                self._pause(error)
            if not is_written:
                self._visits.drop_merge(merge)
                return
            self._visits.finish_merge(merge)

    def wait(self) -> None:
        """Waits until no merge is running."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Stops a running merge, which is done again after the next start."""
        self._is_stopping.set()
        self.wait()

    def _run(self, merge: RunMerge) -> None:
        planned: RunMerge | None = merge
        try:
            while planned is not None:
                planned = self._merge(planned)
        except Exception as error:
            self._pause(error)

    def _pause(self, error: Exception) -> None:
        """Reports a failed merge, and merges nothing for a while."""
        self._next_at = time.monotonic() + RETRY_SECONDS
        log.warning(MERGE_FAILED, RETRY_SECONDS, error, exc_info=get_unexpected(error))

    def _merge(self, merge: RunMerge) -> RunMerge | None:
        """Carries out a merge. Returns the next one, if there is one."""
        is_written = False
        try:
            is_written = merge.write(self._is_stopping.is_set)
        finally:
            if not is_written:
                with self._fold_lock:
                    self._visits.drop_merge(merge)
        with self._fold_lock:
            if is_written:
                self._visits.finish_merge(merge)
            return None if self._is_stopping.is_set() else self._visits.plan_merge(is_early=self._is_early)


def get_unexpected(error: Exception) -> Exception | None:
    """Returns an error whose traceback should be logged."""
    return None if isinstance(error, StoreUnavailable) else error
