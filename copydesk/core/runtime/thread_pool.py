"""Thread pools for calls that wait for a database, so that the event loop never blocks."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
T = TypeVar("T")

THREADS_PER_POOL = {"default": 16, "read": 1, "health": 2, "sign-in": 4, "pages": 2, "webhooks": 8}
"""Maximum threads of each pool; they start on demand. More would only wait for the interpreter lock. Those of webhooks
wait for receivers and name servers that others chose, so nothing else uses them."""


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
        """Stops idle threads at once and busy ones after their current call; cancels calls that have not started."""
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
    """Runs a function in the pool with this name, one of THREADS_PER_POOL."""
    return asyncio.get_running_loop().run_in_executor(
        get_thread_pools().get(pool_name), partial(function, *args, **kwargs)
    )


async def run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a function in the default pool, with the caller's context variables: its log context and its trace.

    Costs less than the framework's own function, which goes through cancel scopes and limiters.
    """
    task = partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(get_thread_pools().get("default"), task)
