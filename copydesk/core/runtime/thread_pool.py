"""Calls that wait for a database run in threads, so that the event loop never waits."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from copydesk.core.db.database import Database
from copydesk.core.runtime.futures import resolve_futures

P = ParamSpec("P")
T = TypeVar("T")

THREADS_PER_POOL = {"call": 16, "together": 1, "read": 1, "health": 2, "door": 4}
"""Threads of each pool, which start when they are needed. More of them would only queue for the interpreter."""


class ThreadPools:
    """The thread pools of one server, which closes them when its event loop ends."""

    def __init__(self) -> None:
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def get(self, name: str) -> ThreadPoolExecutor:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = ThreadPoolExecutor(THREADS_PER_POOL[name], thread_name_prefix=name)
        return pool

    def close(self) -> None:
        """Ends idle threads at once and busy ones after what they do; calls that have not begun are cancelled."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools = {}


_pools_by_loop: "WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPools]" = WeakKeyDictionary()


def get_thread_pools() -> ThreadPools:
    """Returns the pools of the running event loop."""
    loop = asyncio.get_running_loop()
    thread_pools = _pools_by_loop.get(loop)
    if thread_pools is None:
        thread_pools = _pools_by_loop[loop] = ThreadPools()
    return thread_pools


def run_in_pool(pool_name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """Runs a function in a pool of its own kind, one of THREADS."""
    return asyncio.get_running_loop().run_in_executor(
        get_thread_pools().get(pool_name), partial(function, *args, **kwargs)
    )


async def run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Half the cost of the framework's own way, which passes through its cancel scopes and limiters. What the caller
    knows of its request, its log lines and its trace, the thread knows too."""
    task = partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(get_thread_pools().get("call"), task)


class WriteBatcher:
    """What arrives while a batch of writes is carried out forms the next: one thread, one commit, in order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: list[_PendingWrite] = []
        self._is_busy = False

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """For functions that read nothing after their one write (see Database.together)."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending.append((partial(copy_context().run, function, *args, **kwargs), future))
        if not self._is_busy:
            self._start_next_batch()
        return await future

    def _start_next_batch(self) -> None:
        batch, self._pending = self._pending, []
        self._is_busy = bool(batch)
        if batch:
            future = run_in_pool("together", self._run_batch, [task for task, _ in batch])
            future.add_done_callback(lambda done: self._finish_batch(batch, done.result()))

    def _run_batch(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        try:
            return self._database.run_in_shared_transaction(tasks)
        except Exception as error:  # the commit itself failed, and with it everything in the batch
            return [error] * len(tasks)

    def _finish_batch(self, batch: "Sequence[_PendingWrite]", outcomes: Sequence[Any]) -> None:
        resolve_futures((future for _, future in batch), outcomes)
        self._start_next_batch()


_PendingWrite = tuple[Callable[[], Any], asyncio.Future[Any]]
