"""Waiting for a forge, its API or its git, that is away: a job is delayed, not lost."""

import time
from collections.abc import Callable
from typing import TypeVar

from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused, RepositoryAway

T = TypeVar("T")
Pause = Callable[[float, str], None]
"""Waits this many seconds for this reason, or raises when the job is to stop."""

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
PATIENCE = 25 * 60.0


def patiently(act: Callable[[], T], pause: Pause, deadline: float) -> T:
    """Acts until the forge answers. `act` must look before it changes anything: the last try may have done its work.

    The deadline is in the time of `time.monotonic`. A wait that the forge asks for is kept, but never beyond it.
    """
    until = min(deadline, time.monotonic() + PATIENCE)
    wait = FIRST_PAUSE
    while True:
        try:
            return act()
        except RepositoryAway as failure:
            away = failure
            asked = max(wait, away.retry_after or 0.0)
            if time.monotonic() + asked > until:
                more = f" It asks to wait {asked:.0f} s." if away.retry_after else ""
                raise ForgeRefused(f"{away} It was waited for as long as the job may take.{more}",
                                   Reason.REPOSITORY_ERROR) from None  # fmt: skip
        pause(asked, str(away))
        wait = min(wait * 2, LONGEST_PAUSE)
