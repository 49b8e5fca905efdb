"""The second look: another model objects to a finished change, once, and can never fail the job."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from copydesk.core.errors import InvalidRequest
from copydesk.jobs.checks.finding_queries import finding_id
from copydesk.jobs.projects.option_checks import validate_options
from copydesk.jobs.workspace.workspace import short_hash
from tests.crash.harness import open_case
from tests.support.model_server import Answer, ModelServer, call, fail, say
from tests.support.people import signed_in_client
from tests.support.repositories import make_repository, read_file
from tests.support.service import Service, serve

REVIEWER = "openai-compatible:reviewer"
PAGE = b"# Hello\n\nThe colour of things.\n\nAnother line.\n"
EDITED = PAGE.replace(b"colour", b"color")
AGENT = "openai-compatible:agent"


def edit(data: bytes, old: str, new: str) -> Answer:
    replacements = [{"old": old, "new": new}]
    return call("edit", {"path": "docs/index.md", "hash": short_hash(data), "replacements": replacements})


def finish(**more: Any) -> Answer:
    return call("finish", {"title": "Spelling", "summary": "One word.", **more})


def report(*objections: Any) -> Answer:
    return call("report", {"objections": list(objections)}, input_tokens=1000, output_tokens=7)


def objection(line: int = 3, text: str = "Things have no color.", path: str = "docs/index.md") -> dict[str, Any]:
    return {"path": path, "line": line, "text": text}


FIRST = (edit(PAGE, "colour", "color"), finish())


@dataclass
class Models:
    """Answers both models: the agent by the turn of its conversation, and the reviewer with one answer."""

    agent: tuple[Answer, ...]
    review: Answer
    agent_requests: list[dict[str, Any]] = field(default_factory=list)
    review_requests: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, body: dict[str, Any]) -> Answer:
        if body["model"] == "reviewer":
            self.review_requests.append(body)
            return self.review
        self.agent_requests.append(body)
        turn: int = sum(message["role"] == "assistant" for message in body["messages"])
        return self.agent[min(turn, len(self.agent) - 1)]


@contextmanager
def open_service(
    folder: Path,
    agent: tuple[Answer, ...],
    review: Answer,
    name: str = REVIEWER,
    **settings: Any,
) -> Iterator[tuple[Service, Models]]:
    models = Models(agent, review)
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    with (
        ModelServer(models.answer) as server,
        serve(folder / "data", repository=repository, models=(AGENT,), model_url=server.url, **settings) as service,
    ):
        service.desk.projects.change(service.project.id, {"review_model": name}, actor="test")
        yield service, models


def run_job(service: Service, **options: Any) -> Any:
    return service.client.wait(service.client.create_job("Spell color so.", **{"model": AGENT, **options})["id"])


def read_body(service: Service) -> str:
    return service.desk.pulls.list_for_project(service.project.id)[-1].body


@pytest.mark.deep
def test_objection_goes_back_once_and_a_fixed_one_does_not_remain(tmp_path: Path) -> None:
    agent = (*FIRST, edit(EDITED, "The color of things.", "The shade."), finish())
    with open_service(tmp_path, agent, report(objection())) as (service, models):
        job = run_job(service)
        assert job["status"] == "completed", job["message"]
        assert len(models.review_requests) == 1
        assert len(models.agent_requests) == 4
        [asked] = models.review_requests
        assert [tool["function"]["name"] for tool in asked["tools"]] == ["report"]
        text = json.dumps(asked["messages"])
        assert all(part in text for part in ("Spell color so.", "+The color of things.", "second reader"))
        assert "You edit the documentation" not in text
        assert "[look-1] docs/index.md:3 Things have no color." in json.dumps(models.agent_requests[2]["messages"])
        assert job["secondLook"] == {"model": REVIEWER, "total": 1, "objections": [], "note": None}
        assert f"**Second look** by `{REVIEWER}`: All objections were addressed." in read_body(service)
        assert b"The shade." in (read_file(service.repository, job["branch"], "docs/index.md") or b"")
        assert job["usage"]["requests"] == 5
        assert (job["usage"]["inputTokens"], job["usage"]["outputTokens"]) == (1400, 87)


@pytest.mark.deep
def test_objection_that_remains_is_shown_with_its_answer(tmp_path: Path) -> None:
    answer = {"id": "look-2", "reason": "It was asked for by @ada."}
    agent = (*FIRST, finish(intended=[answer]))
    objections = report(objection(text="Wrong, see #12."), objection(5, "Also <b>wrong</b>."))
    with open_service(tmp_path, agent, objections) as (service, _):
        job = run_job(service)
        first, second = job["secondLook"]["objections"]
        assert first == {"path": "docs/index.md", "line": 3, "text": "Wrong, see #12.", "answer": None}
        assert (second["line"], second["answer"]) == (5, "It was asked for by @ada.")
        body = read_body(service)
        assert f"**Second look** by `{REVIEWER}`: 2 of 2 objections remain." in body
        assert not [part for part in ("#12", "@ada", "<b>") if part in body]
        kinds = [risk["kind"] for risk in job["risk"]]
        assert kinds == ["objection", "objection"]
        assert service.desk.pulls.list_for_project(service.project.id)[-1].draft
        shown = signed_in_client(service, "viewer").get(f"/projects/{service.project.id}/jobs/{job['id']}").text
        assert "Also &lt;b&gt;wrong&lt;/b&gt;. Answer: It was asked for by @ada." in shown


BROKEN = PAGE.replace(b"The colour", b"```\n\nThe colour")


def fence_id() -> str:
    return finding_id("fence", "docs/index.md", FENCE_MESSAGE)


def declare_fence_intended() -> Answer:
    return finish(intended=[{"id": fence_id(), "reason": "It is shown as typed."}])


FENCE_MESSAGE = "The code fence opened with ``` is never closed."


@pytest.mark.deep
@pytest.mark.parametrize(
    ("last", "remains"),
    [
        ((finish(),), True),
        ((declare_fence_intended(),), True),
        ((edit(BROKEN, "```\n", "```text\n"), declare_fence_intended()), True),
        ((edit(BROKEN, "```\n\n", ""), edit(PAGE, "colour", "color"), finish()), False),
    ],
)
def test_second_look_sees_the_reason_of_an_intended_finding_and_its_objection_stays_with_the_finding(
    tmp_path: Path, last: tuple[Answer, ...], remains: bool
) -> None:
    agent = (edit(PAGE, "The colour", "```\n\nThe colour"), declare_fence_intended(), *last)
    against = {**objection(3, "Nothing asks for an open fence."), "finding": ""}
    with open_service(tmp_path, agent, report(against)) as (service, models):
        job = run_job(service)
        assert job["status"] == "completed", job["message"]
        [asked] = models.review_requests
        text = json.dumps(asked["messages"])
        assert "Findings left as intended" in text
        assert "Intended: It is shown as typed." in text
        kinds = [risk["kind"] for risk in job["risk"]]
        assert ("objection" in kinds) is remains


@pytest.mark.deep
def test_objection_that_names_an_intended_finding_stays_although_its_own_line_changes(tmp_path: Path) -> None:
    broken = edit(PAGE, "The colour", "```\n\nThe colour")
    agent = (broken, declare_fence_intended(), edit(BROKEN, "Another line.", "A line."), declare_fence_intended())
    named = {**objection(7, "Nothing asks for an open fence."), "finding": fence_id()}
    with open_service(tmp_path, agent, report(named)) as (service, _):
        assert [risk["kind"] for risk in run_job(service)["risk"]] == ["intended", "objection"]


@pytest.mark.deep
def test_agent_that_ends_with_text_gets_the_objection_too(tmp_path: Path) -> None:
    text = say("I changed one word.")
    agent = (FIRST[0], text, text, edit(EDITED, "Another line.", "A line."), text)
    with open_service(tmp_path, agent, report(objection(5))) as (service, models):
        job = run_job(service)
        assert job["status"] == "completed", job["message"]
        assert len(models.review_requests) == 1
        assert (job["secondLook"]["total"], job["secondLook"]["objections"]) == (1, [])


@pytest.mark.deep
@pytest.mark.parametrize(
    ("review", "note"),
    [
        (fail(401, "No such key."), "did not answer"),
        (say("Looks good to me."), "not answer in the form"),
        (call("report", "{"), "not answer in the form"),
        (call("report", {"objections": "none"}), "not answer in the form"),
        (call("finish", {"title": "x", "summary": "y"}), "not answer in the form"),
    ],
)
def test_reviewer_that_fails_or_answers_badly_is_noted_and_the_job_goes_on(
    tmp_path: Path, review: Answer, note: str
) -> None:
    with open_service(tmp_path, FIRST, review) as (service, models):
        job = run_job(service)
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert job["prLink"]
        assert len(models.agent_requests) == 2
        assert (job["secondLook"]["total"], job["secondLook"]["objections"]) == (0, [])
        assert note in job["secondLook"]["note"]
        assert note in read_body(service)


@pytest.mark.deep
def test_review_model_that_is_not_configured_is_noted(tmp_path: Path) -> None:
    with open_service(tmp_path, FIRST, say(""), name="anthropic:none") as (service, _):
        job = run_job(service)
        assert job["status"] == "completed", job["message"]
        assert "needs an API key" in job["secondLook"]["note"]


@pytest.mark.deep
def test_malformed_objections_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = (
        "x",
        {"path": 3},
        {"path": "docs/index.md", "line": -1, "text": "x"},
        objection(1, "x", "docs/none.md"),
        None,
    )
    with open_service(tmp_path, (*FIRST, finish()), report(objection(), *bad)) as (service, _):
        job = run_job(service)
        assert [each["text"] for each in job["secondLook"]["objections"]] == ["Things have no color."]
        assert job["secondLook"]["note"].startswith("5 objections could not be read")


@pytest.mark.deep
def test_objection_to_a_line_that_does_not_exist_is_about_the_file(tmp_path: Path) -> None:
    with open_service(tmp_path, (*FIRST, finish()), report(objection(10**9, "Far."))) as (service, models):
        job = run_job(service)
        assert [(each["line"], each["text"]) for each in job["secondLook"]["objections"]] == [(0, "Far.")]
        assert "[look-1] docs/index.md Far." in json.dumps(models.agent_requests[2]["messages"])


@pytest.mark.deep
def test_second_look_is_skipped_when_the_budget_is_used_up(tmp_path: Path) -> None:
    with open_service(tmp_path, FIRST, report(objection()), job_requests=2) as (service, models):
        job = run_job(service)
        assert (job["status"], job["usage"]["requests"]) == ("completed", 2), job["message"]
        assert models.review_requests == []
        assert "used up its budget" in job["secondLook"]["note"]


@pytest.mark.deep
@pytest.mark.parametrize("limit", [3, 4])
def test_budget_that_ends_after_the_second_look_publishes_the_finished_work(tmp_path: Path, limit: int) -> None:
    agent = (*FIRST, edit(EDITED, "Another line.", "A line."), finish())
    with open_service(tmp_path, agent, report(objection()), job_requests=limit) as (service, models):
        job = run_job(service)
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert job["usage"]["requests"] == limit
        assert len(models.agent_requests) == limit - 1
        assert len(job["secondLook"]["objections"]) == 1


@pytest.mark.deep
def test_mechanic_gets_no_objections_but_the_pull_request_does(tmp_path: Path) -> None:
    with open_service(tmp_path, FIRST, report(objection())) as (service, _):
        prompt = 'Replace "colour" with "color".'
        job = service.client.wait(service.client.create_job(prompt, model="mechanic")["id"])
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert len((job["secondLook"] or {})["objections"]) == 1


@pytest.mark.deep
def test_no_second_look_by_default_or_without_a_change(tmp_path: Path) -> None:
    with open_service(tmp_path, (finish(),), report(objection()), name="") as (service, models):
        assert run_job(service)["secondLook"] is None
        service.desk.projects.change(service.project.id, {"review_model": REVIEWER}, actor="test")
        assert run_job(service)["secondLook"] is None
        assert models.review_requests == []


@pytest.mark.deep
def test_follow_up_gets_a_second_look_of_its_own_and_its_usage_adds_up(tmp_path: Path) -> None:
    agent = (*FIRST, finish(), edit(EDITED, "Another line.", "A line."), finish(), finish())
    with open_service(tmp_path, agent, report(objection())) as (service, models):
        job = run_job(service)
        service.client.message_job(job["id"], "And the other line.")
        again = service.client.wait(job["id"])
        assert again["status"] == "completed", again["message"]
        assert len(models.review_requests) == 2
        assert again["usage"]["requests"] == 8
        assert "[look-1]" in json.dumps(models.agent_requests[3]["messages"]), "the follow-up knows the first objection"


@pytest.mark.deep
def test_objection_remains_when_the_second_look_at_a_follow_up_fails(tmp_path: Path) -> None:
    agent = (*FIRST, finish(), edit(EDITED, "Another line.", "A line."), finish(), finish())
    with open_service(tmp_path, agent, report(objection())) as (service, models):
        job = run_job(service)
        models.review = fail(401, "No such key.")
        service.client.message_job(job["id"], "And the other line.")
        again = service.client.wait(job["id"])
        assert again["status"] == "completed", again["message"]
        assert [risk["kind"] for risk in again["risk"]] == ["objection", "not_judged"]
        assert "**objection:** docs/index.md:3 Things have no color." in read_body(service)


@pytest.mark.parametrize("name", ["mechanic", "nothing", "openai"])
def test_only_language_models_can_review(name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot review changes"):
        validate_options({"review_model": name})


@pytest.mark.deep
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    ("point", "requests"),
    [("turn-2-look:before", 1), ("turn-2-look:acted", 2), ("turn-2-look:recorded", 1), ("turn-3-reply:before", 1)],
)
def test_crash_repeats_no_finished_second_look(tmp_path: Path, database: str, point: str, requests: int) -> None:
    data = b"# Hello\n\nThe colour of things.\n"
    models = Models((edit(data, "colour", "color"), finish(), finish()), report(objection()))
    with ModelServer(models.answer) as server, open_case(database, tmp_path, model=AGENT, model_url=server.url) as case:
        case.script, case.model = None, AGENT
        case.desk.projects.change(case.project.id, {"review_model": REVIEWER}, actor="test")
        case.create()
        case.crash(point)
        case.recover()
        job = case.job
        assert (job.status, job.reason) == ("completed", None), job.message
        assert len(models.review_requests) == requests, "only a call whose answer was not stored is repeated"
        assert len(models.agent_requests) == 3
        assert job.second_look is not None
        assert len(job.second_look.objections) == 1
        assert job.usage.requests == 4
