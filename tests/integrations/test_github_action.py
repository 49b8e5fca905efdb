"""The GitHub Action, run step by step like a runner does, against a served Copydesk."""

import json
from pathlib import Path

import pytest

from tests.integrations.ci_runner import read_action, run_action
from tests.integrations.conftest import CiService
from tests.integrations.scripted_server import Response, ScriptedServer
from tests.support.scripted_model import edit, finish
from tests.support.service import Service

HOSTILE = """Say "hi" to 'all' of `them`; $(touch injected) ${HOME} $COPYDESK_API_KEY %0A
::set-output name=status::forged
::error::forged
##[error]forged
status=forged
EOF
${{ github.token }} \\ ✓"""
GIVEN = {"project": "proj_1", "api-key": "desk_secret", "prompt": "Change it"}


@pytest.fixture
def inputs(running: CiService) -> dict[str, str]:
    return {**running.inputs, "api-key": running.service.key, "prompt": "Change it"}


@pytest.mark.deep
def test_job_ends_with_the_link_of_its_pull_request(running: CiService, inputs: dict[str, str], tmp_path: Path) -> None:
    running.follow(edit("docs/index.md", "colour", "color"), finish("American spelling", "Changed one word."))
    result = run_action({**inputs, "title": "Spelling", "draft": "true"}, tmp_path)
    assert result.exit_code == 0, result.log
    job = running.service.client.get_job(result.outputs["job-id"])
    assert result.outputs == {"status": "completed", "job-id": job["id"], "pr-link": job["prLink"]}
    assert job["prLink"]
    assert (job["title"], job["prompt"]) == ("Spelling", "Change it")
    page = f"{running.service.url}/projects/{running.service.project.id}/jobs/{job['id']}"
    assert f"[{job['id']}]({page})" in result.summary
    assert f"<{job['prLink']}>" in result.summary
    assert "Changed one word." in result.summary


@pytest.mark.deep
def test_key_is_masked_before_anything_else_is_printed(
    running: CiService, inputs: dict[str, str], tmp_path: Path
) -> None:
    running.follow(finish("Nothing", f"The key is {inputs['api-key']}."))
    result = run_action({**inputs, "api-key": f" {inputs['api-key']}\n"}, tmp_path)
    assert result.commands[0] == f"::add-mask::{inputs['api-key']}"
    assert inputs["api-key"] not in result.log + result.summary + json.dumps(result.outputs)


@pytest.mark.deep
def test_prompt_reaches_the_job_unchanged_and_runs_nothing(
    running: CiService, inputs: dict[str, str], tmp_path: Path
) -> None:
    running.follow(finish("Nothing", "Nothing to do."))
    result = run_action({**inputs, "prompt": HOSTILE}, tmp_path)
    assert running.service.client.get_job(result.outputs["job-id"])["prompt"] == HOSTILE
    assert not list(tmp_path.rglob("injected"))
    assert result.outputs["status"] == "completed"


@pytest.mark.deep
def test_text_of_the_model_gives_no_commands_to_the_runner(
    running: CiService, inputs: dict[str, str], tmp_path: Path
) -> None:
    summary_of_model = f"```\n<img src=//example.org/x>\n{HOSTILE}"
    running.follow(edit("docs/index.md", "things", "a thing"), finish(HOSTILE, summary_of_model))
    result = run_action(inputs, tmp_path)
    assert result.exit_code == 0, result.log
    assert result.command_names == ["add-mask"]
    assert result.outputs["status"] == "completed"
    assert result.outputs["pr-link"].startswith("http")
    before, fence, block = result.summary.partition("````text\n")
    assert fence
    assert "<img" in block
    assert "<img" not in before


@pytest.mark.deep
def test_message_of_a_job_gives_no_commands_to_the_runner(
    running: CiService, inputs: dict[str, str], tmp_path: Path
) -> None:
    running.follow(finish(HOSTILE, HOSTILE))
    result = run_action({**inputs, "fail-on": "no-pull-request"}, tmp_path)
    assert result.exit_code == 1
    assert result.command_names == ["add-mask", "error"]
    assert (result.outputs["status"], result.outputs["pr-link"]) == ("completed", "")
    assert "set-output" in result.summary


@pytest.mark.deep
def test_failed_job_fails_the_step_unless_it_is_told_not_to(
    running: CiService, inputs: dict[str, str], tmp_path: Path
) -> None:
    wrong = {**inputs, "ref": "no-such-branch"}
    result = run_action(wrong, tmp_path)
    assert (result.exit_code, result.outputs["status"], result.outputs["pr-link"]) == (1, "failed", "")
    assert "no-such-branch" in result.commands[-1]
    assert "failed" in result.summary
    (tmp_path / "again").mkdir()
    assert run_action({**wrong, "fail-on": "never"}, tmp_path / "again").exit_code == 0


@pytest.mark.deep
def test_automation_is_run_by_id_and_by_name(running: CiService, inputs: dict[str, str], tmp_path: Path) -> None:
    created = running.service.client.create_automation(
        name="Weekly Fix", kind="custom", prompt="Fix it", trigger={"type": "api"}
    )
    running.follow(finish("Nothing", "Nothing to do."))
    for number, automation in enumerate((created["id"], "weekly fix")):
        folder = tmp_path / str(number)
        folder.mkdir()
        result = run_action({**inputs, "prompt": "", "automation": automation}, folder)
        assert result.exit_code == 0, result.log
        assert running.service.client.get_job(result.outputs["job-id"])["automation"] == created["id"]
    unknown = run_action({**inputs, "prompt": "", "automation": "No such"}, tmp_path)
    assert unknown.exit_code == 1
    assert "no automation with the name 'No such'" in unknown.log


