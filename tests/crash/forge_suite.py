"""The crash matrix on remote forges: one pull request, for every kill at every point."""

import os
import signal
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.crash.harness import AFTER_FOLLOW_UP, KILLING, killing_git
from tests.crash.remote import MOMENTS, OPENING, UPDATING, RemoteCase, new_remote_case

POINTS = (
    *(f"pin:{moment}" for moment in ("middle", "acted", "recorded")),
    "commit:recorded",
    *(f"{step}:{moment}" for step in ("push", "open") for moment in ("before", "acted", "inside", "recorded")),
    "settle:inside",
)
FOLLOW_UP_POINTS = ("pin:recorded", "push:before", "push:acted", "open:before", "open:acted", "open:inside")
PAIRS = ("push:acted, open:acted", "open:acted, open:acted", "open:acted, open:inside")


def on_each_forge(points: Collection[str], *, but: Collection[str] = ()) -> list[Any]:
    """Parametrizes by forge and point: all with --all, few by default."""
    assert set(but) <= set(points)
    return [
        pytest.param(kind, point, marks=() if point in but else pytest.mark.drill)
        for kind in OPENING
        for point in points
    ]


def with_each_call(
    calls: dict[str, tuple[str, ...]], *, moments: Collection[str] = MOMENTS, but: Collection[tuple[str, str]] = ()
) -> list[Any]:
    return [
        pytest.param(
            kind, n, moment, id=f"{kind}-{name}-{moment}", marks=() if (name, moment) in but else pytest.mark.drill
        )
        for kind, names in calls.items()
        for n, name in enumerate(names)
        for moment in moments
    ]


class ForgeCrashes:
    database: ClassVar[str]

    @pytest.fixture
    def case(self, kind: str, tmp_path: Path) -> Iterator[RemoteCase]:
        with new_remote_case(kind, self.database, tmp_path) as case:
            yield case

    @pytest.fixture
    def followed_up(self, case: RemoteCase) -> RemoteCase:
        """A completed job with a message that no worker has seen yet."""
        case.recover()
        case.check_published()
        case.send_message()
        return case

    @pytest.mark.parametrize(("kind", "point"), on_each_forge(POINTS, but=("open:acted",)))
    def test_next_worker_finishes_the_job_of_a_killed_one(self, case: RemoteCase, point: str) -> None:
        case.crash(point)
        case.recover()
        case.check_published()
        assert case.asked == {0: 1, 1: 1}

    @pytest.mark.parametrize(("kind", "call", "moment"), with_each_call(OPENING, but=[("open", "done")]))
    def test_a_worker_killed_in_mid_call_opens_one_pull_request(self, case: RemoteCase, call: int, moment: str) -> None:
        case.strike(call, moment)
        case.crash()
        case.recover()
        case.check_published()

    @pytest.mark.parametrize(("kind", "moment"), on_each_forge(KILLING))
    def test_a_worker_killed_in_mid_push_opens_one_pull_request(self, case: RemoteCase, moment: str) -> None:
        case.crash(git=killing_git(case, moment))
        case.recover()
        if moment in ("during", "long before"):  # git outlives its worker
            case.wait_for_line("git ended")
        case.check_published()

    @pytest.mark.parametrize(("kind", "point"), on_each_forge(FOLLOW_UP_POINTS))
    def test_a_follow_up_updates_the_same_pull_request(self, followed_up: RemoteCase, point: str) -> None:
        followed_up.crash(point)
        followed_up.recover()
        followed_up.check_published(commits=2, files=AFTER_FOLLOW_UP)

    @pytest.mark.parametrize(("kind", "call", "moment"), with_each_call(UPDATING))
    def test_a_follow_up_killed_in_mid_call_updates_the_same_pull_request(
        self, followed_up: RemoteCase, call: int, moment: str
    ) -> None:
        followed_up.strike(call, moment)
        followed_up.crash()
        followed_up.recover()
        followed_up.check_published(commits=2, files=AFTER_FOLLOW_UP)

    @pytest.mark.parametrize(("kind", "points"), on_each_forge(PAIRS))
    def test_a_third_worker_finishes_when_the_second_is_killed_as_well(self, case: RemoteCase, points: str) -> None:
        for point in points.split(", "):
            case.crash(point)
        case.recover()
        case.check_published()

    @pytest.mark.parametrize(("kind", "call", "moment"), with_each_call(OPENING, moments=("received",)))
    def test_worker_resumed_in_mid_call_opens_no_second_pull_request(
        self, case: RemoteCase, call: int, moment: str
    ) -> None:
        """The worker's call reaches the forge after another worker has published the job."""
        released = case.hold(call, moment)
        paused = case.start()
        case.wait_for_line(f"held {call}")
        case.recover()
        assert paused.pid is not None
        os.kill(paused.pid, signal.SIGCONT)
        released.set()
        case.wait_for_line("left 1")
        case.check_published()

    @pytest.mark.drill
    @pytest.mark.parametrize("kind", OPENING)
    def test_matrix_covers_every_forge_call(self, case: RemoteCase, kind: str) -> None:
        case.listen()
        case.recover()
        assert len(case.called) == len(OPENING[kind])
        case.called.clear()
        case.send_message()
        case.recover()
        assert len(case.called) == len(UPDATING[kind])
