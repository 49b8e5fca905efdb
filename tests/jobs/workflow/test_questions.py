"""A run may end with a question. The answer is a follow-up, which continues from the edits so far."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from copydesk.cli.job_watcher import format_event
from copydesk.jobs.agent.conversation import Prompt
from tests.crash.forge_case import open_forge_case
from tests.crash.harness import SCRIPT
from tests.jobs.publish.forges.stage import create_project, fake_forge
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import list_branches, make_repository
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish
from tests.support.service import Service, serve

FILES = {"docs/index.md": b"# Hello\n\nThe colour of things.\n"}
ASK = calls(("ask", {"question": "American or British <spelling>?", "choices": ["American", "British"]}))
EDIT = edit("docs/index.md", "colour", "color")


@contextmanager
def open_service(folder: Path, *script: Turn) -> Iterator[tuple[Service, ScriptedModel]]:
    model = ScriptedModel(list(script))
    repository = make_repository(folder / "docs.git", FILES)
    with serve(folder / "data", repository=repository, model=lambda _name: model) as service:
        yield service, model


@pytest.mark.deep
def test_question_ends_the_run_and_the_answer_continues_it(tmp_path: Path) -> None:
    with open_service(tmp_path, EDIT, ASK, finish("Spelling")) as (service, model):
        asked = service.client.wait(service.client.create_job("Fix the spelling.")["id"])
        assert (asked["status"], asked["reason"], asked["prLink"]) == ("completed", "question", None)
        assert asked["question"] == {"text": "American or British <spelling>?", "choices": ["American", "British"]}
        assert asked["message"] == "American or British <spelling>?"
        assert set(list_branches(service.repository)) == {"main"}
        service.client.message_job(asked["id"], "American")
        assert service.client.get_job(asked["id"])["question"] is None
        done = service.client.wait(asked["id"])
        assert (done["status"], done["reason"], done["question"]) == ("completed", None, None)
        assert [file["path"] for file in done["filesChanged"]] == ["docs/index.md"], "the edit before the question"
        assert "American" in str(model.requests[-1][-1])


def test_question_next_to_a_refused_call_is_refused(tmp_path: Path) -> None:
    both = calls(("read", {"path": "gone.md"}), ("ask", {"question": "What now?"}))
    with open_service(tmp_path, both, finish()) as (service, _):
        job = service.client.wait(service.client.create_job("Fix the spelling.")["id"])
        assert (job["reason"], job["question"]) == ("no_changes", None)


def test_secret_in_a_question_is_redacted(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    with open_service(tmp_path, calls(("ask", {"question": f"Is {secret} right?"}))) as (service, _):
        job = service.client.wait(service.client.create_job("Fix the spelling.")["id"])
        assert job["question"] is not None
        assert secret not in str(job)


@pytest.mark.deep
def test_dashboard_shows_the_question_with_buttons(tmp_path: Path) -> None:
    with open_service(tmp_path, ASK, EDIT, finish("Spelling")) as (service, _):
        job = service.client.wait(service.client.create_job("Fix the spelling.")["id"])
        page = f"/projects/{service.project.id}/jobs/{job['id']}"
        shown = signed_in_client(service, "editor").get(page).text
        assert "American or British &lt;spelling&gt;?" in shown
        assert '<input type="hidden" name="prompt" value="American">' in shown
        assert "<button>British</button>" in shown
        assert "<button>British</button>" not in signed_in_client(service, "viewer").get(page).text


@pytest.mark.deep
def test_unsure_points_are_follow_ups_of_one_click(tmp_path: Path) -> None:
    unsure = {"title": "T", "summary": "S", "unsure": "- The title.\n- Whether “hue” fits.\n"}
    with open_service(tmp_path, EDIT, calls(("finish", unsure)), finish()) as (service, model):
        job = service.client.wait(service.client.create_job("Fix the spelling.")["id"])
        assert [risk["text"] for risk in job["risk"]] == ["The title.", "Whether “hue” fits."]
        editor = signed_in_client(service, "editor")
        page = f"/projects/{service.project.id}/jobs/{job['id']}"
        shown = editor.get(page).text
        value = "Please resolve this point, which you were unsure of:\n\n> The title."
        assert f'name="prompt" value="{value.replace(">", "&gt;")}"' in shown
        token = csrf_token_from_html(shown)
        assert editor.post(f"{page}/message", data={"token": token, "prompt": value}).status_code in (200, 303)
        service.client.wait(job["id"])
        assert Prompt(text=value) == model.requests[-1][-1]


def test_version_1_shows_the_question(tmp_path: Path) -> None:
    with open_service(tmp_path, ASK) as (service, _):
        job = service.client.wait(service.client.create_job("Fix the spelling.")["id"])
        headers = {"Authorization": f"Bearer {service.key}"}
        address = f"{service.url}/v1/agent/{service.project.id}/job/{job['id']}"
        session = httpx.get(address, headers=headers, timeout=60).json()
        assert session["messageToUser"] == "American or British <spelling>?\n- American\n- British"
        assert session["haultReason"] == "completed"


def test_watching_a_job_prints_the_question(tmp_path: Path) -> None:
    with open_service(tmp_path, ASK) as (service, _):
        job = service.client.wait(service.client.create_job("Fix the spelling.")["id"])
        last = list(service.client.events(job["id"]))[-1]
        assert format_event(last).endswith("question: American or British <spelling>?")


@pytest.mark.deep
def test_question_is_a_comment_on_the_pull_request(tmp_path: Path) -> None:
    ask = calls(("ask", {"question": "Close #12, @rita?", "choices": ["Yes", "No"]}))
    with (
        open_service(tmp_path, EDIT, finish("Spelling"), ask) as (service, _),
        fake_forge("github", tmp_path / "forge", FILES) as fake,
    ):
        project = create_project(service.desk, "github", fake)
        key = service.desk.keys.create(project.id, actor="test")[1]
        client = replace(service, project=project, key=key).client
        job = client.wait(client.create_job("Fix the spelling.")["id"])
        assert job["prLink"]
        client.message_job(job["id"], "And the rest?")
        assert client.wait(job["id"])["reason"] == "question"
        [pull] = fake.pulls
        text = pull.comments[-1].body
        assert "**Question**" in text
        assert "- Yes\n- No" in text
        assert "#12" not in text, "no reference to an issue"


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
@pytest.mark.parametrize("point", ["ask:before", "ask:acted"])
def test_crash_while_asking_comments_once(tmp_path: Path, kind: str, point: str) -> None:
    with open_forge_case(kind, "sqlite", tmp_path) as case:
        case.script = (*SCRIPT[:2], calls(("ask", {"question": "American or British?"})))
        case.recover()
        case.send_message()
        case.crash(point)
        case.recover()
        assert case.job.reason == "question"
        [pull] = case.fake.pulls
        assert ["American or British?" in comment.body for comment in pull.comments] == [True]
