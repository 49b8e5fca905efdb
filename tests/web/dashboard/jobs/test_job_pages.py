"""The pages of jobs and of reviews, over real HTTP: their content, their actions, and their permissions."""

import html
import json
import re
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pygit2
import pytest
from sqlalchemy import insert, update

from copydesk.core import audit_log, clock
from copydesk.jobs.agent.tools.toolbox import TOOLS as AGENT_TOOLS
from copydesk.jobs.job import Creator, CreatorKind, Job, Phase, Reason, Status
from copydesk.jobs.publish.forges.local import find_or_open_pull
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.records import EventKind, JobEvent, NewEvent, save_changed_files_in, update_job
from copydesk.jobs.storage.review_states import UPDATE_REVIEW_STATE
from copydesk.jobs.storage.tables import events, jobs
from copydesk.jobs.workspace.patches import FilePatch, create_patch
from copydesk.web.dashboard.jobs.change_view import MAX_DIFF_LINES
from copydesk.web.dashboard.jobs.job_rows import format_duration
from copydesk.web.dashboard.jobs.timeline import (
    EVENT_KINDS,
    PHASE_LABELS,
    REASON_LABELS,
    TOOL_SENTENCES,
    step_from_event,
)
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import commit, make_repository, read_file
from tests.support.scripted_model import ScriptedModel, calls, edit, finish
from tests.support.service import Service, serve

PAGE = b"# Hello\n\n" + b"".join(b"Line %d of the page.\n" % n for n in range(1, 41)) + b"\nThe colour of things.\n"
EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>"
JOB_POSTS = ("message", "cancel", "archive", "unarchive", "reopen", "retry")
PULL_POSTS = ("merge", "close")
SIGNED_IN: dict[tuple[str, str], httpx.Client] = {}
LARGEST_PAGE = 120_000
"""Bytes, of the 150,000 that a page with all its resources may have."""


@pytest.fixture(scope="module")
def service_with_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a worker, and a model that fixes one page."""
    folder = tmp_path_factory.mktemp("working")
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    script = [
        calls(("read", {"path": "docs/index.md"}), ("read", {"path": "docs/none.md"}), text="I look at the page."),
        edit("docs/index.md", "colour", "color"),
        finish("American spelling", "One word was changed."),
    ]
    with serve(folder / "data", repository=repository, model=lambda _: ScriptedModel(script)) as running:
        yield running


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without a worker: jobs keep their state."""
    folder = tmp_path_factory.mktemp("idle")
    repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


