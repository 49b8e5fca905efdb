"""Calls that wait for a database run in threads, so that the event loop never waits."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from copydesk.core.db.database import Database
from copydesk.core.runtime.futures import settle

P = ParamSpec("P")
T = TypeVar("T")

THREADS = {"call": 16, "together": 1, "read": 1, "health": 2, "door": 4}
"""Threads of each pool, which start when they are needed. More of them would only queue for the interpreter."""


class Pools:
    """The thread pools of one server, which closes them when its event loop ends."""

    def __init__(self) -> None:
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def get(self, name: str) -> ThreadPoolExecutor:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = ThreadPoolExecutor(THREADS[name], thread_name_prefix=name)
        return pool

    def close(self) -> None:
        """Ends idle threads at once and busy ones after what they do; calls that have not begun are cancelled."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools = {}


_pools: "WeakKeyDictionary[asyncio.AbstractEventLoop, Pools]" = WeakKeyDictionary()


def pools() -> Pools:
    """Returns the pools of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _pools.get(loop)
    if found is None:
        found = _pools[loop] = Pools()
    return found


def run_in(pool: str, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> asyncio.Future[T]:
    """Runs a function in a pool of its own kind, one of THREADS."""
    return asyncio.get_running_loop().run_in_executor(pools().get(pool), partial(function, *given, **named))


async def call(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Half the cost of the framework's own way, which passes through its cancel scopes and limiters. What the caller
    knows of its request, its log lines and its trace, the thread knows too."""
    act = partial(copy_context().run, function, *given, **named)
    return await asyncio.get_running_loop().run_in_executor(pools().get("call"), act)


class Together:
    """What arrives while a batch of writes is carried out forms the next: one thread, one commit, in order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[_Waiting] = []
        self._is_busy = False

    async def call(self, function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """For functions that read nothing after their one write (see Database.together)."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((partial(copy_context().run, function, *given, **named), future))
        if not self._is_busy:
            self._next_batch()
        return await future

    def _next_batch(self) -> None:
        batch, self._waiting = self._waiting, []
        self._is_busy = bool(batch)
        if batch:
            done = run_in("together", self._carried_out, [act for act, _ in batch])
            done.add_done_callback(lambda done: self._settle(batch, done.result()))

    def _carried_out(self, acts: Sequence[Callable[[], Any]]) -> list[Any]:
        try:
            return self._database.together(acts)
        except Exception as error:  # the commit itself failed, and with it everything in the batch
            return [error] * len(acts)

    def _settle(self, batch: "Sequence[_Waiting]", outcomes: Sequence[Any]) -> None:
        settle((future for _, future in batch), outcomes)
        self._next_batch()


_Waiting = tuple[Callable[[], Any], asyncio.Future[Any]]
