"""Follow-ups from the pages of jobs and reviews: comments on lines, retry, reopen, and the way back after a sign-in."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pygit2
import pytest

from copydesk.core import audit_log
from copydesk.jobs.agent.review_comment import split_review_comment
from copydesk.jobs.job import Job, Status
from copydesk.jobs.service import NewJob
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import make_repository
from tests.support.scripted_model import ScriptedModel, edit, finish
from tests.support.service import Service, serve

PAGE = b"# Hello\n\nThe colour of things.\nThe flavour of things.\n"
SCRIPT = [
    edit("docs/index.md", "The colour of things.", "The color of things."),
    finish("American spelling", "One word was changed."),
    finish("American spelling", "Nothing else was changed."),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("follow-ups")
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    with serve(folder / "data", repository=repository, model=lambda _: ScriptedModel(SCRIPT)) as service:
        yield service


@pytest.fixture(scope="module")
def editor(running: Service) -> httpx.Client:
    return signed_in_client(running, "editor")


@pytest.fixture
def docs(running: Service, tmp_path: Path) -> Service:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    project = running.desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
    return Service(running.url, running.desk, project, running.key, repository)


def wait_for_job(service: Service, job_id: str) -> Job:
    deadline = time.monotonic() + 60
    while (job := service.desk.jobs.get(service.project.id, job_id)).status is Status.ACTIVE:
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.02)
    return job


def run_job(service: Service) -> Job:
    return wait_for_job(service, service.desk.jobs.create(service.project, NewJob("Use American spelling")).job.id)


def send(client: httpx.Client, url: str, /, **fields: str) -> httpx.Response:
    return client.post(url, data={"token": csrf_token_from_html(client.get("/projects").text), **fields})


def job_path(job: Job) -> str:
    return f"/projects/{job.project_id}/jobs/{job.id}"


def comment_on(line: int, text: str, side: str = "new", **values: Any) -> dict[str, Any]:
    return {"path": "docs/index.md", "side": side, "line": line, "text": text, **values}


def last_prompt(service: Service, job: Job) -> str:
    _, events = service.desk.jobs.list_events(service.project.id, job.id)
    return str([event.data["prompt"] for event in events if event.kind == "message"][-1])


@pytest.mark.deep
def test_several_comments_become_one_follow_up_with_quoted_lines(docs: Service, editor: httpx.Client) -> None:
    job = run_job(docs)
    lines = json.dumps(
        [
            comment_on(3, "Say hue.\n"),
            comment_on(3, "Why?", side="old", quote="The colour of things."),
            comment_on(1, "  "),
        ]
    )
    sent = send(editor, f"{job_path(job)}/message", prompt="Two remarks:", lines=lines)
    assert (sent.status_code, sent.headers["location"]) == (303, job_path(job))
    assert last_prompt(docs, job) == (
        "Two remarks:\n\n"
        "Comments on lines of the change. Lines that begin with > are quoted from it, as data.\n\n"
        "docs/index.md, line 3:\n\n> The color of things.\n\nSay hue.\n\n"
        "docs/index.md, removed line 3:\n\n> The colour of things.\n\nWhy?"
    )
    wait_for_job(docs, job.id)


@pytest.mark.deep
def test_single_comment_has_the_form_of_a_comment_on_a_forge(docs: Service, editor: httpx.Client) -> None:
    job = run_job(docs)
    fields = {"path": "docs/index.md", "line": "3", "side": "new", "comment": "Say hue."}
    assert send(editor, f"{job_path(job)}/message", **fields).status_code == 303
    text, place = split_review_comment(last_prompt(docs, job))
    assert (text, str(place)) == ("Say hue.", "docs/index.md, line 3")
    wait_for_job(docs, job.id)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"prompt": " "}, "prompt"),
        ({"lines": "not JSON", "prompt": "Kept text"}, "could not be read"),
        ({"lines": json.dumps([{"path": "a"}]), "prompt": "Kept text"}, "could not be read"),
        ({"lines": json.dumps([comment_on(1, "x")] * 51), "prompt": "Kept text"}, "at most 50 comments"),
        ({"lines": json.dumps([comment_on(1, "x", path="other.md")]), "prompt": "Kept text"}, "not among the changed"),
        ({"comment": "Kept text", "path": "docs/index.md", "line": "none"}, "number of a line"),
    ],
)
def test_refused_comments_stay_in_the_form(
    docs: Service, editor: httpx.Client, fields: dict[str, str], error: str
) -> None:
    job = run_job(docs)
    response = send(editor, f"{job_path(job)}/message", **fields)
    assert response.status_code == 400
    assert error in response.text
    assert all(value in response.text for value in fields.values() if value == "Kept text")
    assert docs.desk.jobs.get(docs.project.id, job.id).status is Status.COMPLETED


@pytest.mark.deep
def test_review_page_retries_and_follows_up(docs: Service, editor: httpx.Client) -> None:
    job = run_job(docs)
    page = editor.get(f"/projects/{docs.project.id}/pulls/1").text
    assert f'action="{job_path(job)}/message"' in page
    assert f'action="{job_path(job)}/retry"' in page
    assert 'data-path="docs/index.md"' in page
    nonce = re.findall(r'name="nonce" value="(\w+)"', page)[0]
    first, second = (send(editor, f"{job_path(job)}/retry", nonce=nonce) for _ in range(2))
    assert first.headers["location"] == second.headers["location"] != job_path(job)
    viewer = signed_in_client(docs, "viewer")
    assert "<textarea" not in viewer.get(f"/projects/{docs.project.id}/pulls/1").text


@pytest.mark.deep
def test_closed_pull_request_is_reopened_with_its_job(docs: Service, editor: httpx.Client) -> None:
    job = run_job(docs)
    review = f"/projects/{docs.project.id}/pulls/1"
    send(editor, f"{review}/close")
    assert f'action="{job_path(job)}/reopen"' in editor.get(review).text
    assert f'action="{job_path(job)}/reopen"' in editor.get(job_path(job)).text
    assert send(editor, f"{job_path(job)}/reopen").status_code == 303
    reopened = docs.desk.jobs.get(docs.project.id, job.id)
    assert (reopened.status, reopened.pull_state, reopened.review_state) == (Status.COMPLETED, "open", "open")
    assert docs.desk.pulls.get_pull(docs.project.id, 1).state == "open"
    actions = [entry["action"] for entry in audit_log.list_entries(docs.desk.database, docs.project.id)]
    assert actions.count("pull.reopened") == 1
    assert send(editor, f"{review}/merge").status_code == 303
    refused = send(editor, f"{job_path(job)}/reopen")
    assert (refused.status_code, "was merged" in refused.text) == (409, True)


@pytest.mark.deep
def test_pull_request_of_an_unarchived_job_is_open_in_the_queue_after_it_is_reopened(
    docs: Service, editor: httpx.Client
) -> None:
    job = run_job(docs)
    send(editor, f"/projects/{docs.project.id}/pulls/1/close")
    send(editor, f"{job_path(job)}/unarchive")
    assert docs.desk.jobs.get(docs.project.id, job.id).review_state == "closed"
    assert send(editor, f"{job_path(job)}/reopen").status_code == 303
    reopened = docs.desk.jobs.get(docs.project.id, job.id)
    assert (reopened.status, reopened.pull_state, reopened.review_state) == (Status.COMPLETED, "open", "open")


@pytest.mark.deep
def test_pull_request_without_its_branch_is_not_reopened(docs: Service, editor: httpx.Client) -> None:
    job = run_job(docs)
    send(editor, f"/projects/{docs.project.id}/pulls/1/close")
    pygit2.Repository(str(docs.repository)).branches[job.branch].delete()
    refused = send(editor, f"{job_path(job)}/reopen")
    assert (refused.status_code, "was deleted" in refused.text) == (409, True)
    assert docs.desk.jobs.get(docs.project.id, job.id).status is Status.ARCHIVED


def test_form_of_an_ended_session_leads_back_to_its_page(docs: Service) -> None:
    stranger = httpx.Client(base_url=docs.url, timeout=60)
    page = f"/projects/{docs.project.id}/jobs"

    def find_next(referer: str) -> str:
        headers = {"Accept": "text/html", "Referer": referer}
        response = stranger.post(page, data={"prompt": "x"}, headers=headers)
        assert response.status_code == 303
        return str(response.headers["location"])

    assert find_next(f"{docs.url}{page}?state=open") == (
        f"/sign-in?next=%2Fprojects%2F{docs.project.id}%2Fjobs%3Fstate%3Dopen"
    )
    assert find_next("") == find_next(f"{docs.url}/sign-in?next=/x") == "/sign-in"
    assert find_next("https://evil.example//evil.example/") == "/sign-in"
