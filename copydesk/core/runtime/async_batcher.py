"""Group commit for the requests of an event loop: items that arrive during one commit share the next."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class AsyncBatcher(Generic[Item, Result]):
    """Commits items in batches, in order of arrival, one batch at a time.

    An item that arrives while no commit runs is committed at once, with all others of the same loop iteration.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]],
        *,
        weigh: Callable[[Item], int] = lambda _: 1,
        max_batch_weight: int | None = None,
        get_pause_seconds: Callable[[float, int], float] = lambda _seconds, _weight: 0.0,
    ) -> None:
        """`commit` returns the result or the exception of each item. If it raises, every item of the batch fails.

        A batch that has reached `max_batch_weight` takes no further items. `get_pause_seconds` returns how long to
        gather items before the next commit; it gets the duration of the last commit and the weight of waiting items.
        """
        self._commit = commit
        self._weigh = weigh
        self._max_batch_weight = max_batch_weight
        self._get_pause_seconds = get_pause_seconds
        self._queue: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self.pending_weight = 0
        """The weight of the items that wait or are being committed."""

    async def add(self, item: Item) -> Result:
        """Returns the result of the item once its batch is committed, or raises its exception."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append((item, future))
        self.pending_weight += self._weigh(item)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._commit_batches())
        return await future

    async def _commit_batches(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch, weight = self._take_batch()
            started_at = loop.time()
            try:
                outcomes = await self._commit([item for item, _ in batch])
            except Exception as error:
                outcomes = [error] * len(batch)
            finally:
                self.pending_weight -= weight
            _resolve_futures((future for _, future in batch), outcomes)
            if not self._queue:
                return
            pause_seconds = self._get_pause_seconds(loop.time() - started_at, self.pending_weight)
            if pause_seconds > 0:
                await asyncio.sleep(pause_seconds)

    def _take_batch(self) -> tuple[list[tuple[Item, asyncio.Future[Result]]], int]:
        batch = []
        weight = 0
        while self._queue and (self._max_batch_weight is None or weight < self._max_batch_weight):
            batch.append(self._queue.popleft())
            weight += self._weigh(batch[-1][0])
        return batch, weight


def _resolve_futures(futures: Iterable[asyncio.Future[Result]], outcomes: Iterable[Result | Exception]) -> None:
    """Sets the result of each future, or its exception if the outcome is one. Skips futures that are done."""
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():  # its request was cancelled, or its client disconnected
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
