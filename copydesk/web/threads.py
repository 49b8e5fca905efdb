"""Calls that wait for a database run in threads, so that the event loop never waits."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from copydesk.core.database import Database
from copydesk.core.futures import settle

P = ParamSpec("P")
T = TypeVar("T")

# Threads start when they are needed. More of them would only queue for the interpreter.
_pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="call")


async def call(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Half the cost of the framework's own way, which passes through its cancel scopes and limiters. What the caller
    knows of its request, its log lines and its trace, the thread knows too."""
    act = partial(copy_context().run, function, *given, **named)
    return await asyncio.get_running_loop().run_in_executor(_pool, act)


class Together:
    """What arrives while a batch of writes is carried out forms the next: one thread, one commit, in order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="together")
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
            loop = asyncio.get_running_loop()
            done = loop.run_in_executor(self._thread, self._carried_out, [act for act, _ in batch])
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
