"""Items that arrive together share a commit, and each item gets its own result."""

import asyncio
from collections.abc import Sequence

import pytest

from copydesk.core.runtime.async_batcher import AsyncBatcher


class Commits:
    """A commit of numbers that records its batches. Negative numbers fail alone, and 0 fails its whole batch."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.batches: list[list[int]] = []
        self.seconds = seconds
        self.running = 0

    async def __call__(self, numbers: Sequence[int]) -> list[str | Exception]:
        self.running += 1
        assert self.running == 1, "one batch at a time"
        self.batches.append(list(numbers))
        await asyncio.sleep(self.seconds)
        self.running -= 1
        if 0 in numbers:
            raise ZeroDivisionError
        return [str(number) if number > 0 else ValueError(number) for number in numbers]


def test_items_of_one_loop_iteration_share_a_commit() -> None:
    commits = Commits()

    async def add_all() -> list[str]:
        batcher = AsyncBatcher[int, str](commits)
        return await asyncio.gather(*(batcher.add(number) for number in range(1, 6)))

    assert asyncio.run(add_all()) == ["1", "2", "3", "4", "5"]
    assert commits.batches == [[1, 2, 3, 4, 5]]


def test_items_that_arrive_during_a_commit_form_the_next() -> None:
    commits = Commits(seconds=0.05)

    async def add_all() -> None:
        batcher = AsyncBatcher[int, str](commits)
        first = asyncio.create_task(batcher.add(1))
        await asyncio.sleep(0.01)
        later = [asyncio.create_task(batcher.add(number)) for number in (2, 3)]
        assert await asyncio.gather(first, *later) == ["1", "2", "3"]
        assert await batcher.add(4) == "4"

    asyncio.run(add_all())
    assert commits.batches == [[1], [2, 3], [4]]


def test_item_that_fails_does_not_affect_others() -> None:
    async def add_all() -> list[str | BaseException]:
        batcher = AsyncBatcher[int, str](Commits())
        return await asyncio.gather(*(batcher.add(number) for number in (1, -2, 3)), return_exceptions=True)

    first, second, third = asyncio.run(add_all())
    assert (first, third) == ("1", "3")
    assert isinstance(second, ValueError)


def test_failed_commit_fails_its_batch_and_not_the_next() -> None:
    async def add_all() -> None:
        batcher = AsyncBatcher[int, str](Commits())
        outcomes = await asyncio.gather(*(batcher.add(number) for number in (1, 0)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError] * 2
        assert batcher.pending_weight == 0
        assert await batcher.add(7) == "7"

    asyncio.run(add_all())


def test_commit_that_cannot_start_fails_its_batch() -> None:
    def refuse(_numbers: Sequence[int]) -> asyncio.Future[list[str | Exception]]:
        raise RuntimeError("the executor was shut down")

    async def add_one() -> None:
        with pytest.raises(RuntimeError, match="shut down"):
            await asyncio.wait_for(AsyncBatcher[int, str](refuse).add(1), 5)

    asyncio.run(add_one())


def test_batch_takes_items_until_it_has_reached_its_weight() -> None:
    commits = Commits()

    async def add_all() -> None:
        batcher = AsyncBatcher[int, str](commits, weigh=lambda number: number, max_batch_weight=10)
        pending = [asyncio.create_task(batcher.add(number)) for number in (4, 5, 6, 20, 1)]
        await asyncio.sleep(0)
        assert batcher.pending_weight == 36
        await asyncio.gather(*pending)
        assert batcher.pending_weight == 0

    asyncio.run(add_all())
    assert commits.batches == [[4, 5, 6], [20], [1]]


def test_batcher_gathers_items_between_commits() -> None:
    batches, pauses = list[list[int]](), list[tuple[float, int]]()

    def pause(commit_seconds: float, waiting: int) -> float:
        pauses.append((commit_seconds, waiting))
        return 0.1

    async def add_all() -> None:
        may_end = asyncio.Event()

        async def commit(numbers: Sequence[int]) -> list[str | Exception]:
            batches.append(list(numbers))
            await may_end.wait()
            return [str(number) for number in numbers]

        batcher = AsyncBatcher[int, str](commit, get_pause_seconds=pause)
        pending = [asyncio.create_task(batcher.add(1))]
        while not batches:
            await asyncio.sleep(0)
        pending.append(asyncio.create_task(batcher.add(2)))
        await asyncio.sleep(0.02)
        may_end.set()
        while not pauses:
            await asyncio.sleep(0)
        pending.append(asyncio.create_task(batcher.add(3)))
        await asyncio.gather(*pending)

    asyncio.run(asyncio.wait_for(add_all(), 60))
    assert batches == [[1], [2, 3]]
    [(seconds, waiting)] = pauses
    assert seconds >= 0.015
    assert waiting == 1


def test_canceled_item_does_not_affect_others() -> None:
    async def add_all() -> None:
        batcher = AsyncBatcher[int, str](Commits())
        canceled, other = (asyncio.create_task(batcher.add(number)) for number in (1, 2))
        await asyncio.sleep(0)
        canceled.cancel()
        assert await other == "2"
        assert await batcher.add(3) == "3"

    asyncio.run(add_all())


def test_batcher_works_again_in_a_new_loop_after_a_commit_was_canceled() -> None:
    commits = Commits(seconds=30)
    batcher = AsyncBatcher[int, str](commits)

    async def leave_early() -> None:
        asyncio.create_task(batcher.add(1))  # noqa: RUF006
        await asyncio.sleep(0.01)

    asyncio.run(leave_early())
    commits.running, commits.seconds = 0, 0
    assert asyncio.run(asyncio.wait_for(batcher.add(2), 5)) == "2"
    assert batcher.pending_weight == 0
