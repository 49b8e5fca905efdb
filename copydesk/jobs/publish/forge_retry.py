"""Retries with exponential backoff while a forge's API or git server is unavailable."""

import time
from collections.abc import Callable
from typing import TypeVar

from copydesk.core.runtime.retry import Backoff, DeadlineTooNear, exponential_delays, retry
from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused, RepositoryUnavailable

T = TypeVar("T")
Pause = Callable[[float, str], None]
"""Waits the given seconds for the given reason; raises when the job must stop."""

INITIAL_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 60.0
MAX_WAIT_SECONDS = 25 * 60.0


def retry_while_unavailable(action: Callable[[], T], pause: Pause, deadline: float) -> T:
    """Calls `action` until the forge responds, and returns its result.

    `action` must check the current state before it changes anything, because a failed attempt may have succeeded on the
    forge. Waits as long as the forge asks for, but raises ForgeRefused when that exceeds the deadline, which is in the
    time of `time.monotonic`.
    """
    backoff = Backoff[RepositoryUnavailable](
        exponential_delays(INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS),
        deadline=min(deadline, time.monotonic() + MAX_WAIT_SECONDS),
        adjust_delay=lambda failure, delay: max(delay, failure.retry_after or 0.0),
    )
    try:
        return retry(action, RepositoryUnavailable, backoff, lambda seconds, failure: pause(seconds, str(failure)))
    except DeadlineTooNear as exceeded:
        failure = exceeded.error
        assert isinstance(failure, RepositoryUnavailable)
        retry_hint = f" The forge asks to wait {exceeded.wait_seconds:.0f} s." if failure.retry_after else ""
        message = f"{failure} Copydesk retried until it ran out of time.{retry_hint}"
        raise ForgeRefused(message, Reason.REPOSITORY_ERROR) from None
