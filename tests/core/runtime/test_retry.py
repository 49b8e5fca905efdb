"""Transient errors are retried with backoff, until no attempt or no time is left."""

import asyncio
import time
from itertools import islice

import pytest

from copydesk.core.runtime.retry import Backoff, DeadlineTooNear, exponential_delays, retry, retry_async


class Busy(Exception):
    def __init__(self, message: str = "busy", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Server:
    """Fails with these errors one after the other, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.pauses: list[float] = []

    def call(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    async def call_async(self) -> str:
        return self.call()

    def pause(self, seconds: float, error: Exception) -> None:
        self.pauses.append(seconds)


def test_action_is_repeated_with_the_given_delays_until_it_succeeds() -> None:
    server = Server(Busy(), Busy())
    assert retry(server.call, Busy, Backoff((1, 5, 9)), server.pause) == "answer"
    assert server.pauses == [1, 5]


def test_last_error_is_raised_when_no_attempt_is_left() -> None:
    server = Server(Busy("first"), Busy("second"), Busy("third"))
    with pytest.raises(Busy, match="third"):
        retry(server.call, Busy, Backoff((1, 2)), server.pause)
    assert server.calls == 3
    assert server.pauses == [1, 2]


def test_permanent_error_is_raised_at_once() -> None:
    server = Server(Busy("permanent"))
    with pytest.raises(Busy, match="permanent"):
        retry(server.call, Busy, Backoff((1, 2), is_transient=lambda error: str(error) == "busy"), server.pause)
    assert server.pauses == []


def test_errors_of_other_types_are_not_retried() -> None:
    server = Server(KeyError("other"))
    with pytest.raises(KeyError):
        retry(server.call, Busy, Backoff((1, 2)), server.pause)
    assert server.calls == 1


def test_delay_can_follow_the_one_that_the_server_asks_for() -> None:
    server = Server(Busy(retry_after=90), Busy())
    backoff = Backoff[Busy]((1, 2), adjust_delay=lambda error, delay: max(delay, error.retry_after or 0))
    retry(server.call, Busy, backoff, server.pause)
    assert server.pauses == [90, 2]


def test_wait_that_would_pass_the_deadline_is_not_begun() -> None:
    server = Server(Busy("slow"))
    with pytest.raises(DeadlineTooNear, match="slow") as raised:
        retry(server.call, Busy, Backoff((60,), deadline=time.monotonic() + 30), server.pause)
    assert isinstance(raised.value.error, Busy)
    assert raised.value.wait_seconds == 60
    assert 0 < raised.value.seconds_left <= 30
    assert server.pauses == []


def test_pause_can_cancel_the_retries() -> None:
    class Cancelled(Exception):
        pass

    def cancel(seconds: float, error: Exception) -> None:
        raise Cancelled

    server = Server(Busy(), Busy())
    with pytest.raises(Cancelled):
        retry(server.call, Busy, Backoff((1, 2)), cancel)
    assert server.calls == 1


def test_jitter_varies_each_delay_within_its_share() -> None:
    delays = [Backoff[Busy]((100,), jitter=0.25).next_delay(Busy()) for _ in range(200)]
    assert len(set(delays)) > 1
    assert all(75 <= delay <= 125 for delay in delays)


def test_exponential_delays_double_up_to_the_maximum() -> None:
    assert list(islice(exponential_delays(1, 10), 6)) == [1, 2, 4, 8, 10, 10]


def test_coroutines_are_retried_in_the_same_way() -> None:
    server = Server(Busy(), Busy())
    assert asyncio.run(retry_async(server.call_async, Busy, Backoff((0, 0)))) == "answer"
    with pytest.raises(DeadlineTooNear):
        asyncio.run(retry_async(Server(Busy()).call_async, Busy, Backoff((60,), deadline=time.monotonic())))


def test_cancelling_a_task_cancels_its_retries() -> None:
    server = Server(*(Busy() for _ in range(9)))

    async def cancel_during_the_wait() -> None:
        await asyncio.wait_for(retry_async(server.call_async, Busy, Backoff((60,))), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(cancel_during_the_wait())
    assert server.calls == 1
