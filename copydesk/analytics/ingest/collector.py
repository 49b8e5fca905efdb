"""Converts events to page views and stores them. Views that arrive together share one commit (group commit)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from copydesk.analytics.ingest.event_schema import Event
from copydesk.analytics.ingest.pipeline import run_pipeline
from copydesk.analytics.ingest.raw_view import SiteConfig, raw_view_from_event
from copydesk.analytics.page_view import Dropped, PageView
from copydesk.analytics.stores.base import LogResult
from copydesk.core.errors import RequestError, StoreUnavailable
from copydesk.core.runtime.async_batcher import AsyncBatcher

log = logging.getLogger(__name__)

GATHER_FACTOR, MAX_GATHER_SECONDS = 2, 0.2
"""Between two commits, the collector gathers views for this multiple of the last commit's duration, at most this many
seconds: a commit of one view costs nearly as much as one of a hundred, and commits must leave time for other work."""
MIN_VIEWS_WITHOUT_WAIT = 1_000
"""From this many waiting views on, the next commit starts at once."""
MAX_VIEWS_PER_COMMIT = 20_000
"""A commit that has reached this many views takes no further requests."""
MAX_WAITING_VIEWS = 200_000

NumberedEvent = tuple[int, Event | Dropped]


class CollectorBusy(RequestError):
    status, code = 503, "collector_busy"
    message = "More page views are arriving than the server can store; nothing from this request was stored."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "1"})


def views_from_events(
    events: Iterable[NumberedEvent], site: SiteConfig, now: int
) -> tuple[list[PageView], list[tuple[int, Dropped]]]:
    """Returns the views, and the dropped events with their numbers."""
    views: list[PageView] = []
    dropped: list[tuple[int, Dropped]] = []
    for number, event in events:
        view = event if isinstance(event, Dropped) else view_from_event(event, site, now)
        if isinstance(view, Dropped):
            dropped.append((number, view))
        else:
            views.append(view)
    return views, dropped


def view_from_event(event: Event, site: SiteConfig, now: int) -> PageView | Dropped:
    raw = raw_view_from_event(event, site, now)
    return raw if isinstance(raw, Dropped) else run_pipeline(raw)


class Collector:
    """Stores views durably, with group commit.

    Views that arrive during a commit are gathered for the next one. Views that arrive while no commit runs are
    committed at once.
    """

    def __init__(self, log_views: Callable[[Sequence[PageView]], LogResult], on_commit: Callable[[], object]) -> None:
        """`on_commit` is called after each commit, successful or not, in the thread of the commit."""
        self._log_views = log_views
        self._on_commit = on_commit
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="collect")
        self._batcher = AsyncBatcher[Sequence[PageView], LogResult](
            self._commit, weigh=len, max_batch_weight=MAX_VIEWS_PER_COMMIT, get_pause_seconds=_get_gather_seconds
        )

    def close(self) -> None:
        """Waits for the running commit, then stops the thread."""
        self._executor.shutdown()

    async def save(self, views: Sequence[PageView]) -> LogResult:
        """Stores the views of one request. Returns once they are durable, with the duplicates of this request.

        Raises CollectorBusy if too many views wait, and the store's error if the commit fails. Both are 503 responses.
        """
        if not views:
            return LogResult(0)
        if self._batcher.pending_weight + len(views) > MAX_WAITING_VIEWS:
            raise CollectorBusy
        return await self._batcher.add(views)

    def _commit(self, requests: Sequence[Sequence[PageView]]) -> "asyncio.Future[Sequence[_Outcome]]":
        return asyncio.get_running_loop().run_in_executor(self._executor, self._commit_in_thread, requests)

    def _commit_in_thread(self, requests: Sequence[Sequence[PageView]]) -> "Sequence[_Outcome]":
        outcomes = self._log_requests(requests)
        try:
            self._on_commit()
        except Exception:  # the views are durable, so the request still succeeds
            log.exception("views were stored, but the callback after the commit failed")
        return outcomes

    def _log_requests(self, requests: Sequence[Sequence[PageView]]) -> "Sequence[_Outcome]":
        try:
            return split_result(
                self._log_views(list(chain.from_iterable(requests))), [len(views) for views in requests]
            )
        except StoreUnavailable as error:
            return [error] * len(requests)
        except Exception as error:  # an invalid request must not fail the other requests of its group
            if len(requests) == 1:
                return [error]
            return [outcome for views in requests for outcome in self._log_requests([views])]


def _get_gather_seconds(commit_seconds: float, waiting_views: int) -> float:
    if waiting_views >= MIN_VIEWS_WITHOUT_WAIT:
        return 0.0
    return min(GATHER_FACTOR * commit_seconds, MAX_GATHER_SECONDS)


def split_result(combined: LogResult, sizes: Sequence[int]) -> list[LogResult]:
    """Splits the result of a group commit into one result per request; `sizes` are the requests' numbers of views."""
    if not combined.duplicates:
        return [LogResult(size) for size in sizes]
    results = []
    duplicates = deque(sorted(combined.duplicates))
    start = 0
    for size in sizes:
        own_duplicates = []
        while duplicates and duplicates[0] < start + size:
            own_duplicates.append(duplicates.popleft() - start)
        results.append(LogResult(size - len(own_duplicates), tuple(own_duplicates)))
        start += size
    return results


_Outcome = LogResult | Exception