def test_job_that_does_not_end_in_time_fails_the_step_and_continues(idle: Service, tmp_path: Path) -> None:
    given = {"url": idle.url, "project": idle.project.id, "api-key": idle.key, "prompt": "Change it", "timeout": "1s"}
    result = run_action(given, tmp_path)
    assert (result.exit_code, result.outputs["status"], result.outputs["pr-link"]) == (1, "timed_out", "")
    assert "still running" in result.log
    assert idle.client.get_job(result.outputs["job-id"])["status"] == "active"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"api-key": ""}, "COPYDESK_API_KEY is empty"),
        ({"api-key": "two words"}, "COPYDESK_API_KEY contains a space"),
        ({"project": " "}, "COPYDESK_PROJECT is empty"),
        ({"url": "desk.example.org"}, "COPYDESK_URL must begin with https://"),
        ({"prompt": ""}, "either COPYDESK_PROMPT or COPYDESK_AUTOMATION"),
        ({"automation": "auto_1"}, "either COPYDESK_PROMPT or COPYDESK_AUTOMATION"),
        ({"timeout": "soon"}, "COPYDESK_TIMEOUT must be a duration"),
        ({"fail-on": "always"}, "COPYDESK_FAIL_ON must be one of"),
        ({"draft": "maybe"}, "COPYDESK_DRAFT must be true or false"),
    ],
)
def test_wrong_input_is_named_and_nothing_is_created(
    idle: Service, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    before = len(idle.client.list_jobs(limit=100)["jobs"])
    given = {"url": idle.url, "project": idle.project.id, "api-key": idle.key, "prompt": "Change it", **change}
    result = run_action(given, tmp_path)
    assert result.exit_code == 2
    assert words in result.commands[-1]
    assert len(idle.client.list_jobs(limit=100)["jobs"]) == before


@pytest.mark.deep
@pytest.mark.parametrize("scopes", [None, ["read"]])
def test_wrong_key_fails_with_the_reason(idle: Service, tmp_path: Path, scopes: list[str] | None) -> None:
    key = idle.new_key(scopes=scopes) if scopes else "desk_" + "A" * 38
    given = {"url": idle.url, "project": idle.project.id, "api-key": key, "prompt": "Change it"}
    result = run_action(given, tmp_path)
    assert (result.exit_code, result.outputs["job-id"]) == (1, "")
    assert ("Check the API key" if scopes is None else "needs the scope 'write'") in result.commands[-1]


@pytest.mark.deep
def test_server_that_is_down_fails_the_step_with_its_address(tmp_path: Path) -> None:
    with ScriptedServer((200, {}, {})) as server:
        url = server.url
    result = run_action({**GIVEN, "url": url}, tmp_path)
    assert result.exit_code == 1
    assert f"{url} cannot be reached" in result.commands[-1]


@pytest.mark.deep
def test_unavailable_service_is_asked_again_with_the_same_idempotency_key(tmp_path: Path) -> None:
    busy: Response = (503, {"Retry-After": "0"}, {"error": "Busy.", "code": "store_down"})
    active, done = {"id": "job_1", "status": "active", "phase": "queued"}, {"id": "job_1", "status": "completed"}
    with ScriptedServer(busy, busy, (201, {}, active), (200, {}, active), busy, (200, {}, done)) as server:
        result = run_action({**GIVEN, "url": server.url}, tmp_path)
    assert (result.exit_code, result.outputs["status"]) == (0, "completed"), result.log
    posts = [headers["Idempotency-Key"] for method, _, headers in server.requests if method == "POST"]
    assert len(posts) == 3
    assert len(set(posts)) == 1


def test_key_that_is_revoked_while_waiting_fails_the_step_with_the_job(tmp_path: Path) -> None:
    refused: Response = (401, {}, {"error": "The key was rejected.", "code": "key_rejected"})
    with ScriptedServer((201, {}, {"id": "job_1"}), refused) as server:
        result = run_action({**GIVEN, "url": server.url}, tmp_path)
    assert (result.exit_code, result.outputs["status"], result.outputs["job-id"]) == (1, "unknown", "job_1")


def test_key_is_not_sent_to_the_target_of_a_redirect(tmp_path: Path) -> None:
    with ScriptedServer((200, {}, {})) as other, ScriptedServer((302, {"Location": other.url}, {})) as server:
        result = run_action({**GIVEN, "url": server.url}, tmp_path)
    assert result.exit_code == 1
    assert f"redirects to {other.url}" in result.commands[-1]
    assert other.requests == []


@pytest.mark.parametrize("body", [b"<html>Hello</html>", b"[]", b'{"id": "../../x\\n::error::forged"}'])
def test_server_that_is_not_copydesk_fails_the_step(tmp_path: Path, body: bytes) -> None:
    with ScriptedServer((200, {}, body)) as server:
        result = run_action({**GIVEN, "url": server.url}, tmp_path)
    assert result.exit_code == 1
    assert result.command_names == ["add-mask", "error"]


@pytest.mark.deep
def test_hostile_link_and_status_cannot_forge_outputs(tmp_path: Path) -> None:
    job = {"id": "job_1", "status": "completed\nstatus=x", "prLink": "https://x.org/1\npr-link=forged\n::error::x"}
    with ScriptedServer((201, {}, {"id": "job_1"}), (200, {}, job)) as server:
        result = run_action({**GIVEN, "url": server.url}, tmp_path)
    assert result.outputs["pr-link"] == ""
    assert "\n" not in result.outputs["status"]
    assert result.command_names == ["add-mask"]


def test_no_expression_stands_in_a_command() -> None:
    for step in read_action()["runs"]["steps"]:
        assert "${{" not in step["run"]
