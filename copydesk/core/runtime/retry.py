"""Retries an action after transient errors, with backoff, until a deadline."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


class DeadlineTooNear(Exception):
    """The next attempt would come after the deadline."""

    def __init__(self, error: Exception, wait_seconds: float, seconds_left: float) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait_seconds = wait_seconds
        self.seconds_left = seconds_left


def exponential_delays(initial_seconds: float, max_seconds: float) -> Iterator[float]:
    """Yields delays that double up to a maximum, without end."""
    delay = initial_seconds
    while True:
        yield delay
        delay = min(2 * delay, max_seconds)


class Backoff(Generic[E]):
    """Decides after each failed attempt whether to try again, and when. Serves one series of attempts."""

    def __init__(
        self,
        delays: Iterable[float],
        *,
        deadline: float = inf,
        jitter: float = 0.0,
        is_transient: Callable[[E], bool] = lambda error: True,
        adjust_delay: Callable[[E, float], float] = lambda error, delay: delay,
    ) -> None:
        """`delays` has the seconds before each retry, and so one item less than there may be attempts.

        `deadline` is in the time of `time.monotonic`. `jitter` is the largest share by which a delay is varied, so that
        workers do not retry all at once. `adjust_delay` can use the delay that the other side asks for (Retry-After).
        """
        self._delays = iter(delays)
        self._deadline = deadline
        self._jitter = jitter
        self._is_transient = is_transient
        self._adjust_delay = adjust_delay

    def next_delay(self, error: E) -> float:
        """Returns the seconds to wait before the next attempt.

        Raises the error if it is permanent or if no attempt is left, and DeadlineTooNear if the wait takes too long.
        """
        delay = next(self._delays, None) if self._is_transient(error) else None
        if delay is None:
            raise error
        varied_delay = delay * random.uniform(1 - self._jitter, 1 + self._jitter)  # noqa: S311 (not a secret)
        wait_seconds = self._adjust_delay(error, varied_delay)
        seconds_left = self._deadline - time.monotonic()
        if wait_seconds >= seconds_left:
            raise DeadlineTooNear(error, wait_seconds, seconds_left)
        return wait_seconds


def retry(
    action: Callable[[], T],
    error_type: type[E],
    backoff: Backoff[E],
    pause: Callable[[float, E], object] = lambda seconds, error: time.sleep(seconds),
) -> T:
    """Calls `action` until it succeeds, and returns its result. Raises what `Backoff.next_delay` raises.

    `pause` waits before the next attempt. It can raise to cancel the retries.
    """
    while True:
        try:
            return action()
        except error_type as error:
            last_error = error
            delay = backoff.next_delay(error)
        pause(delay, last_error)


async def retry_async(action: Callable[[], Awaitable[T]], error_type: type[E], backoff: Backoff[E]) -> T:
    """Does the same as `retry` in an event loop. Cancelling the task cancels the retries."""
    while True:
        try:
            return await action()
        except error_type as error:
            delay = backoff.next_delay(error)
        await asyncio.sleep(delay)
