"""An unavailable forge delays a job, and does not end it."""

import time

import pytest

from copydesk.jobs.job import Reason
from copydesk.jobs.publish.errors import ForgeRefused, ForgeUnavailable
from copydesk.jobs.publish.forge_retry import MAX_BACKOFF_SECONDS, retry_while_unavailable


class FlakyForge:
    """Unavailable a number of times, then available."""

    def __init__(self, times: int, retry_after: float | None = None) -> None:
        self.times, self.retry_after = times, retry_after
        self.pauses: list[float] = []

    def act(self) -> str:
        if len(self.pauses) < self.times:
            raise ForgeUnavailable("The forge is away.", self.retry_after)
        return "done"

    def pause(self, seconds: float, why: str) -> None:
        assert why == "The forge is away."
        self.pauses.append(seconds)


def distant_deadline() -> float:
    return time.monotonic() + 3600


def test_backoff_grows_up_to_a_minute() -> None:
    forge = FlakyForge(9)
    assert retry_while_unavailable(forge.act, forge.pause, distant_deadline()) == "done"
    assert forge.pauses == [1, 2, 4, 8, 16, 32, MAX_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS]


def test_a_forge_that_is_down_for_ten_minutes_is_waited_for() -> None:
    forge = FlakyForge(14)
    retry_while_unavailable(forge.act, forge.pause, distant_deadline())
    assert sum(forge.pauses) >= 540


def test_retry_after_of_the_forge_is_honored() -> None:
    forge = FlakyForge(2, retry_after=90)
    retry_while_unavailable(forge.act, forge.pause, distant_deadline())
    assert forge.pauses == [90, 90]


def test_no_wait_goes_beyond_the_deadline() -> None:
    forge = FlakyForge(99, retry_after=90)
    with pytest.raises(ForgeRefused, match=r"The forge is away\. .*asks to wait 90 s") as refused:
        retry_while_unavailable(forge.act, forge.pause, time.monotonic() + 60)
    assert refused.value.reason is Reason.REPOSITORY_ERROR
    assert forge.pauses == []


def test_refusal_is_not_retried() -> None:
    calls = []

    def act() -> None:
        calls.append(1)
        raise ForgeRefused("No.")

    with pytest.raises(ForgeRefused, match="No"):
        retry_while_unavailable(act, lambda _seconds, _why: None, distant_deadline())
    assert len(calls) == 1


def test_stop_ends_the_wait() -> None:
    class Stopped(Exception):
        pass

    def pause(_seconds: float, _why: str) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        retry_while_unavailable(FlakyForge(1).act, pause, distant_deadline())
