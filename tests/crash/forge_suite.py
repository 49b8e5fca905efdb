"""The crash matrix on remote forges: one pull request, for every kill at every point."""

import os
import signal
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from copydesk.jobs.job import COMPLETED, FAILED, Reason
from tests.crash.forge_case import CALL_MOMENTS, OPENING_CALLS, UPDATING_CALLS, ForgeCrashCase, open_forge_case
from tests.crash.harness import FILES_AFTER_FOLLOW_UP, KILL_COMMANDS, write_killing_git
from tests.support.forges.state import list_pull_commits

KILL_POINTS = (
    *(f"pin:{moment}" for moment in ("middle", "acted", "recorded")),
    "commit:recorded",
    *(f"{step}:{moment}" for step in ("push", "open") for moment in ("before", "acted", "inside", "recorded")),
    "settle:inside",
)
FOLLOW_UP_KILL_POINTS = ("pin:recorded", "push:before", "push:acted", "open:before", "open:acted", "open:inside")
KILL_POINT_PAIRS = ("push:acted, open:acted", "open:acted, open:acted", "open:acted, open:inside")


def for_each_forge(
    points: Collection[str], *, default: Collection[str] = (), default_kinds: Collection[str] = tuple(OPENING_CALLS)
) -> list[Any]:
    """Parametrizes by forge and point: all with --all, few by default."""
    assert set(default) <= set(points)
    return [
        pytest.param(kind, point, marks=() if point in default and kind in default_kinds else pytest.mark.drill)
        for kind in OPENING_CALLS
        for point in points
    ]


def for_each_call(
    calls: dict[str, tuple[str, ...]],
    *,
    moments: Collection[str] = CALL_MOMENTS,
    default: Collection[tuple[str, str]] = (),
) -> list[Any]:
    return [
        pytest.param(
            kind, n, moment, id=f"{kind}-{name}-{moment}", marks=() if (name, moment) in default else pytest.mark.drill
        )
        for kind, names in calls.items()
        for n, name in enumerate(names)
        for moment in moments
    ]


class ForgeCrashSuite:
    database: ClassVar[str]

    @pytest.fixture
    def case(self, kind: str, tmp_path: Path) -> Iterator[ForgeCrashCase]:
        with open_forge_case(kind, self.database, tmp_path) as case:
            yield case

    @pytest.fixture
    def case_with_message(self, case: ForgeCrashCase) -> ForgeCrashCase:
        """A completed job with a message that no worker has seen yet."""
        case.recover()
        case.check_published()
        case.send_message()
        return case

    @pytest.mark.parametrize(("kind", "point"), for_each_forge(KILL_POINTS, default=("open:acted",)))
    def test_next_worker_finishes_the_job_of_a_killed_one(self, case: ForgeCrashCase, point: str) -> None:
        case.crash(point)
        case.recover()
        case.check_published()
        assert case.requests_by_turn == {0: 1, 1: 1}

    @pytest.mark.parametrize(("kind", "call", "moment"), for_each_call(OPENING_CALLS, default=[("open", "done")]))
    def test_a_worker_killed_in_mid_call_opens_one_pull_request(
        self, case: ForgeCrashCase, call: int, moment: str
    ) -> None:
        case.kill_at_call(call, moment)
        case.crash()
        case.recover()
        case.check_published()

    @pytest.mark.parametrize(("kind", "moment"), for_each_forge(KILL_COMMANDS))
    def test_a_worker_killed_in_mid_push_opens_one_pull_request(self, case: ForgeCrashCase, moment: str) -> None:
        case.crash(git=write_killing_git(case, moment))
        case.recover()
        if moment in ("during", "long before"):  # git outlives its worker
            case.wait_for_line("git ended")
        case.check_published()

    @pytest.mark.parametrize(("kind", "point"), for_each_forge(FOLLOW_UP_KILL_POINTS))
    def test_a_follow_up_updates_the_same_pull_request(self, case_with_message: ForgeCrashCase, point: str) -> None:
        case_with_message.crash(point)
        case_with_message.recover()
        case_with_message.check_published(commits=2, files=FILES_AFTER_FOLLOW_UP)

    @pytest.mark.parametrize(("kind", "call", "moment"), for_each_call(UPDATING_CALLS))
    def test_a_follow_up_killed_in_mid_call_updates_the_same_pull_request(
        self, case_with_message: ForgeCrashCase, call: int, moment: str
    ) -> None:
        case_with_message.kill_at_call(call, moment)
        case_with_message.crash()
        case_with_message.recover()
        case_with_message.check_published(commits=2, files=FILES_AFTER_FOLLOW_UP)

    @pytest.mark.parametrize(
        ("kind", "point"),
        for_each_forge(
            ("push:before", "push:acted", "open:before"), default=("push:before",), default_kinds=("gitea",)
        ),
    )
    def test_a_follow_up_on_a_merged_pull_request_is_completed_only_if_the_merge_has_its_work(
        self, case_with_message: ForgeCrashCase, point: str
    ) -> None:
        """A person merges the pull request between the crash and the next worker."""
        case = case_with_message
        case.crash(point)
        case.fake.merge(1)
        case.recover()
        (pull,) = case.fake.pulls
        has_work = case.head in [str(commit.id) for commit in list_pull_commits(pull)]
        assert has_work == (point != "push:before")
        expected = (COMPLETED, None) if has_work else (FAILED, Reason.PUBLISH_REFUSED)
        assert (case.job.status, case.job.reason) == expected, case.job.message

    @pytest.mark.parametrize(("kind", "points"), for_each_forge(KILL_POINT_PAIRS))
    def test_a_third_worker_finishes_when_the_second_is_killed_as_well(self, case: ForgeCrashCase, points: str) -> None:
        for point in points.split(", "):
            case.crash(point)
        case.recover()
        case.check_published()

    @pytest.mark.parametrize(("kind", "call", "moment"), for_each_call(OPENING_CALLS, moments=("received",)))
    def test_worker_resumed_in_mid_call_opens_no_second_pull_request(
        self, case: ForgeCrashCase, call: int, moment: str
    ) -> None:
        """The worker's call reaches the forge after another worker has published the job."""
        released = case.pause_at_call(call, moment)
        paused = case.start()
        case.wait_for_line(f"held {call}")
        case.recover()
        assert paused.pid is not None
        os.kill(paused.pid, signal.SIGCONT)
        released.set()
        case.wait_for_line("left 1")
        case.check_published()

    @pytest.mark.drill
    @pytest.mark.parametrize("kind", OPENING_CALLS)
    def test_matrix_covers_every_forge_call(self, case: ForgeCrashCase, kind: str) -> None:
        case.record_calls()
        case.recover()
        assert len(case.recorded_calls) == len(OPENING_CALLS[kind])
        case.recorded_calls.clear()
        case.send_message()
        case.recover()
        assert len(case.recorded_calls) == len(UPDATING_CALLS[kind])