@pytest.fixture
def docs(service_with_worker: Service, tmp_path: Path) -> Service:
    """A new project with its own repository and a worker."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    project = service_with_worker.desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
    return Service(service_with_worker.url, service_with_worker.desk, project, service_with_worker.key, repository)


@pytest.fixture
def quiet(idle: Service) -> Service:
    return idle.another_project()


def project_path(service: Service, rest: str = "") -> str:
    return f"/projects/{service.project.id}{rest}"


def viewer_client(service: Service) -> httpx.Client:
    return _signed_in_client(service, "viewer")


def editor_client(service: Service) -> httpx.Client:
    return _signed_in_client(service, "editor")


def _signed_in_client(service: Service, role: str) -> httpx.Client:
    """Returns a signed-in client, cached per service: creating one costs more than most requests here."""
    if (service.url, role) not in SIGNED_IN:
        SIGNED_IN[service.url, role] = signed_in_client(service, role)
    return SIGNED_IN[service.url, role]


def post_form(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return client.post(path, data={"token": get_csrf_token(client), **fields})


@cache
def get_csrf_token(client: httpx.Client) -> str:
    """Returns the CSRF token, which is the same on every page of a session."""
    return csrf_token_from_html(client.get("/projects").text)


def create_job(service: Service, prompt: str = "Use American spelling", **options: Any) -> Job:
    return service.desk.jobs.create(service.project, NewJob(prompt, **options)).job


def wait_for_job(service: Service, job_id: str) -> Job:
    deadline = time.monotonic() + 60
    while (job := service.desk.jobs.get(service.project.id, job_id)).status is Status.ACTIVE:
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.02)
    return job


def set_job_columns(service: Service, job: Job, **values: Any) -> None:
    with service.desk.database.write() as tx:
        tx.execute(update(jobs).where(jobs.c.id == job.id).values(**values))
        tx.execute(UPDATE_REVIEW_STATE, {"job": job.id})


def add_pull(service: Service, job: Job, title: str = "A change", body: str = "Text.") -> int:
    with service.desk.database.write() as tx:
        pull = find_or_open_pull(service.desk.database, tx, job, title, body, "0" * 40, draft=False)
    set_job_columns(service, job, pr_link=pull.link(service.url), status="completed", phase="done")
    return pull.number


@pytest.mark.deep
def test_job_is_created_reviewed_and_merged_on_its_pages(docs: Service) -> None:
    editor = editor_client(docs)
    sent = post_form(editor, project_path(docs, "/jobs"), prompt="Use American spelling", nonce="n1")
    assert sent.status_code == 303
    job = wait_for_job(docs, sent.headers["location"].rpartition("/")[2])
    shown = editor.get(sent.headers["location"]).text
    for words in ("American spelling", "One word was changed.", "I look at the page.", "Read docs/index.md",
                  "Could not read docs/none.md", "Edited docs/index.md", "> added</span>"):  # fmt: skip
        assert words in shown, words
    review = project_path(docs, "/pulls/1")
    assert f'href="{review}"' in shown
    assert "<mark>color</mark>" in editor.get(review).text
    assert post_form(editor, f"{review}/merge").status_code == 303
    assert b"color" in (read_file(docs.repository, "main", "docs/index.md") or b"")
    assert ">merged<" in editor.get(review).text
    assert docs.desk.jobs.get(docs.project.id, job.id).status is Status.ARCHIVED
    [entry] = [
        each for each in audit_log.list_entries(docs.desk.database, docs.project.id) if each["action"] == "pull.merged"
    ]
    assert entry["actor"] == "editor@example.org"


@pytest.mark.deep
def test_pull_request_that_cannot_be_merged_is_explained(docs: Service) -> None:
    editor, job = editor_client(docs), wait_for_job(docs, create_job(docs).id)
    other = PAGE.replace(b"colour", b"tint")
    commit(pygit2.Repository(str(docs.repository)), {"docs/index.md": other})
    review = project_path(docs, "/pulls/1")
    refused = post_form(editor, f"{review}/merge")
    assert (refused.status_code, refused.headers["location"]) == (303, review)
    assert f"{job.branch} conflicts with main" in editor.get(review).text
    assert "conflicts with main" not in editor.get(review).text, "it is shown once"
    assert post_form(editor, f"{review}/close").status_code == 303
    assert read_file(docs.repository, "main", "docs/index.md") == other
    post_form(editor, f"{review}/merge")
    assert "Pull request 1 is closed." in editor.get(review).text


def make_checkout(repository: Path) -> Path:
    """Clones the repository, with a work tree of main."""
    checkout = repository.with_name("checkout")
    pygit2.clone_repository(str(repository), str(checkout), checkout_branch="main")
    return checkout


@pytest.mark.deep
def test_checked_out_branch_is_merged_with_the_command_on_the_page(docs: Service) -> None:
    checkout = make_checkout(docs.repository)
    project = docs.desk.projects.create("Checkout", repository=str(checkout), ref="main", actor="test")
    here = Service(docs.url, docs.desk, project, docs.key, checkout)
    editor, job = editor_client(here), wait_for_job(here, create_job(here).id)
    for path in ("/start", "/settings"):
        assert "The branch main is checked out in" in editor.get(project_path(here, path)).text
    review = project_path(here, "/pulls/1")
    command = f"git -C {checkout} merge {job.branch}"
    shown = editor.get(review).text
    assert command in shown
    assert "Mark as merged" in shown
    refused = post_form(editor, f"{review}/merge")
    assert (refused.status_code, refused.headers["location"]) == (303, review)
    assert f"To merge it, run: {command}" in editor.get(review).text
    public = httpx.get(
        docs.desk.pulls.get_pull(project.id, 1).link(docs.url), headers={"Accept": "text/html"}, timeout=60
    )
    assert f"git merge {job.branch}" in public.text
    assert str(checkout) not in public.text
    subprocess.run(command.split(), check=True, capture_output=True)
    assert ">merged<" in editor.get(review).text
    assert docs.desk.jobs.get(project.id, job.id).status is Status.ARCHIVED
    post_form(editor, f"{review}/merge")  # from a page that was shown before
    assert "Pull request 1 is merged." not in editor.get(review).text


@pytest.mark.deep
def test_message_of_one_page_is_not_shown_on_another(docs: Service) -> None:
    editor = editor_client(docs)
    wait_for_job(docs, create_job(docs).id)
    wait_for_job(docs, create_job(docs).id)
    post_form(editor, project_path(docs, "/pulls/1/close"))
    post_form(editor, project_path(docs, "/pulls/1/close"))
    assert "Pull request 1 is closed." not in editor.get(project_path(docs, "/pulls/2")).text
    assert "Pull request 1 is closed." in editor.get(project_path(docs, "/pulls/1")).text


@pytest.mark.deep
def test_review_page_reports_an_unavailable_repository(docs: Service) -> None:
    editor = editor_client(docs)
    wait_for_job(docs, create_job(docs).id)
    docs.repository.rename(docs.repository.with_name("away.git"))
    assert post_form(editor, project_path(docs, "/pulls/1/merge")).status_code == 303
    shown = editor.get(project_path(docs, "/pulls/1")).text
    assert 'role="alert"' in shown
    assert ">open<" in shown


@pytest.mark.deep
def test_follow_up_continues_the_job(docs: Service) -> None:
    editor, job = editor_client(docs), wait_for_job(docs, create_job(docs).id)
    assert post_form(editor, project_path(docs, f"/jobs/{job.id}/message"), prompt="Once more").status_code == 303
    wait_for_job(docs, job.id)
    shown = editor.get(project_path(docs, f"/jobs/{job.id}")).text
    assert [html.unescape(text) for text in re.findall(r'<div class="prompt">(.*?)</div>', shown)] == [
        "Use American spelling", "Once more",
    ]  # fmt: skip


@pytest.mark.deep
def test_unchanged_lines_are_collapsed_and_expandable(docs: Service) -> None:
    job = wait_for_job(docs, create_job(docs).id)
    shown = viewer_client(docs).get(project_path(docs, f"/jobs/{job.id}")).text
    assert "<summary>40 unchanged lines</summary>" in shown
    assert "Line 1 of the page." in shown


def test_changes_are_shown_unified_side_by_side_or_raw(docs: Service) -> None:
    viewer, job = viewer_client(docs), wait_for_job(docs, create_job(docs).id)
    here = project_path(docs, f"/jobs/{job.id}")
    assert 'class="diff unified"' in viewer.get(here).text
    assert 'class="diff split"' in viewer.get(f"{here}?view=split").text
    raw = viewer.get(f"{here}?view=raw")
    assert raw.content == docs.desk.jobs.diff(docs.project.id, job.id)
    assert (raw.headers["content-type"], raw.headers["x-content-type-options"]) == (
        "text/plain; charset=utf-8", "nosniff",
    )  # fmt: skip
    assert viewer.get(f"{here}?view=upside-down").status_code == 400


def test_event_stream_has_sentences_and_resumes(docs: Service) -> None:
    viewer, job = viewer_client(docs), wait_for_job(docs, create_job(docs).id)
    here = project_path(docs, f"/jobs/{job.id}/events")
    every = parse_stream(viewer.get(here))
    assert [number for number, _ in every] == list(range(1, job.last_event + 1))
    assert every[-1][1]["said"]["text"] == "Completed"
    assert parse_stream(viewer.get(f"{here}?after=3")) == every[3:]
    assert parse_stream(viewer.get(f"{here}?after=3", headers={"Last-Event-ID": "5"})) == every[5:]


@pytest.mark.deep
def test_stream_ends_with_its_session(quiet: Service) -> None:
    viewer, job = signed_in_client(quiet, "viewer", "leaving@example.org"), create_job(quiet)
    with viewer.stream("GET", project_path(quiet, f"/jobs/{job.id}/events")) as answer:
        lines = answer.iter_lines()
        assert "id: 1" in [next(lines) for _ in range(4)]
        assert post_form(viewer, "/sign-out").status_code == 303
        quiet.desk.jobs.add_message(quiet.project, job.id, "A secret")
        assert "A secret" not in "".join(lines)


def parse_stream(answer: httpx.Response) -> list[tuple[int, dict[str, Any]]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = re.findall(r"^id: (\d+)\nevent: \w+\ndata: (.*)$", answer.text, re.M)
    return [(int(number), json.loads(data)) for number, data in found]


def test_form_sent_twice_creates_one_job(quiet: Service) -> None:
    editor = editor_client(quiet)
    first, second = (post_form(editor, project_path(quiet, "/jobs"), prompt="Do it", nonce="same") for _ in range(2))
    created_by = quiet.desk.jobs.get(quiet.project.id, first.headers["location"].rpartition("/")[2]).created_by
    assert created_by is not None
    assert created_by.kind == "person"
    third = post_form(editor, project_path(quiet, "/jobs"), prompt="Do something else", nonce="same")
    assert first.headers["location"] == second.headers["location"] != third.headers["location"]


def test_a_job_takes_the_options_of_its_form(quiet: Service) -> None:
    editor = editor_client(quiet)
    chosen = {"model": "mechanic", "ref": "next", "title": "A title", "draft": "yes"}
    sent = post_form(editor, project_path(quiet, "/jobs"), prompt=" Do it \r\n", nonce="n", **chosen)
    job = quiet.desk.jobs.get(quiet.project.id, sent.headers["location"].rpartition("/")[2])
    assert (job.prompt, job.model, job.ref, job.title, job.draft) == ("Do it", "mechanic", "next", "A title", True)


@pytest.mark.parametrize("fields", [{"prompt": " "}, {"prompt": "x", "model": "none"}, {"prompt": "x", "ref": "a b"}])
def test_refused_form_keeps_its_values(quiet: Service, fields: dict[str, str]) -> None:
    refused = post_form(editor_client(quiet), project_path(quiet, "/jobs"), title="A kept title", nonce="n", **fields)
    assert refused.status_code == 400
    assert 'role="alert"' in refused.text
    assert 'value="A kept title"' in refused.text


@pytest.mark.deep
def test_the_list_is_newest_first_in_pages_and_can_be_filtered(quiet: Service) -> None:
    viewer = viewer_client(quiet)
    made = [create_job(quiet, f"Number {n} is 100% done" if n % 2 else f"Number {n}") for n in range(30)]
    quiet.desk.jobs.cancel(quiet.project.id, made[3].id)
    first = viewer.get(project_path(quiet, "/jobs")).text
    assert listed_job_ids(first) == [job.id for job in reversed(made[5:])]
    older = html.unescape(re.findall(r'<a href="([^"]+)" rel="next">', first)[0])
    assert listed_job_ids(viewer.get(older).text) == [job.id for job in reversed(made[:5])]
    assert listed_job_ids(viewer.get(project_path(quiet, "/jobs?state=failed")).text) == [made[3].id]
    assert listed_job_ids(viewer.get(project_path(quiet, "/jobs"), params={"text": "NUMBER 7 "}).text) == [made[7].id]
    assert len(listed_job_ids(viewer.get(project_path(quiet, "/jobs"), params={"text": "0% d"}).text)) == 15
    assert listed_job_ids(viewer.get(project_path(quiet, "/jobs"), params={"text": "%"}).text) == [
        job.id for job in reversed(made) if "%" in job.prompt
    ]
    assert listed_job_ids(
        viewer.get(project_path(quiet, "/jobs?cursor=nonsense&state=nonsense")).text
    ) == listed_job_ids(first)


def listed_job_ids(page: str) -> list[str]:
    return re.findall(r'<a href="[^"]*/jobs/(job_\w+)" dir="auto">', page)


def test_list_version_changes_when_a_job_changes(quiet: Service) -> None:
    viewer, job = viewer_client(quiet), create_job(quiet)
    before = viewer.get(project_path(quiet, "/jobs")).text
    assert 'Running <span class="count">1</span>' in before
    live = html.unescape(re.findall(r'data-live="([^"]+)"', before)[0])
    [version] = re.findall(r'data-version="([^"]+)"', before)
    assert viewer.get(live).json() == {"version": version}
    quiet.desk.jobs.cancel(quiet.project.id, job.id)
    assert viewer.get(live).json() != {"version": version}


def test_page_offers_only_allowed_actions(quiet: Service) -> None:
    editor, job = editor_client(quiet), create_job(quiet)
    here = project_path(quiet, f"/jobs/{job.id}")
    assert offered_actions(editor, here) == {"cancel", "message"}
    assert post_form(editor, f"{here}/cancel").status_code == 303
    assert offered_actions(editor, here) == {"retry", "archive", "message"}
    assert post_form(editor, f"{here}/archive").status_code == 303
    assert offered_actions(editor, here) == {"retry", "unarchive"}
    assert post_form(editor, f"{here}/unarchive").status_code == 303
    assert offered_actions(editor, here) == {"retry", "archive", "message"}
    assert offered_actions(viewer_client(quiet), here) == set()


def offered_actions(client: httpx.Client, here: str) -> set[str]:
    return set(re.findall(rf'action="{here}/(\w+)"', client.get(here).text))


def test_disallowed_action_is_refused_with_a_message(quiet: Service) -> None:
    editor, job = editor_client(quiet), create_job(quiet)
    here = project_path(quiet, f"/jobs/{job.id}")
    refused = post_form(editor, f"{here}/retry")
    assert (refused.status_code, "still running; cancel it" in refused.text) == (409, True)
    post_form(editor, f"{here}/archive")
    for act, said in (("cancel", "The job is archived; only"), ("message", "The job is archived; unarchive it first.")):
        refused = post_form(editor, f"{here}/{act}", prompt="More")
        assert (refused.status_code, said in refused.text) == (409, True)


def test_retry_creates_the_same_job_once(quiet: Service) -> None:
    editor, job = editor_client(quiet), create_job(quiet, "Do it", ref="next", draft=True, title="Mine")
    post_form(editor, project_path(quiet, f"/jobs/{job.id}/cancel"))
    sent = {
        post_form(editor, project_path(quiet, f"/jobs/{job.id}/retry"), nonce="n").headers["location"] for _ in range(2)
    }
    again = quiet.desk.jobs.get(quiet.project.id, sent.pop().rpartition("/")[2])
    assert not sent
    assert (again.prompt, again.ref, again.draft, again.title) == ("Do it", "next", True, "Mine")


def test_a_failed_job_says_why_in_plain_words(quiet: Service) -> None:
    job = create_job(quiet)
    quiet.desk.jobs.cancel(quiet.project.id, job.id)
    set_job_columns(quiet, job, reason="budget_exceeded", message="The job used 61 requests.")
    shown = viewer_client(quiet).get(project_path(quiet, f"/jobs/{job.id}")).text
    assert "Out of budget" in shown
    assert "The job used 61 requests." in shown


def list_form_paths(service: Service, job: str, number: int) -> list[str]:
    return [
        project_path(service, "/jobs"),
        *(project_path(service, f"/jobs/{job}/{act}") for act in JOB_POSTS),
        *(project_path(service, f"/pulls/{number}/{act}") for act in PULL_POSTS),
    ]


@pytest.mark.deep
def test_form_without_role_csrf_token_or_session_is_refused(quiet: Service) -> None:
    job = create_job(quiet)
    number = add_pull(quiet, job)
    before = quiet.desk.jobs.list_events(quiet.project.id, job.id), quiet.desk.pulls.list_for_project(quiet.project.id)
    editor, viewer = editor_client(quiet), viewer_client(quiet)
    stranger = httpx.Client(base_url=quiet.url, timeout=60)
    for path in list_form_paths(quiet, job.id, number):
        assert post_form(viewer, path, prompt="x").status_code == 403, path
        for token in ("", get_csrf_token(viewer)):
            assert editor.post(path, data={"token": token, "prompt": "x"}).status_code == 403, path
        elsewhere = {"Origin": "https://elsewhere.example.org"}
        assert editor.post(path, data={"token": get_csrf_token(editor)}, headers=elsewhere).status_code == 403, path
        assert stranger.post(path, data={"prompt": "x"}).status_code == 401, path
    assert before == (
        quiet.desk.jobs.list_events(quiet.project.id, job.id),
        quiet.desk.pulls.list_for_project(quiet.project.id),
    )


def test_objects_of_another_project_return_404(quiet: Service, idle: Service) -> None:
    job, editor = create_job(quiet), editor_client(quiet)
    add_pull(quiet, job)
    other = idle.another_project("Third")
    for rest in ("", "/events", "?view=raw"):
        assert editor.get(project_path(other, f"/jobs/{job.id}{rest}")).status_code == 404
    assert editor.get(project_path(other, "/pulls/1")).status_code == 404
    for path in list_form_paths(other, job.id, 1)[1:]:
        assert post_form(editor, path, prompt="x").status_code == 404, path
    nowhere = "/projects/proj_00000000000000000000000000"
    for rest in ("/jobs", "/jobs/live", f"/jobs/{job.id}", f"/jobs/{job.id}/events", "/pulls/1"):
        assert editor.get(nowhere + rest).status_code == 404


def test_nothing_is_shown_without_a_session(quiet: Service) -> None:
    job = create_job(quiet)
    add_pull(quiet, job)
    stranger = httpx.Client(base_url=quiet.url, timeout=60)
    for rest in ("/jobs", "/jobs/live", f"/jobs/{job.id}", f"/jobs/{job.id}/events", "/pulls/1", "/pulls/1?view=raw"):
        assert stranger.get(project_path(quiet, rest)).status_code == 401, rest
        assert stranger.get(project_path(quiet, rest), headers={"Accept": "text/html"}).status_code == 303, rest


def test_text_of_a_job_is_escaped_everywhere(quiet: Service) -> None:
    job = create_job(quiet, EVIL, title=EVIL)
    database = quiet.desk.database
    number = add_pull(quiet, job, EVIL, EVIL)
    notes: list[tuple[str, dict[str, Any]]] = [
        ("message", {"prompt": EVIL}),
        ("thought", {"text": EVIL}),
        ("tool", {"tool": EVIL, "ok": True, "result": EVIL, "path": EVIL}),
        ("tool", {"tool": "edit", "ok": False, "result": EVIL, "path": EVIL}),
        ("checked", {"passed": False, "findings": [EVIL]}),
        ("pushed", {"branch": EVIL, "commit": EVIL}),
        ("finished", {"status": "failed", "message": EVIL}),
    ]
    finding = {"path": EVIL, "line": 1, "message": EVIL}
    check = {"name": EVIL, "status": "failed", "judged": 1, "introduced": 1, "old": 0, "findings": [finding]}
    unjudged = {**check, "status": "not_judged", "findings": [], "reason": EVIL, "notJudged": [finding]}
    unjudged["pleaseCheck"] = [finding]
    with database.write() as tx:
        update_job(database, tx, job.id, [NewEvent(EventKind(kind), data) for kind, data in notes])
        last_event = insert(events).values(job_id=job.id, seq=len(notes) + 2, at=0, kind=EVIL[:40], data={})
        tx.execute(last_event)
        save_changed_files_in(tx, job.id, [create_patch(f"docs/{EVIL}.md", EVIL.encode(), f"{EVIL}!\n".encode())])
    set_job_columns(quiet, job, summary=f"{EVIL} it says", message=EVIL, model=EVIL, branch=EVIL, ref=EVIL, base=EVIL,
                    head=EVIL, checks=[check, {**check, "status": "passed"}, unjudged])  # fmt: skip
    editor = editor_client(quiet)
    public = quiet.desk.pulls.get_pull(quiet.project.id, number).link("")
    pages = [project_path(quiet, "/jobs"), project_path(quiet, f"/jobs?text={EVIL}&status={EVIL}"),
             project_path(quiet, f"/jobs/{job.id}"), project_path(quiet, f"/jobs/{job.id}?view=split"),
             project_path(quiet, f"/pulls/{number}"), public]  # fmt: skip
    for path in pages:
        shown = editor.get(path)
        assert (shown.status_code, "<script>alert" in shown.text, "<img" in shown.text) == (200, False, False), path
        assert "script-src 'self'" in shown.headers["content-security-policy"]
        assert "&lt;script&gt;alert" in shown.text
    refused = post_form(editor, project_path(quiet, "/jobs"), prompt=EVIL, title=EVIL, model=EVIL, ref=EVIL, nonce=EVIL)
    assert (refused.status_code, "<script>alert" in refused.text) == (400, False)


def test_job_page_says_which_check_could_not_judge_and_why(quiet: Service) -> None:
    job = create_job(quiet)
    part = {"path": "docs/a.md", "line": 3, "message": "`/app` was not judged: a build may create it."}
    check = {"name": "link", "status": "not_judged", "judged": 0, "introduced": 0, "old": 0, "findings": []}
    set_job_columns(quiet, job, checks=[{**check, "reason": "a build may create it", "notJudged": [part]}])
    with quiet.desk.database.write() as tx:
        event = NewEvent(EventKind("checked"), {"passed": True, "findings": [], "notJudged": ["link"]})
        update_job(quiet.desk.database, tx, job.id, [event])
    shown = viewer_client(quiet).get(project_path(quiet, f"/jobs/{job.id}")).text
    assert "not judged</span> link" in shown
    assert "a build may create it" in shown
    assert "docs/a.md:3" in shown
    assert "No problems found; not judged: link" in shown
    assert "All checks passed" not in shown
    answered = quiet.http.get(f"/v2/agent/{quiet.project.id}/job/{job.id}").json()["checks"][0]
    assert (answered["status"], answered["reason"]) == ("not_judged", "a build may create it")
    assert answered["notJudged"] == [part]


RISK_TEXTS = {
    "failed_check": "The link is broken.", "intended": "Broken. Intended: It is meant.",
    "refuted_evidence": "It runs.", "missing_evidence": "No evidence was given.", "objection": "It is wrong.",
    "vanished_address": "`/old` no longer exists.", "executed_file": "`x.js`: run by the build",
    "please_check": "`max_size` occurs nowhere else.", "unsure": "Whether it is so.", "not_judged": "links: too large",
}  # fmt: skip


def test_every_risk_is_shown_unfolded_at_the_top_of_the_job_and_of_its_review_page(quiet: Service) -> None:
    job = create_job(quiet)
    number = add_pull(quiet, job, body="A summary.")
    risks = [{"kind": kind, "text": text} for kind, text in RISK_TEXTS.items()]
    set_job_columns(quiet, job, risk=risks, summary="A summary.")
    public = quiet.desk.pulls.get_pull(quiet.project.id, number).link(quiet.url).removeprefix(quiet.url)
    viewer = viewer_client(quiet)
    for path in (project_path(quiet, f"/jobs/{job.id}"), project_path(quiet, f"/pulls/{number}"), public):
        page = viewer.get(path).text
        shown = page.partition('id="risk"')[2].partition("</ul>")[0]
        for kind, text in RISK_TEXTS.items():
            line = re.sub("`(.+)`", r"<code>\1</code>", text)
            assert f'<strong>{kind.replace("_", " ")}:</strong> <span class="lines">{line}</span>' in shown, path
        assert page.index('id="risk"') < page.index("A summary.")
        assert "<details" not in page.partition("<main")[2].partition('id="risk"')[0]
    assert quiet.http.get(f"/v2/agent/{quiet.project.id}/job/{job.id}").json()["risk"] == risks


def test_summary_is_rendered_once_on_the_job_page_and_on_the_review_page(quiet: Service) -> None:
    job, summary = create_job(quiet), "The flag is **new**."
    risk = {"kind": "unsure", "text": "Whether it is so."}
    number = add_pull(quiet, job, body=f"**Review first**\n\n- **unsure:** {risk['text']}\n\n{summary}\n")
    set_job_columns(quiet, job, summary=summary, risk=[risk])
    public = quiet.desk.pulls.get_pull(quiet.project.id, number).link(quiet.url).removeprefix(quiet.url)
    viewer = viewer_client(quiet)
    for path in (project_path(quiet, f"/jobs/{job.id}"), project_path(quiet, f"/pulls/{number}"), public):
        page = viewer.get(path).text
        assert page.count("<p>The flag is <strong>new</strong>.</p>") == page.count("The flag is") == 1, path
        assert page.count(risk["text"]) == page.count("Review first") == 1, path


@pytest.mark.parametrize("kinds", [["objection"], ["objection", "unsure"]])
def test_message_of_a_job_does_not_repeat_the_risks_above_it(quiet: Service, kinds: list[str]) -> None:
    job = create_job(quiet)
    message = "The base moved. Review first: objection. The pull request is a draft."
    risks = [{"kind": kind, "text": RISK_TEXTS[kind]} for kind in kinds]
    set_job_columns(quiet, job, risk=risks, status="completed", message=message)
    shown = viewer_client(quiet).get(project_path(quiet, f"/jobs/{job.id}")).text
    assert shown.count("Review first") == 1
    assert "<p>The base moved.  The pull request is a draft.</p>" in shown


def test_evidence_names_its_place_as_the_pull_request_does(quiet: Service) -> None:
    job = create_job(quiet)
    found = {"path": "a.md", "line": 3, "statement": "It runs.", "quote": "run()", "verified": True, "problem": None}
    source = {"repository": "code", "commit": "0" * 40, "path": "cli.py", "lines": "12", "url": None}
    ours = {**source, "repository": "", "lines": "1-2", "url": "https://forge.example/x"}
    set_job_columns(quiet, job, evidence=[{**found, "source": source}, {**found, "source": ours}])
    shown = viewer_client(quiet).get(project_path(quiet, f"/jobs/{job.id}")).text
    assert f"code: cli.py, line 12, commit {'0' * 12}<" in shown
    assert ">cli.py, lines 1-2</a>" in shown


def test_intended_finding_is_among_those_of_a_failed_check(quiet: Service) -> None:
    job = create_job(quiet)
    found = {"path": "docs/a.md", "line": 3, "message": "Broken.", "id": "00000000", "intended": "It is meant."}
    check = {"name": "unknown-name", "status": "failed", "judged": 1, "introduced": 1, "old": 0, "findings": [found]}
    set_job_columns(quiet, job, checks=[check])
    shown = viewer_client(quiet).get(project_path(quiet, f"/jobs/{job.id}")).text
    assert "failed</span> names that exist nowhere" in shown
    assert "Intended: It is meant." in shown
    assert "passed</span>" not in shown


def test_job_page_and_api_say_what_the_checks_judged_and_what_to_check(quiet: Service) -> None:
    job = create_job(quiet)
    names = [{"path": "docs/a.md", "line": 3, "message": "The setting `retry_backoff` occurs nowhere."}]
    check = {"status": "passed", "introduced": 0, "old": 0, "findings": []}
    checks = [
        {**check, "name": "link", "judged": 3},
        {**check, "name": "navigation", "judged": 1},
        {**check, "name": "unknown-name", "judged": 2, "status": "not_judged", "pleaseCheck": names},
        {**check, "name": "command", "judged": 1},
    ]
    set_job_columns(quiet, job, checks=checks)
    shown = viewer_client(quiet).get(project_path(quiet, f"/jobs/{job.id}")).text
    assert "passed</span> 3 links, 1 navigation entry, the check command" in shown
    assert "please check</span> names that exist nowhere" in shown
    assert "docs/a.md:3" in shown
    answered = quiet.http.get(f"/v2/agent/{quiet.project.id}/job/{job.id}").json()["checks"]
    assert [each["judged"] for each in answered] == [3, 1, 2, 1]
    assert [each["pleaseCheck"] for each in answered] == [[], [], names, []]


@pytest.mark.parametrize("link", ["javascript:alert(1)", "data:text/html,x", " https://example.org/", "//example.org/"])
def test_only_a_web_address_becomes_a_link(quiet: Service, link: str) -> None:
    viewer, job = viewer_client(quiet), create_job(quiet)
    set_job_columns(quiet, job, status="completed", pr_link=link)
    for path in ("/jobs", f"/jobs/{job.id}"):
        assert "ull request</a>" not in viewer.get(project_path(quiet, path)).text
    set_job_columns(quiet, job, pr_link="https://example.org/pulls/1")
    assert 'href="https://example.org/pulls/1"' in viewer.get(project_path(quiet, f"/jobs/{job.id}")).text


def test_too_large_diff_is_truncated_with_a_note(quiet: Service) -> None:
    job, viewer = create_job(quiet), viewer_client(quiet)
    old = b"".join(
        b"line %d, as long as lines of documentation are, with some words to spare\n" % n for n in range(3_000)
    )
    lines = old.replace(b"some", b"a few")
    with quiet.desk.database.write() as tx:
        save_changed_files_in(tx, job.id, [create_patch("a.md", old, lines), create_patch("b.md", None, b"text\n")])
    for look in ("unified", "split"):
        shown = viewer.get(project_path(quiet, f"/jobs/{job.id}?view={look}"))
        assert "too long for one page" in shown.text
        assert MAX_DIFF_LINES < len(shown.content) < LARGEST_PAGE
    assert "line 2999, " in viewer.get(project_path(quiet, f"/jobs/{job.id}?view=raw")).text


def test_binary_file_rename_and_missing_newline_are_described(quiet: Service) -> None:
    job, viewer = create_job(quiet), viewer_client(quiet)
    with quiet.desk.database.write() as tx:
        patches = [
            create_patch("a.png", b"\0a", b"\0b"),
            create_patch("b.md", None, b"text"),
            create_patch("c.md", b"x\n", None),
        ]
        moved = FilePatch("new.md", "renamed", "old.md", 0, 0, b"")
        save_changed_files_in(tx, job.id, [*patches, moved])
    shown = viewer.get(project_path(quiet, f"/jobs/{job.id}")).text
    for words in (
        "old.md → new.md",
        "Only the name changed.",
        "Binary file, not shown.",
        "no newline at the end of the file",
        ">added</span>",
        ">deleted</span>",
    ):
        assert words in shown, words


def test_prompt_that_was_not_understood_does_not_look_like_a_success(quiet: Service) -> None:
    viewer, job = viewer_client(quiet), create_job(quiet, "Write a poem")
    with quiet.desk.database.write() as tx:
        finished = {"status": "completed", "reason": "not_understood", "message": "It needs a language model."}
        update_job(quiet.desk.database, tx, job.id, [NewEvent(EventKind.FINISHED, finished)])
    set_job_columns(quiet, job, status="completed", phase="done", reason="not_understood", message=finished["message"])
    shown = viewer.get(project_path(quiet, f"/jobs/{job.id}")).text
    assert '<span class="state warn">completed</span> <strong>Not understood</strong>' in shown
    assert '<div class="notice description warn"><p>It needs a language model.</p></div>' in shown
    assert '<li class="warn"' in shown
    assert "Not understood: It needs a language model." in shown
    assert '<span class="state warn">needs an answer</span>' in viewer.get(project_path(quiet, "/jobs?text=poem")).text


def test_branch_is_shown_once_it_was_pushed(quiet: Service) -> None:
    viewer, job = viewer_client(quiet), create_job(quiet)
    page = project_path(quiet, f"/jobs/{job.id}")
    assert job.branch not in viewer.get(page).text
    with quiet.desk.database.write() as tx:
        pushed = NewEvent(EventKind.PUSHED, {"branch": job.branch, "commit": "0" * 40})
        update_job(quiet.desk.database, tx, job.id, [pushed])
    assert f"<dt>Branch</dt><dd><code>{job.branch}</code>" in viewer.get(page).text


def test_review_page_waits_for_a_running_job(quiet: Service) -> None:
    editor, job = editor_client(quiet), create_job(quiet)
    number = add_pull(quiet, job)
    set_job_columns(quiet, job, status="active")
    review = project_path(quiet, f"/pulls/{number}")
    assert offered_actions(editor, review) == {"close"}
    assert post_form(editor, f"{review}/merge").status_code == 303
    assert "The job is still running. Wait for it" in editor.get(review).text


def test_public_review_page_links_to_the_dashboard_when_signed_in(quiet: Service) -> None:
    number = add_pull(quiet, create_job(quiet))
    public = quiet.desk.pulls.get_pull(quiet.project.id, number).link("")
    inside = f'href="{project_path(quiet, f"/pulls/{number}")}"'
    assert inside in viewer_client(quiet).get(public).text
    stranger = httpx.get(quiet.url + public, headers={"Accept": "text/html"}, timeout=60)
    assert (stranger.status_code, inside in stranger.text, "<form" in stranger.text) == (200, False, False)
    assert httpx.get(f"{quiet.url}{public}?view=raw", timeout=60).headers["content-type"].startswith("text/plain")


def test_every_event_tool_reason_and_phase_has_a_description() -> None:
    assert set(EVENT_KINDS) == set(EventKind)
    assert set(TOOL_SENTENCES) == {*AGENT_TOOLS, "check", "run_checks"}
    assert (set(REASON_LABELS), set(PHASE_LABELS)) == (set(Reason), set(Phase))


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "under 1 s"), (59, "59 s"), (61, "1 min 1 s"), (3600 * 30 + 60, "30 h 1 min")]
)
def test_duration_is_formatted_with_at_most_two_units(seconds: float, said: str) -> None:
    assert format_duration(int(seconds * 1000)) == said


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("phase", {"phase": "thinking"}, "Thinking"),
        ("resumed", {"phase": "preparing", "attempt": 2}, "Resumed after an interruption (attempt 2)"),
        ("tool", {"tool": "search", "ok": True, "result": "3 lines match."}, "Searched the files: 3 lines match"),
        ("tool", {"tool": "move", "ok": True, "result": "Moved a to b."}, "Moved a to b"),
        ("tool", {"tool": "dance", "ok": False, "result": "No."}, "Could not use dance: No."),
        ("checked", {"passed": False, "findings": ["a", "b"]}, "Checks found 2 problems"),
        ("waiting", {"seconds": 5, "why": "it is away"}, "Waiting 5 s: it is away"),
        ("finished", {"status": "failed", "message": "Out of time."}, "Failed: Out of time."),
        (
            "finished",
            {"status": "completed", "message": "A draft. No.", "run": {"reason": "no_changes", "message": "No."}},
            "Changed nothing: No.",
        ),
        ("archived", {"from": "failed"}, "Archived"),
        ("unarchived", {"status": "failed"}, "Unarchived"),
    ],
)
def test_an_event_is_a_short_sentence(kind: str, data: dict[str, Any], said: str) -> None:
    assert step_from_event(JobEvent(1, clock.now(), kind, data)).text == said


def test_pages_say_who_asked_for_a_job_and_for_each_follow_up(quiet: Service) -> None:
    editor = editor_client(quiet)
    job_id = quiet.client.create_job("Asked by a key")["id"]
    path = project_path(quiet, f"/jobs/{job_id}")
    assert post_form(editor, f"{path}/message", prompt="Asked by a person").status_code == 303
    comment = Creator(kind=CreatorKind.REVIEW_COMMENT, name="octo <b>")
    quiet.desk.jobs.add_message(quiet.project, job_id, "Asked on the forge", created_by=comment)
    shown = re.findall(r"by <bdi>(.*?)</bdi></h3>", editor.get(path).text)
    assert shown == ["key “API key”", "Editor", "octo &lt;b&gt;, in a comment"]
    assert "by <bdi>key “API key”</bdi>" in editor.get(project_path(quiet, "/jobs")).text
