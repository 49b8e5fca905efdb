"""Collecting: events become views or reasons, and views that arrive together share one commit."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from copydesk.analytics.ingest.event_schema import Event
from copydesk.analytics.ingest.pipeline import accept
from copydesk.analytics.ingest.raw_view import Site, read
from copydesk.analytics.page_view import Dropped, View
from copydesk.analytics.stores.base import Logged
from copydesk.core.errors import Refusal, StoreDown
from copydesk.core.runtime.futures import settle

log = logging.getLogger(__name__)

GATHERING, LONGEST_GATHERING = 2, 0.2
"""So many times as long as the last commit took is gathered for the next, up to so many seconds: a commit of one view
costs nearly as much as one of a hundred, and all of them together should leave time for the rest."""
WORTHWHILE = 1_000
"""Views that are worth a commit of their own, without gathering more."""
MOST_TOGETHER = 20_000
"""Views from which a commit takes no further request."""
MOST_WAITING = 200_000

Numbered = tuple[int, Event | Dropped]


class CollectorBusy(Refusal):
    status, code = 503, "collector_busy"
    message = "More page views are arriving than the server can store; nothing from this request was stored."

    def __init__(self) -> None:
        super().__init__(headers={"Retry-After": "1"})


def views_of(events: Iterable[Numbered], site: Site, now: int) -> tuple[list[View], list[tuple[int, Dropped]]]:
    """The views, and by their numbers the events that are none."""
    views: list[View] = []
    dropped: list[tuple[int, Dropped]] = []
    for number, event in events:
        view = event if isinstance(event, Dropped) else view_of(event, site, now)
        if isinstance(view, Dropped):
            dropped.append((number, view))
        else:
            views.append(view)
    return views, dropped


def view_of(event: Event, site: Site, now: int) -> View | Dropped:
    raw = read(event, site, now)
    return raw if isinstance(raw, Dropped) else accept(raw)


class Collector:
    """Keeps views durably. While one commit is under way, what arrives gathers for the next; idle, nothing waits."""

    def __init__(self, log: Callable[[Sequence[View]], Logged], arrived: Callable[[], object]) -> None:
        """`arrived` is called after each commit, failed or not, in the thread that made it."""
        self._log, self._arrived = log, arrived
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="collect")
        self._waiting: deque[_Waiting] = deque()
        self._views = 0
        self._is_busy = False
        self._began = 0.0

    def close(self) -> None:
        """Waits for the commit that is under way, and ends the thread."""
        self._thread.shutdown()

    async def keep(self, views: Sequence[View]) -> Logged:
        """Returns once they are durable, with the request's own duplicates. A store that fails is the caller's 503."""
        if not views:
            return Logged(0)
        if self._views + len(views) > MOST_WAITING:
            raise CollectorBusy
        loop = asyncio.get_running_loop()
        kept: asyncio.Future[Logged] = loop.create_future()
        self._waiting.append((views, kept))
        self._views += len(views)
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._commit)  # after those that arrived in the same moment
        return await kept

    def _commit(self) -> None:
        loop, group, size = asyncio.get_running_loop(), [], 0
        while self._waiting and size < MOST_TOGETHER:
            group.append(self._waiting.popleft())
            size += len(group[-1][0])
        self._began = loop.time()
        done = loop.run_in_executor(self._thread, self._committed, [views for views, _ in group])
        done.add_done_callback(lambda done: self._settle(group, size, done.result()))

    def _settle(self, group: "list[_Waiting]", size: int, outcomes: "Sequence[_Outcome]") -> None:
        self._views -= size
        settle((kept for _, kept in group), outcomes)
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            loop = asyncio.get_running_loop()
            pause = min(GATHERING * (loop.time() - self._began), LONGEST_GATHERING)
            loop.call_later(pause if self._views < WORTHWHILE else 0, self._commit)

    def _committed(self, requests: Sequence[Sequence[View]]) -> "Sequence[_Outcome]":
        outcomes = self._logged(requests)
        try:
            self._arrived()
        except Exception:  # what is durable is acknowledged all the same
            log.exception("views were kept, but nobody could be told")
        return outcomes

    def _logged(self, requests: Sequence[Sequence[View]]) -> "Sequence[_Outcome]":
        try:
            return shares(self._log(list(chain.from_iterable(requests))), [len(views) for views in requests])
        except StoreDown as error:
            return [error] * len(requests)
        except Exception as error:  # a fault of one request must not be its neighbours'
            if len(requests) == 1:
                return [error]
            return [outcome for views in requests for outcome in self._logged([views])]


def shares(logged: Logged, sizes: Sequence[int]) -> list[Logged]:
    """What was logged together, for each of those who brought so many views."""
    if not logged.duplicates:
        return [Logged(size) for size in sizes]
    found, known, start = [], deque(sorted(logged.duplicates)), 0
    for size in sizes:
        own = []
        while known and known[0] < start + size:
            own.append(known.popleft() - start)
        found.append(Logged(size - len(own), tuple(own)))
        start += size
    return found


_Waiting = tuple[Sequence[View], asyncio.Future[Logged]]
_Outcome = Logged | Exception
