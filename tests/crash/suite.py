"""The crash matrix: a worker is killed (kill -9) at every point of a job, and the next one finishes it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.crash.harness import AFTER_FOLLOW_UP, KILLING, SCRIPT, Case, killing_git, new_case, wait_until
from tests.support.drills import drills
from tests.support.model_server import ModelServer, Request, Said, call, together

STEPS = ("pin", "turn-1-reply", "turn-1-acts", "turn-2-reply", "turn-2-acts", "commit")
RECORDS = ("turn-1-inbox", "thinking", "publishing", "open", "settle")
POINTS = (
    "claim:inside",
    *(f"{step}:{moment}" for step in STEPS for moment in ("before", "middle", "acted", "inside", "recorded")),
    *(f"push:{moment}" for moment in ("before", "acted", "inside", "recorded")),
    *(f"{record}:{moment}" for record in RECORDS for moment in ("before", "inside", "recorded")),
)
FOLLOW_UP_POINTS = ("pin:recorded", "turn-1-inbox:inside", "turn-1-reply:recorded", "commit:recorded",
                    *(f"push:{moment}" for moment in ("before", "acted", "inside", "recorded")),
                    *(f"open:{moment}" for moment in ("before", "inside", "recorded")))  # fmt: skip
PAIRS = (
    "turn-1-reply:recorded, push:acted",
    "turn-1-acts:middle, turn-2-reply:middle",
    "push:acted, open:inside",
    "push:inside, push:acted",
    "open:recorded, settle:inside",
)


class Crashes:
    database: ClassVar[str]

    @pytest.fixture
    def case(self, tmp_path: Path) -> Iterator[Case]:
        with new_case(self.database, tmp_path) as case:
            case.create()
            yield case

    @pytest.fixture
    def followed_up(self, case: Case) -> Case:
        """A completed job with a message that no worker has seen yet."""
        case.recover()
        case.check_published()
        case.send_message()
        return case

    @pytest.fixture
    def model_server(self) -> Iterator[ModelServer]:
        with ModelServer(_as_said(), by_turn=True) as server:
            yield server

    @pytest.fixture
    def remote(self, tmp_path: Path, model_server: ModelServer) -> Iterator[Case]:
        """A job whose model is on an HTTP server."""
        with new_case(self.database, tmp_path, model="openai-compatible:scripted", model_url=model_server.url) as case:
            case.script, case.model = None, "openai-compatible:scripted"
            case.create()
            yield case

    @pytest.mark.parametrize("point", drills(POINTS, but=("open:inside",)))
    def test_next_worker_finishes_the_job_of_a_killed_one(self, case: Case, point: str) -> None:
        case.crash(point)
        asked, answered = case.asked, case.answered
        case.recover()
        case.check_published()
        assert case.asked == _asked_again(asked, answered)

    @pytest.mark.parametrize("moment", drills(KILLING, but=("during",)))
    def test_a_worker_killed_in_mid_push_opens_one_pull_request(self, case: Case, moment: str) -> None:
        case.crash(git=killing_git(case, moment))
        case.recover()
        if moment in ("during", "long before"):  # git outlives its worker
            case.wait_for_line("git ended")
        case.check_published()
        assert case.asked == {0: 1, 1: 1}

    @pytest.mark.parametrize("turn", drills((0, 1), but=(1,)))
    def test_worker_killed_in_mid_model_call_repeats_only_that_call(
        self, remote: Case, model_server: ModelServer, turn: int
    ) -> None:
        def kill(request: Request) -> None:
            if request.turn == turn:
                wait_until(lambda: len(remote.workers) == 1, "the worker's number")
                remote.workers[0].kill()

        model_server.on_request = kill
        remote.crash()
        model_server.on_request = None
        remote.recover()
        remote.check_published()
        assert _requests(model_server) == {0: 1, 1: 1, turn: 2}

    @pytest.mark.drill
    @pytest.mark.parametrize(
        ("point", "asked"),
        [
            ("turn-1-reply:acted", {0: 2, 1: 1}),
            ("turn-1-reply:recorded", {0: 1, 1: 1}),
            ("turn-2-reply:acted", {0: 1, 1: 2}),
            ("turn-2-reply:recorded", {0: 1, 1: 1}),
        ],
    )
    def test_recorded_reply_is_not_requested_again(
        self, remote: Case, model_server: ModelServer, point: str, asked: dict[int, int]
    ) -> None:
        remote.crash(point)
        remote.recover()
        remote.check_published()
        assert _requests(model_server) == asked

    @pytest.mark.parametrize("point", drills(FOLLOW_UP_POINTS, but=("push:acted",)))
    def test_a_follow_up_updates_the_same_pull_request(self, followed_up: Case, point: str) -> None:
        link = followed_up.job.pr_link
        followed_up.crash(point)
        asked, answered = followed_up.asked, followed_up.answered
        followed_up.recover()
        followed_up.check_published(commits=2, files=AFTER_FOLLOW_UP)
        assert followed_up.job.pr_link == link
        assert followed_up.asked == _asked_again(asked, answered, replies=4)

    @pytest.mark.drill
    @pytest.mark.parametrize("moment", KILLING)
    def test_a_follow_up_killed_in_mid_push_stays_on_its_branch(self, followed_up: Case, moment: str) -> None:
        followed_up.crash(git=killing_git(followed_up, moment))
        followed_up.recover()
        if moment in ("during", "long before"):
            followed_up.wait_for_line("git ended")
        followed_up.check_published(commits=2, files=AFTER_FOLLOW_UP)

    @pytest.mark.parametrize("points", drills(PAIRS, but=("push:acted, open:inside",)))
    def test_a_third_worker_finishes_when_the_second_is_killed_as_well(self, case: Case, points: str) -> None:
        first, second = points.split(", ")
        case.crash(first)
        asked, answered = case.asked, case.answered
        case.crash(second)
        case.recover()
        case.check_published()
        assert all(case.asked[turn] == asked[turn] for turn in range(answered))


def _asked_again(asked: Counter[int], answered: int, replies: int = 2) -> dict[int, int]:
    """Returns the expected requests: unchanged for replies in the journal, one more for each other reply."""
    return {turn: asked[turn] + (turn >= answered) for turn in range(replies)}


def _as_said() -> list[Said]:
    """Returns the script as answers of an OpenAI-compatible server."""
    return [together(*(call(made.name, dict(made.arguments)) for made in reply.calls)) for reply in SCRIPT]


def _requests(server: ModelServer) -> Counter[int]:
    return Counter(request.turn for request in server.requests)
