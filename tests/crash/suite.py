"""The crash matrix: a worker is killed (kill -9) at every point of a job, and the next one finishes it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.crash.harness import (
    FILES_AFTER_FOLLOW_UP,
    KILL_COMMANDS,
    SCRIPT,
    CrashCase,
    open_case,
    wait_until,
    write_killing_git,
)
from tests.support.drills import mark_drills
from tests.support.model_server import ModelAnswer, ModelRequest, ModelServer, call, call_several

STEP_NAMES = ("pin", "turn-1-reply", "turn-1-acts", "turn-2-reply", "turn-2-acts", "commit")
RECORD_NAMES = ("turn-1-inbox", "thinking", "publishing", "open", "settle")
KILL_POINTS = (
    "claim:inside",
    *(f"{step}:{moment}" for step in STEP_NAMES for moment in ("before", "middle", "acted", "inside", "recorded")),
    *(f"push:{moment}" for moment in ("before", "acted", "inside", "recorded")),
    *(f"{record}:{moment}" for record in RECORD_NAMES for moment in ("before", "inside", "recorded")),
)
FOLLOW_UP_KILL_POINTS = ("pin:recorded", "turn-1-inbox:inside", "turn-1-reply:recorded", "commit:recorded",
                    *(f"push:{moment}" for moment in ("before", "acted", "inside", "recorded")),
                    *(f"open:{moment}" for moment in ("before", "inside", "recorded")))  # fmt: skip
KILL_POINT_PAIRS = (
    "turn-1-reply:recorded, push:acted",
    "turn-1-acts:middle, turn-2-reply:middle",
    "push:acted, open:inside",
    "push:inside, push:acted",
    "open:recorded, settle:inside",
)


class CrashSuite:
    database: ClassVar[str]

    @pytest.fixture
    def case(self, tmp_path: Path) -> Iterator[CrashCase]:
        with open_case(self.database, tmp_path) as case:
            case.create()
            yield case

    @pytest.fixture
    def case_with_message(self, case: CrashCase) -> CrashCase:
        """A completed job with a message that no worker has seen yet."""
        case.recover()
        case.check_published()
        case.send_message()
        return case

    @pytest.fixture
    def model_server(self) -> Iterator[ModelServer]:
        with ModelServer(_script_as_answers(), by_turn=True) as server:
            yield server

    @pytest.fixture
    def http_model_case(self, tmp_path: Path, model_server: ModelServer) -> Iterator[CrashCase]:
        """A job whose model is on an HTTP server."""
        with open_case(self.database, tmp_path, model="openai-compatible:scripted", model_url=model_server.url) as case:
            case.script, case.model = None, "openai-compatible:scripted"
            case.create()
            yield case

    @pytest.mark.parametrize("point", mark_drills(KILL_POINTS, default=("open:inside",)))
    def test_next_worker_finishes_the_job_of_a_killed_one(self, case: CrashCase, point: str) -> None:
        case.crash(point)
        asked, answered = case.requests_by_turn, case.count_recorded_replies
        case.recover()
        case.check_published()
        assert case.requests_by_turn == _expected_requests(asked, answered)

    @pytest.mark.parametrize("moment", mark_drills(KILL_COMMANDS, default=("during",)))
    def test_a_worker_killed_in_mid_push_opens_one_pull_request(self, case: CrashCase, moment: str) -> None:
        case.crash(git=write_killing_git(case, moment))
        case.recover()
        if moment in ("during", "long before"):  # git outlives its worker
            case.wait_for_line("git ended")
        case.check_published()
        assert case.requests_by_turn == {0: 1, 1: 1}

    @pytest.mark.parametrize("turn", mark_drills((0, 1), default=(1,)))
    def test_worker_killed_in_mid_model_call_repeats_only_that_call(
        self, http_model_case: CrashCase, model_server: ModelServer, turn: int
    ) -> None:
        def kill(request: ModelRequest) -> None:
            if request.turn == turn:
                wait_until(lambda: len(http_model_case.workers) == 1, "the worker's number")
                http_model_case.workers[0].kill()

        model_server.on_request = kill
        http_model_case.crash()
        model_server.on_request = None
        http_model_case.recover()
        http_model_case.check_published()
        assert _count_requests_by_turn(model_server) == {0: 1, 1: 1, turn: 2}

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
        self, http_model_case: CrashCase, model_server: ModelServer, point: str, asked: dict[int, int]
    ) -> None:
        http_model_case.crash(point)
        http_model_case.recover()
        http_model_case.check_published()
        assert _count_requests_by_turn(model_server) == asked

    @pytest.mark.parametrize("point", mark_drills(FOLLOW_UP_KILL_POINTS, default=("push:acted",)))
    def test_a_follow_up_updates_the_same_pull_request(self, case_with_message: CrashCase, point: str) -> None:
        link = case_with_message.job.pr_link
        case_with_message.crash(point)
        asked, answered = case_with_message.requests_by_turn, case_with_message.count_recorded_replies
        case_with_message.recover()
        case_with_message.check_published(commits=2, files=FILES_AFTER_FOLLOW_UP)
        assert case_with_message.job.pr_link == link
        assert case_with_message.requests_by_turn == _expected_requests(asked, answered, replies=4)

    @pytest.mark.drill
    @pytest.mark.parametrize("moment", KILL_COMMANDS)
    def test_a_follow_up_killed_in_mid_push_stays_on_its_branch(
        self, case_with_message: CrashCase, moment: str
    ) -> None:
        case_with_message.crash(git=write_killing_git(case_with_message, moment))
        case_with_message.recover()
        if moment in ("during", "long before"):
            case_with_message.wait_for_line("git ended")
        case_with_message.check_published(commits=2, files=FILES_AFTER_FOLLOW_UP)

    @pytest.mark.parametrize("points", mark_drills(KILL_POINT_PAIRS, default=("push:acted, open:inside",)))
    def test_a_third_worker_finishes_when_the_second_is_killed_as_well(self, case: CrashCase, points: str) -> None:
        first, second = points.split(", ")
        case.crash(first)
        asked, answered = case.requests_by_turn, case.count_recorded_replies
        case.crash(second)
        case.recover()
        case.check_published()
        assert all(case.requests_by_turn[turn] == asked[turn] for turn in range(answered))


def _expected_requests(requests: Counter[int], recorded: int, replies: int = 2) -> dict[int, int]:
    """Returns the expected requests: unchanged for replies in the journal, one more for each other reply."""
    return {turn: requests[turn] + (turn >= recorded) for turn in range(replies)}


def _script_as_answers() -> list[ModelAnswer]:
    """Returns the script as answers of an OpenAI-compatible server."""
    return [
        call_several(*(call(tool_call.name, dict(tool_call.arguments)) for tool_call in reply.calls))
        for reply in SCRIPT
    ]


def _count_requests_by_turn(server: ModelServer) -> Counter[int]:
    return Counter(request.turn for request in server.requests)
