"""Commits writes of concurrent requests together on SQLite, where a commit costs more than its writes."""

from asyncio import Future
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from copydesk.core.db.database import Database
from copydesk.core.runtime.async_batcher import AsyncBatcher
from copydesk.core.runtime.thread_pool import run_in_pool

P = ParamSpec("P")
T = TypeVar("T")


class WriteBatcher:
    """Batches writes: those that arrive while one batch is being committed form the next.

    One thread runs the writes of a batch in order of arrival and commits them together.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher = AsyncBatcher[Callable[[], Any], Any](self._commit)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a function that reads nothing after its one write (see Database.run_in_shared_transaction)."""
        result: T = await self._batcher.add(partial(copy_context().run, function, *args, **kwargs))
        return result

    def _commit(self, tasks: Sequence[Callable[[], Any]]) -> Future[list[Any]]:
        return run_in_pool("write", self._database.run_in_shared_transaction, tasks)
