"""Waiting for a forge, its API or its git, that is away: a job is delayed, not lost."""

import time
from collections.abc import Callable
from typing import TypeVar

from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused, RepositoryUnavailable

T = TypeVar("T")
Pause = Callable[[float, str], None]
"""Waits this many seconds for this reason, or raises when the job is to stop."""

INITIAL_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 60.0
MAX_WAIT_SECONDS = 25 * 60.0


def retry_while_unavailable(action: Callable[[], T], pause: Pause, deadline: float) -> T:
    """Acts until the forge answers. `act` must look before it changes anything: the last try may have done its work.

    The deadline is in the time of `time.monotonic`. A wait that the forge asks for is kept, but never beyond it.
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
                retry_hint = f" It asks to wait {delay:.0f} s." if last_failure.retry_after else ""
                raise ForgeRefused(f"{last_failure} It was waited for as long as the job may take.{retry_hint}",
                                   Reason.REPOSITORY_ERROR) from None  # fmt: skip
        pause(delay, str(last_failure))
        backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
