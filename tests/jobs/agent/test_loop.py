"""The loop with a model that is stuck, finishes too early, or receives findings; and resumed in between."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.agent.brief import Brief
from copydesk.jobs.agent.budget import Budget
from copydesk.jobs.agent.conversation import Conversation, Model, ModelFailed, Prompt, Reply, ToolResults
from copydesk.jobs.agent.loop import AgentLoop
from copydesk.jobs.agent.mechanic import Mechanic
from copydesk.jobs.agent.models.language_model import LanguageModel
from copydesk.jobs.agent.models.providers import create_client
from copydesk.jobs.agent.tools import CheckTools, Finished
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.execution.queue import Queue, QueueLimits
from copydesk.jobs.job import JobFailed, Reason, Usage
from copydesk.jobs.service import NewJob
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.conftest import MakeWorkspace
from tests.support import migrated_databases
from tests.support.model_server import ModelServer, call
from tests.support.repositories import make_repository
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish

FILES = {"page.md": b"# Page\n\nThe colour.\n", "AGENTS.md": b"Be brief.\n"}


class LoopBench:
    """A claimed job with an editor; each `edited` is a new attempt, as after a crash."""

    def __init__(self, desk: Desk, workspace: MakeWorkspace, prompt: str) -> None:
        self.desk, self.new_workspace = desk, workspace
        project = desk.projects.create(
            "Docs", repository=str(desk.settings.data / "docs.git"), ref="main", actor="test"
        )
        self.job = desk.jobs.create(project, NewJob(prompt)).job
        self.queue = Queue(desk.database, QueueLimits(60_000, 4, 100))

    def run_editor(self, model: Model, **options: Any) -> tuple[Finished, Workspace]:
        claim = self.queue.claim("bench")
        assert claim is not None
        workspace = self.new_workspace(FILES)
        attempt, budget = Attempt(claim, 60), Budget(requests=20, tokens=100_000, cost_usd=1)
        editor = AgentLoop(model, Journal(self.desk.database, claim), attempt, budget, workspace.tree, **options)
        try:
            finished = editor.run(workspace)
            assert isinstance(finished, Finished)
            return finished, workspace
        finally:
            self.queue.release("bench", [claim.run_id])

    @property
    def usage(self) -> Usage:
        return self.desk.jobs.get(self.job.project_id, self.job.id).usage


@pytest.fixture
def new_bench(tmp_path: Path, workspace: MakeWorkspace) -> Iterator[Callable[[str], LoopBench]]:
    desk = open_desk(Settings(data=tmp_path, database_url=migrated_databases.new_sqlite(tmp_path)))
    make_repository(tmp_path / "docs.git", FILES)
    yield lambda prompt: LoopBench(desk, workspace, prompt)
    desk.close()


@pytest.fixture
def bench(new_bench: Callable[[str], LoopBench]) -> LoopBench:
    return new_bench("Spell color so.")


def test_a_run_opens_one_client_for_its_model_and_closes_it(bench: LoopBench) -> None:
    with ModelServer([call("read", {"path": "page.md"}), call("finish", {"title": "T", "summary": "S"})]) as server:
        made = []

        def connect() -> Any:
            made.append(create_client("openai-compatible:scripted", server.url, None))
            return made[-1]

        bench.run_editor(LanguageModel("openai-compatible:scripted", connect))
        assert server.wait_until_disconnected()
    assert (len(server.requests), len(made)) == (2, 1)


WORDS = Reply(text="All done.\nReally.")
FIX: Turn = edit("page.md", "colour", "color")


def test_text_after_a_change_gets_a_reminder_to_call_finish(bench: LoopBench) -> None:
    model = ScriptedModel([FIX, WORDS, finish("Spelling")])
    finished, _ = bench.run_editor(model)
    assert finished.title == "Spelling"
    assert isinstance(nudge := model.requests[-1][-1], Prompt)
    assert "call finish" in nudge.text


def test_repeated_text_without_finish_becomes_the_summary(bench: LoopBench) -> None:
    finished, workspace = bench.run_editor(ScriptedModel([FIX, WORDS, WORDS]))
    assert (finished.title, finished.summary) == ("All done.", WORDS.text)
    assert list(workspace.changes()) == ["page.md"]


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        (WORDS, "answered with text only and called no tool"),
        (Reply(), "returned empty answers"),
        (calls(("shell", {"command": "ls"})), "called tools that do not exist"),
        (calls(("read", {"file": "page.md"})), "called tools with invalid arguments"),
    ],
    ids=["words", "nothing", "unknown tool", "misfit"],
)
def test_a_model_that_stays_stuck_ends_the_job_with_a_reason(bench: LoopBench, turn: Reply, said: str) -> None:
    model = ScriptedModel([turn] * 9)
    with pytest.raises(JobFailed, match=f"The model {said}, 3 turns in a row") as failed:
        bench.run_editor(model)
    assert failed.value.reason is Reason.MODEL_ERROR
    assert len(model.requests) == 3


def test_stuck_model_gets_the_same_advice_after_a_resume(bench: LoopBench) -> None:
    stops = RuntimeError("the process is gone")
    heard: list[Conversation] = []

    def dies(conversation: Conversation, _workspace: Workspace) -> Reply:
        heard.append(conversation)
        if len(heard) == 1:
            raise stops
        return finish()

    script: list[Turn] = [Reply(), calls(("shell", {})), dies]
    with pytest.raises(RuntimeError):
        bench.run_editor(ScriptedModel(script))
    bench.run_editor(ScriptedModel(script))
    assert heard[0] == heard[1]
    assert any("[Copydesk]" in str(entry) for entry in heard[1])


def test_finish_next_to_a_refused_call_is_ignored(bench: LoopBench) -> None:
    both = calls(("delete", {"path": "gone.md"}), ("finish", {"title": "Too soon", "summary": ""}))
    finished, _ = bench.run_editor(ScriptedModel([both, finish("Now")]))
    assert finished.title == "Now"


class ScriptedReview:
    """Reports findings a number of times."""

    def __init__(self, times: int) -> None:
        self.times, self.seen = times, 0

    def __call__(self, workspace: Workspace, _finished: Finished, _conversation: Conversation) -> str | None:
        self.seen += 1
        return f"page.md line 3: fault {self.seen}" if self.seen <= self.times else None


def test_findings_are_the_result_of_finish_and_work_continues(bench: LoopBench) -> None:
    model = ScriptedModel([FIX, finish("First"), edit("page.md", "# Page", "# A page"), finish("Second")])
    finished, workspace = bench.run_editor(model, review=ScriptedReview(1))
    assert finished.title == "Second"
    assert workspace.read("page.md") == b"# A page\n\nThe color.\n"
    answered = model.requests[2][-1]
    assert isinstance(answered, ToolResults)
    assert (answered.results[0].ok, answered.results[0].text) == (False, "page.md line 3: fault 1")


def test_finish_is_accepted_after_three_rounds_of_findings(bench: LoopBench) -> None:
    review = ScriptedReview(99)
    finished, _ = bench.run_editor(ScriptedModel([FIX, *(finish(f"Try {n}") for n in range(1, 9))]), review=review)
    assert (finished.title, review.seen) == ("Try 4", 3)


def test_recorded_review_is_not_repeated(bench: LoopBench) -> None:
    class Gone(Exception):
        pass

    def dies(_conversation: Conversation, _workspace: Workspace) -> Reply:
        raise Gone

    review = ScriptedReview(99)
    with pytest.raises(Gone):
        bench.run_editor(ScriptedModel([FIX, finish("Try 1"), finish("Try 2"), dies]), review=review)
    assert review.seen == 2
    finished, workspace = bench.run_editor(ScriptedModel([dies, dies, dies, *[finish("Again")] * 5]), review=review)
    assert (finished.title, review.seen) == ("Again", 3)
    assert workspace.read("page.md") == b"# Page\n\nThe color.\n"


def test_empty_reply_to_findings_accepts_the_earlier_finish(bench: LoopBench) -> None:
    finished, _ = bench.run_editor(ScriptedModel([FIX, finish("First"), Reply()]), review=ScriptedReview(99))
    assert finished.title == "First"


def test_mechanic_does_not_loop_on_findings(new_bench: Callable[[str], LoopBench]) -> None:
    finished, workspace = new_bench('Replace "colour" with "color"').run_editor(Mechanic(), review=ScriptedReview(99))
    assert "color" in finished.title
    assert workspace.changes()


def test_check_is_offered_as_a_tool(bench: LoopBench) -> None:
    model = ScriptedModel([calls(("check", {})), finish()])
    bench.run_editor(model, checks=CheckTools(lambda workspace, _query: f"{len(workspace.changes())} findings"))
    answered = model.requests[1][-1]
    assert isinstance(answered, ToolResults)
    assert answered.results[0].text == "0 findings"


def test_check_tool_is_absent_without_a_check(bench: LoopBench) -> None:
    model = ScriptedModel([calls(("check", {})), finish()])
    bench.run_editor(model)
    assert "There is no tool check" in str(model.requests[1][-1])


def test_cost_of_a_failed_request_is_on_the_job(bench: LoopBench) -> None:
    def fails(_conversation: Conversation, _workspace: Workspace) -> Reply:
        raise ModelFailed("It is away.", Usage(requests=2, input_tokens=30))

    with pytest.raises(JobFailed, match="It is away"):
        bench.run_editor(ScriptedModel([FIX, fails]))
    assert bench.usage == Usage(requests=3, input_tokens=40, output_tokens=5)


class BriefedModel(ScriptedModel):
    """A model that accepts a brief about the repository."""

    def with_brief(self, brief: Brief) -> Model:
        self.brief = brief
        return self


def test_model_gets_a_brief_of_repository_tools_and_deadline(bench: LoopBench) -> None:
    model = BriefedModel([finish()])
    bench.run_editor(model, checks=CheckTools(lambda _workspace, _query: ""))
    assert "| Be brief." in model.brief.overview
    assert "check" in [tool.name for tool in model.brief.tools]
    assert model.brief.deadline < float("inf")
