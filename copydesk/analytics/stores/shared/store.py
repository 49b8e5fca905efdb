"""A store for all processes of a machine: a call goes to the file when we own it, else to the process that does."""

import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from copydesk.analytics.page_view import View
from copydesk.analytics.stores.base import (
    ALWAYS,
    MOST_FIRST,
    AgentRow,
    Choice,
    Interval,
    Logged,
    Moment,
    Page,
    Range,
    RuleRow,
    Store,
    StoreInUse,
)
from copydesk.analytics.stores.shared.client import Away, Guest, OwnerGone
from copydesk.analytics.stores.shared.server import SOCKET, Owner
from copydesk.core.errors import StoreDown

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

PATIENCE = 8.0
"""Seconds that the owner may be silent, or missing. A killed one's successor has its log to read first."""
PAUSE = 0.02


class SharedStore:
    """Nothing is opened before the first call. When the owner ends, the next call of any process makes it the owner."""

    def __init__(self, folder: Path, patience: float = PATIENCE) -> None:
        self._folder = folder
        self._patience = patience
        self._guest = Guest(folder / SOCKET, patience)
        self._opening = threading.Lock()
        self._owner: Owner | None = None
        self._closed = False

    def log(self, views: Sequence[View]) -> Logged:
        """When the owner is killed meanwhile, views that carry no event are not sent again: they might count twice."""
        return self._do(Store.log, views, repeatable=all(view.event is not None for view in views))

    def ping(self) -> None:
        self._do(Store.ping)

    def backlog(self) -> int:
        return self._do(Store.backlog)

    def fold(self) -> int:
        return self._do(Store.fold)

    def visitors(
        self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0, choice: Choice = MOST_FIRST
    ) -> Page:
        return self._do(Store.visitors, project_id, days, limit, offset, choice)

    def views(self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0) -> Page:
        return self._do(Store.views, project_id, days, limit, offset)

    def agents(
        self, project_id: str, days: Range = ALWAYS, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[AgentRow], bool]:
        rows, more = self._do(Store.agents, project_id, days, limit, offset)
        return rows, more

    def rules(self, project_id: str, days: Range = ALWAYS, limit: int = 1000) -> Sequence[RuleRow]:
        return self._do(Store.rules, project_id, days, limit)

    def timeseries(self, project_id: str, interval: Interval, days: Range = ALWAYS) -> Sequence[Moment]:
        return self._do(Store.timeseries, project_id, interval, days)

    def count_as_ai(self, project_id: str, kinds: Collection[str], patience: float | None = None) -> None:
        self._do(Store.count_as_ai, project_id, frozenset(kinds))

    def rebuild(self) -> None:
        self._do(Store.rebuild)

    def drop_views(self, before: int, projects: Collection[str] | None = None) -> int:
        return self._do(Store.drop_views, before, None if projects is None else frozenset(projects))

    def forget(self, project_id: str) -> None:
        self._do(Store.forget, project_id)

    def forget_visitor(self, project_id: str, visitor: int) -> None:
        self._do(Store.forget_visitor, project_id, visitor)

    def back_up(self, target: Path) -> None:
        """Not repeated either: half a copy would be in its way."""
        self._do(Store.back_up, target.absolute(), repeatable=False)

    def close(self) -> None:
        with self._opening:
            self._closed = True
            owner, self._owner = self._owner, None
        if owner is not None:
            owner.close()
        self._guest.close()

    def _do(self, method: Callable[[Store, *Arguments], T], *arguments: *Arguments, repeatable: bool = True) -> T:
        until = 0.0
        while True:
            try:
                result: T = self._try(method.__name__, arguments)
                return result
            except (Away, OwnerGone, StoreInUse) as failure:
                if isinstance(failure, OwnerGone) and not repeatable:
                    raise
                until = until or time.monotonic() + self._patience
                if self._closed or time.monotonic() > until:
                    raise (StoreDown() if isinstance(failure, Away) else failure) from None
                time.sleep(PAUSE)

    def _try(self, name: str, arguments: Sequence[object]) -> Any:
        if self._closed:
            raise Away
        if (owner := self._owner) is None:
            try:
                return self._guest.call(name, arguments)
            except Away:
                owner = self._own()
        return owner.call(name, arguments)

    def _own(self) -> Owner:
        """Many may try at once, threads and processes: one becomes the owner, and the others find it the next time."""
        with self._opening:
            if self._closed:
                raise Away
            if self._owner is None:
                self._owner = Owner(self._folder)
                self._guest.close()
            return self._owner
