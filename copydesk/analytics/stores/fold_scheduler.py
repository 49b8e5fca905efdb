"""What the store needs now and then, by a thread of the process that serves: folding, and dropping old raw views."""

import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from copydesk.analytics.stores.base import Store
from copydesk.core import clock
from copydesk.core.errors import Explained
from copydesk.core.telemetry import instruments as measured

log = logging.getLogger(__name__)

FOLDING, DROPPING = "folding", "dropping raw views"


@dataclass(frozen=True)
class Pace:
    """Times are in seconds."""

    rest: float = 30
    """So many times as long as it took is a fold rested from: it takes 3% of a core, however large the store."""
    least: float = 1
    most: float = 60
    readers_rest: float = 2
    """The same while somebody reads and views keep coming: a third of a core."""
    readers_wait: float = 5
    small: int = 20_000
    """Views that are folded at once for a reader, unless folding so few took longer than is quick."""
    quick: float = 2
    dropping: float = 3600


class Keeper:
    """Touches the store when something came, when somebody reads, and once an hour after that; else it sleeps.

    Several serving processes have one each: folds take turns in the store, and a second one finds little to do.
    """

    def __init__(
        self,
        store: Store,
        raw_days: Callable[[], Mapping[str, int | None]] = dict,
        pace: Pace | None = None,
        drop_more: Callable[[], object] = lambda: None,
    ) -> None:
        """raw_days says for how long the raw views of each project are kept; None is for ever. `drop_more` deletes
        what else is too old, whenever raw views are dropped."""
        self._store = store
        self._raw_days, self._drop_more = raw_days, drop_more
        self._pace = pace or Pace()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._arrived = False
        self._slow = False
        self._brief = True
        self._asked = self._answered = 0
        self._failures = {FOLDING: 0, DROPPING: 0}
        self._fold_at = self._fresh_at = self._since = 0.0
        self._drop_at = math.inf

    def start(self) -> None:
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 5) -> None:
        """A fold that is under way is waited for so long; the store's transaction ends it in any case."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)

    def arrived(self) -> None:
        """Views were logged: to be called after each commit, and costs next to nothing."""
        if not self._arrived:
            with self._changed:
                self._arrived, self._since = True, time.monotonic()
                self._changed.notify_all()

    @property
    def lag(self) -> float:
        """For how many seconds the first view that no fold has begun with has waited."""
        return time.monotonic() - self._since if self._arrived else 0.0

    @property
    def is_failing(self) -> bool:
        return bool(self._failures[FOLDING])

    def fresh(self) -> None:
        """Before a report: returns once all that was logged before is counted, or when that would take too long.

        Those who ask at the same time share a fold. It waits, so a coroutine calls it in a thread.
        """
        with self._changed:
            if self._stopping or self._thread is None or self._failures[FOLDING] or not self._brief:
                return
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answered >= mine or self._stopping, self._pace.readers_wait)

    def _keep(self) -> None:
        while self._wait():
            if self._asked > self._answered or (self._arrived and time.monotonic() >= self._fold_at):
                self._attempt(FOLDING, self._fold)
            if time.monotonic() >= self._drop_at:
                self._attempt(DROPPING, self._drop)

    def _wait(self) -> bool:
        """True as soon as there is something to do, False when it is time to stop."""
        with self._changed:
            while not self._stopping:
                seconds = self._due() - time.monotonic()
                if seconds <= 0:
                    return True
                self._changed.wait(None if seconds == math.inf else seconds)
            return False

    def _due(self) -> float:
        if self._asked > self._answered:
            return 0
        return min(self._fold_at if self._arrived else math.inf, self._drop_at)

    def _attempt(self, what: str, act: Callable[[], None]) -> None:
        """A failure is logged once, and tried again after 1, 2, 4 … seconds: a full disk may be emptied."""
        try:
            act()
        except Exception as error:
            self._failures[what] += 1
            if self._failures[what] == 1:
                log.warning("%s fails and is tried again: %s", what, error, exc_info=not isinstance(error, Explained))
            doubled = 2 ** min(self._failures[what] - 1, 10)
            again = time.monotonic() + min(self._pace.least * doubled, self._pace.most)
            if what == DROPPING:
                self._drop_at = again
            else:
                self._arrived, self._brief, self._fold_at = True, True, again
                self._answer(self._asked)
        else:
            if self._failures[what]:
                log.warning("%s works again", what)
            self._failures[what] = 0

    def _fold(self) -> None:
        """Few views at once, as readers wait for them; many, or on a slow store, in their time."""
        asked, self._arrived = self._asked, False
        backlog = self._store.backlog()
        self._brief = backlog <= self._pace.small and not self._slow
        if not self._brief:
            self._answer(asked)
        if backlog and (self._brief or time.monotonic() >= self._fold_at):
            self._count()
        elif backlog:
            self._arrived = True
        if self._drop_at == math.inf:
            self._drop_at = time.monotonic()
        self._answer(asked)

    def _count(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, max(0.0, self._fresh_at - time.monotonic()))
        asked, self._arrived = self._asked, False  # who asks, or what is logged, from here on is for the next fold
        begun = time.monotonic()
        views = self._store.fold()
        ended = time.monotonic()
        took = ended - begun
        measured.fold_seconds.observe(took)
        measured.folded.add(by=views)
        self._fold_at = ended + min(max(self._pace.rest * took, self._pace.least), self._pace.most)
        self._fresh_at = ended + self._pace.readers_rest * min(took, self._pace.quick)
        if views <= self._pace.small:
            self._slow = took > self._pace.quick
        self._brief = True
        self._answer(asked)

    def _drop(self) -> None:
        """The store is asked even if every view is kept: it tidies up meanwhile."""
        today, projects = clock.today(), defaultdict(list)
        for project_id, days in self._raw_days().items():
            if days is not None:
                projects[days].append(project_id)
        for days, some in (projects or {0: []}).items():
            self._store.drop_views(today - days, some)
        self._drop_more()
        self._drop_at = time.monotonic() + self._pace.dropping

    def _answer(self, asked: int) -> None:
        """Those who asked before this have their answer."""
        with self._changed:
            self._answered = max(self._answered, asked)
            self._changed.notify_all()
