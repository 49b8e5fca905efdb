"""The background thread of a server process that folds new views and deletes old raw views."""

import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from copydesk.analytics.stores.base import Store
from copydesk.core import clock
from copydesk.core.errors import UserFacingError
from copydesk.core.telemetry import instruments

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FoldTiming:
    """The timing of folds and deletions."""

    pause_factor: float = 30
    """After a fold, the scheduler waits this multiple of its duration, so that folding uses a small share of a core at
    any store size. `min_pause_seconds` and `max_pause_seconds` bound the pause."""
    min_pause_seconds: float = 1
    max_pause_seconds: float = 60
    reader_pause_factor: float = 2
    """The multiple while reports are requested: readers wait for folds, so folding may use a larger share of a core."""
    reader_timeout_seconds: float = 5
    small_backlog_views: int = 20_000
    """Up to this many views are folded at once for a reader, unless a fold of so few views took longer than
    `quick_fold_seconds`."""
    quick_fold_seconds: float = 2
    deletion_interval_seconds: float = 3600


@dataclass
class Task:
    """A task that the scheduler repeats. `next_at` is when it may run next, as a time of the monotonic clock."""

    name: str
    action: Callable[[], None]
    next_at: float
    failures: int = 0
    """The number of failures since the last success."""


class FoldScheduler:
    """Folds when views were logged or a report is requested, and deletes old raw views once an hour.

    Otherwise it sleeps. Each server process has one. Folds take turns in the store, so a second one finds little to do.
    """

    def __init__(
        self,
        store: Store,
        raw_days: Callable[[], Mapping[str, int | None]] = dict,
        timing: FoldTiming | None = None,
        delete_expired: Callable[[], object] = lambda: None,
    ) -> None:
        """`raw_days` returns how many days each project retains raw views; None means forever.

        `delete_expired` deletes other expired data, each time raw views are deleted.
        """
        self._store = store
        self._raw_days = raw_days
        self._delete_expired = delete_expired
        self._timing = timing or FoldTiming()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._has_new_views = False
        self._waiting_since = 0.0
        self._was_last_fold_slow = False
        self._can_fold_at_once = True
        self._last_request_number = 0
        self._last_answered_number = 0
        self._folding = Task("folding", self._fold_if_due, next_at=0.0)
        self._deletion = Task("deleting raw views", self._delete_expired_views, next_at=math.inf)
        self._next_reader_fold_at = 0.0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="fold-scheduler", daemon=True)
        self._thread.start()

    def stop(self, timeout_seconds: float = 5) -> None:
        """Stops the thread.

        Waits at most this long for a running fold, which is a transaction and so safe to interrupt.
        """
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def notify_new_views(self) -> None:
        """Tells the scheduler that views were logged. Call it after each commit; it is cheap."""
        if not self._has_new_views:
            with self._changed:
                self._waiting_since = time.monotonic()
                self._has_new_views = True
                self._changed.notify_all()

    @property
    def lag(self) -> float:
        """Returns how many seconds the oldest view has waited for a fold to start; 0 if none waits."""
        return time.monotonic() - self._waiting_since if self._has_new_views else 0.0

    @property
    def is_failing(self) -> bool:
        return self._folding.failures > 0

    def wait_until_folded(self) -> None:
        """Waits until all views that were logged before this call are counted. Call it before a report.

        Returns early if that would take too long or if folding fails. Concurrent callers share a fold. Blocks, so a
        coroutine must call it in a thread.
        """
        with self._changed:
            if self._is_stopping or self._thread is None or self._folding.failures or not self._can_fold_at_once:
                return
            self._last_request_number += 1
            request_number = self._last_request_number
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._last_answered_number >= request_number or self._is_stopping,
                self._timing.reader_timeout_seconds,
            )

    def _run(self) -> None:
        while self._wait_for_work():
            if self._has_unanswered_request() or (self._has_new_views and time.monotonic() >= self._folding.next_at):
                self._run_with_backoff(self._folding)
                if self._folding.failures:
                    self._handle_failed_fold()
            if time.monotonic() >= self._deletion.next_at:
                self._run_with_backoff(self._deletion)

    def _wait_for_work(self) -> bool:
        """Blocks until there is work. Returns False when the scheduler stops."""
        with self._changed:
            while not self._is_stopping:
                seconds = self._next_due_at() - time.monotonic()
                if seconds <= 0:
                    return True
                self._changed.wait(None if seconds == math.inf else seconds)
            return False

    def _next_due_at(self) -> float:
        if self._has_unanswered_request():
            return 0
        return min(self._folding.next_at if self._has_new_views else math.inf, self._deletion.next_at)

    def _has_unanswered_request(self) -> bool:
        return self._last_request_number > self._last_answered_number

    def _run_with_backoff(self, task: Task) -> None:
        """Runs a task. After a failure, schedules the next attempt with exponential backoff.

        Retries any error, because errors such as a full disk may pass. Logs only the first of consecutive failures.
        """
        try:
            task.action()
        except Exception as error:
            task.failures += 1
            if task.failures == 1:
                is_expected = isinstance(error, UserFacingError)
                log.warning("%s failed and will be retried: %s", task.name, error, exc_info=not is_expected)
            backoff_factor = 2 ** min(task.failures - 1, 10)
            pause_seconds = min(self._timing.min_pause_seconds * backoff_factor, self._timing.max_pause_seconds)
            task.next_at = time.monotonic() + pause_seconds
        else:
            if task.failures:
                log.warning("%s works again", task.name)
            task.failures = 0

    def _handle_failed_fold(self) -> None:
        """Makes the scheduler fold again, and wakes all readers: they do not wait while folding fails."""
        self._has_new_views = True
        self._can_fold_at_once = True
        self._answer_requests(self._last_request_number)

    def _fold_if_due(self) -> None:
        """Folds a small backlog at once, because readers wait for it.

        A large backlog, or any on a slow store, is folded only when the pause after the last fold is over, and readers
        do not wait.
        """
        request_number = self._last_request_number
        self._has_new_views = False
        backlog = self._store.backlog()
        self._can_fold_at_once = backlog <= self._timing.small_backlog_views and not self._was_last_fold_slow
        if not self._can_fold_at_once:
            self._answer_requests(request_number)
        if backlog and (self._can_fold_at_once or time.monotonic() >= self._folding.next_at):
            self._fold_store()
        elif backlog:
            self._has_new_views = True
        if self._deletion.next_at == math.inf:
            # Both follow the first use of the store, so that an idle process never calls the store.
            self._store.prepare_logging()
            self._deletion.next_at = time.monotonic()
        self._answer_requests(request_number)

    def _fold_store(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, max(0.0, self._next_reader_fold_at - time.monotonic()))
        # Requests and views that arrive from here on belong to the next fold.
        request_number = self._last_request_number
        self._has_new_views = False
        started = time.monotonic()
        views = self._store.fold()
        ended = time.monotonic()
        duration = ended - started
        instruments.fold_seconds.observe(duration)
        instruments.folded_views.inc(views)
        self._folding.next_at = ended + min(
            max(self._timing.pause_factor * duration, self._timing.min_pause_seconds), self._timing.max_pause_seconds
        )
        self._next_reader_fold_at = ended + self._timing.reader_pause_factor * min(
            duration, self._timing.quick_fold_seconds
        )
        if views <= self._timing.small_backlog_views:
            self._was_last_fold_slow = duration > self._timing.quick_fold_seconds
        self._can_fold_at_once = True
        self._answer_requests(request_number)

    def _delete_expired_views(self) -> None:
        """Deletes expired raw views.

        Calls the store even if all projects retain them forever, because it also cleans up.
        """
        today = clock.today()
        projects_by_days: defaultdict[int, list[str]] = defaultdict(list)
        for project_id, days in self._raw_days().items():
            if days is not None:
                projects_by_days[days].append(project_id)
        for days, project_ids in (projects_by_days or {0: []}).items():
            self._store.delete_raw_views(today - days, project_ids)
        self._delete_expired()
        self._deletion.next_at = time.monotonic() + self._timing.deletion_interval_seconds

    def _answer_requests(self, upto_number: int) -> None:
        """Wakes the readers whose requests have a number up to this one."""
        with self._changed:
            self._last_answered_number = max(self._last_answered_number, upto_number)
            self._changed.notify_all()
