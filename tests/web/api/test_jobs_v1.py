"""The jobs API of version 1, over real HTTP, as public clients of the original call it."""

from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pygit2
import pytest
from sqlalchemy import update

from copydesk.jobs.storage.tables import jobs
from tests.support.contract_schemas import check_response
from tests.support.repositories import commit, list_branches, make_repository
from tests.support.service import Service, serve

PAGE = b"# Hello\n\nThe colour of things.\n"
REPLACE = 'Replace "colour" with "color"'


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves a project whose jobs the mechanic does."""
    folder = tmp_path_factory.mktemp("v1")
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    with serve(folder / "data", repository=repository) as running:
        yield running


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves a project without a worker, so that its jobs stay queued."""
    folder = tmp_path_factory.mktemp("v1-idle")
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    with serve(
        folder / "data",
        repository=repository,
        with_worker=False,
        models=("openai:small",),
        model_aliases=("opus=openai:large",),
    ) as running:
        yield running


def at(service: Service, path: str) -> str:
    return f"/v1/agent/{service.project.id}{path}"


def user_message(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def start(service: Service, body: dict[str, Any]) -> httpx.Response:
    """Creates a job and closes the stream after the headers."""
    with service.http.stream("POST", at(service, "/job"), json=body) as response:
        return response


def load_job(service: Service, response: httpx.Response) -> Any:
    return service.client.get_job(response.headers["x-session-id"])


@pytest.mark.deep
def test_stream_ends_with_the_job_and_names_it(working: Service) -> None:
    response = working.http.post(at(working, "/job"), json=user_message(REPLACE))
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert "event: queued" in response.text
    assert "event: finished" in response.text
    job = working.client.get_job(response.headers["x-session-id"])
    assert (job["status"], job["branch"]) == ("completed", response.headers["x-branch-name"])

    session = check_response("session", working.http.get(at(working, f"/job/{job['id']}")).json())
    assert session["sessionId"] == job["id"]
    assert session["subdomain"] == working.project.id
    assert (session["haulted"], session["haultReason"]) == (True, "completed")
    assert session["pullRequestLink"] == job["prLink"]
    assert session["branch"] == job["branch"]
    assert session["title"] == job["title"]
    assert {todo["status"] for todo in session["todos"]} == {"completed"}


def test_closing_the_connection_does_not_cancel_the_job(working: Service) -> None:
    response = start(working, user_message(REPLACE))
    assert working.client.wait(response.headers["x-session-id"])["status"] == "completed"


def test_active_job_is_processing(idle: Service) -> None:
    response = start(idle, user_message("Fix the typos"))
    session = check_response("session", idle.http.get(at(idle, f"/job/{response.headers['x-session-id']}")).json())
    assert (session["haulted"], session["haultReason"], session["branch"]) == (False, "processing", None)
    assert (session["pullRequestLink"], session["title"]) == ("", "Fix the typos")
    assert {todo["status"] for todo in session["todos"]} == {"pending"}


def test_pull_request_of_a_job_that_is_active_again_is_not_shown(idle: Service) -> None:
    job_id = start(idle, user_message("Fix the typos")).headers["x-session-id"]
    path, link = at(idle, f"/job/{job_id}"), "https://forge.example/acme/docs/pulls/1"
    with idle.desk.database.write() as tx:
        tx.execute(update(jobs).where(jobs.c.id == job_id).values(status="completed", pr_link=link))
    assert idle.http.get(path).json()["pullRequestLink"] == link
    idle.client.message_job(job_id, "Fix the grammar too")
    assert idle.http.get(path).json()["pullRequestLink"] == ""


def test_cancelled_job_is_interrupted(idle: Service) -> None:
    response = start(idle, user_message("Fix the typos"))
    job_id = response.headers["x-session-id"]
    idle.client.cancel_job(job_id)
    session = check_response("session", idle.http.get(at(idle, f"/job/{job_id}")).json())
    assert (session["haulted"], session["haultReason"]) == (True, "interrupted")
    assert session["messageToUser"] == "The job was cancelled."
    idle.client.archive_job(job_id)
    assert idle.http.get(at(idle, f"/job/{job_id}")).json()["haultReason"] == "interrupted"


@pytest.mark.parametrize(
    ("messages", "prompt"),
    [
        ([("user", " Fix it. ")], "Fix it."),
        ([("system", "Fix it.")], "Fix it."),
        ([("system", "Be brief."), ("user", "Fix it.")], "Be brief.\n\nFix it."),
        ([("user", "A"), ("assistant", "B"), ("user", "C")], "A\n\nEarlier answer of the assistant:\nB\n\nC"),
        ([("system", ""), ("user", "Fix it.")], "Fix it."),
    ],
)
def test_messages_become_one_prompt(idle: Service, messages: list[tuple[str, str]], prompt: str) -> None:
    body = {"messages": [{"role": role, "content": content} for role, content in messages]}
    assert load_job(idle, start(idle, body))["prompt"] == prompt


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": [{"role": "user", "content": "  "}]},
        {"messages": [{"role": "tool", "content": "a"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": 1}]},
        {"messages": "a"},
        user_message("a" * 32_001),
        user_message("a\x00b"),
        {**user_message("a"), "branch": "no such..branch"},
        {**user_message("a"), "asDraft": "maybe"},
        {**user_message("a"), "model": "haiku"},
    ],
)
def test_invalid_body_returns_400(idle: Service, body: dict[str, Any]) -> None:
    response = idle.http.post(at(idle, "/job"), json=body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("model", "expected"),
    [(None, "mechanic"), ("sonnet", "mechanic"), ("opus", "openai:large"), ("openai:small", "openai:small")],
)
def test_names_of_models_select_the_projects_model_or_their_alias(
    idle: Service, model: str | None, expected: str
) -> None:
    assert load_job(idle, start(idle, {**user_message("a"), "model": model}))["model"] == expected


def test_branch_is_the_start_if_it_exists(idle: Service) -> None:
    commit(pygit2.Repository(str(idle.repository)), {"docs/index.md": b"# Next\n"}, branch="next")
    assert load_job(idle, start(idle, {**user_message("a"), "branch": "next"}))["source"]["ref"] == "next"
    job = load_job(idle, start(idle, {**user_message("a"), "branch": "update-docs"}))
    assert job["source"]["ref"] == "main"
    assert job["branch"].startswith("copydesk/job_")
    assert list_branches(idle.repository).keys() == {"main", "next"}


@pytest.mark.parametrize(("as_draft", "expected"), [(True, True), ("true", True), (False, False), (None, False)])
def test_draft_may_be_a_string(idle: Service, as_draft: Any, expected: bool) -> None:
    response = start(idle, {**user_message("a"), "asDraft": as_draft, "unknown": {}})
    job = idle.desk.jobs.get(idle.project.id, response.headers["x-session-id"])
    assert job.draft is expected


def test_jobs_are_listed_newest_first(idle: Service) -> None:
    site = idle.another_project()
    ids = [site.client.create_job(f"Job {n}")["id"] for n in range(14)][::-1]

    def list_ids(query: str = "") -> list[str]:
        sessions = check_response("sessions", site.http.get(at(site, f"/jobs{query}")).json())["allSessions"]
        return [session["sessionId"] for session in sessions]

    assert list_ids() == ids[:12]
    assert list_ids("?skip=12") == ids[12:]
    assert list_ids("?skip=1.0&take=2.0") == ids[1:3]
    assert list_ids("?skip=&take=100") == ids
    for query in ("?take=0", "?take=101", "?skip=-1", "?take=x"):
        assert site.http.get(at(site, f"/jobs{query}")).status_code == 400, query


def test_unknown_job_returns_404(idle: Service) -> None:
    response = idle.http.get(at(idle, "/job/job_00000000000000000000000000"))
    assert (response.status_code, response.json()["code"]) == (404, "job_not_found")
