"""Retries with exponential backoff while a forge's API or git server is unavailable."""

import time
from collections.abc import Callable
from typing import TypeVar

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
    give_up_at = min(deadline, time.monotonic() + MAX_WAIT_SECONDS)
    backoff = INITIAL_BACKOFF_SECONDS
    while True:
        try:
            return action()
        except RepositoryUnavailable as failure:
            last_failure = failure
            delay = max(backoff, last_failure.retry_after or 0.0)
            if time.monotonic() + delay > give_up_at:
                retry_hint = f" The forge asks to wait {delay:.0f} s." if last_failure.retry_after else ""
                raise ForgeRefused(f"{last_failure} Copydesk retried until it ran out of time.{retry_hint}",
                                   Reason.REPOSITORY_ERROR) from None  # fmt: skip
        pause(delay, str(last_failure))
        backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
