"""Tokens and keys reach only their recipients, whether a job succeeds or fails."""

import base64
import html
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.message import Message
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.jobs.conftest import MakeWorkspace
from tests.jobs.drills import (
    FILES,
    FIX_SCRIPT,
    SCRIPTED_MODEL,
    DrillProject,
    RawResponse,
    ResponseRule,
    call_edit,
    open_drill_project,
    serve_with_model_server,
)
from tests.jobs.publish.forges.stub import StubAnswer, serve_stub
from tests.jobs.secret_scan import (
    ProcessWatch,
    find_secrets,
    read_api_answers,
    read_files,
    read_pull_requests,
    read_rows,
)
from tests.support.drills import mark_drills
from tests.support.model_server import ModelServer, fail, say, send
from tests.support.models.connected_models import (
    FIX_TYPO_CONVERSATION,
    PROVIDER_KEY,
    PROVIDER_MODELS,
    ask_failing_model,
    ask_model,
)
from tests.support.service import Service

Running = tuple[Service, ModelServer]
FETCH, PUSH, OPEN = "git-upload-pack", "git-receive-pack", r"POST .*/(pulls|merge_requests)(\?|$)"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve_with_model_server(tmp_path_factory.mktemp("desk")) as running:
        yield running


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def collect_presented_secrets(place: DrillProject) -> dict[str, str]:
    """Returns the secrets that callers sent to the forge, and those that it minted for them."""
    found = {f"credential {n}": value.partition(" ")[2] for n, value in enumerate(place.fake.shown)}
    return found | {f"minted {n}": value for n, value in enumerate(place.fake.tokens)}


def find_leaks(place: DrillProject, caplog: pytest.LogCaptureFixture, watch: ProcessWatch | None = None) -> list[str]:
    """Finds every place that shows a secret of the project, or a credential that the forge received."""
    data = place.service.desk.settings.data
    logged = [("the log", caplog.text.encode())]
    told = [f"{record.getMessage()} {record.__dict__}".encode() for record in caplog.records]
    places = [
        *read_files(data),
        *read_rows(data / "copydesk.db"),
        *read_files(place.folder),
        *read_api_answers(place),
        *read_pull_requests(place.fake),
    ]
    seen = list(watch.contents) if watch else []
    return find_secrets(
        {**place.secrets, **collect_presented_secrets(place)},
        [*places, *logged, *(("a log record", one) for one in told), *seen],
    )


@contextmanager
def open_project(way: str, running: Running, folder: Path, **policy: Any) -> Iterator[DrillProject]:
    with open_drill_project(way, *running, folder / "forge", **policy) as place:
        yield place


def encode_credentials(headers: Message) -> str:
    """Returns the caller's credentials in plain form and in every encoding that a careless server might repeat."""
    header = headers.get("Authorization", "")
    value = header.partition(" ")[2]
    plain = base64.b64decode(value).decode().partition(":")[2] if header.startswith("Basic ") else value
    return f"{header} {plain} {quote(plain, safe='')} {base64.b64encode(plain.encode()).decode()}"


def echo_credentials(status: int, kind: str = "application/json", times: int = 1000) -> ResponseRule:
    """Builds a response that repeats the caller's credentials, for the first `times` calls."""
    left = [times]

    def answer(headers: Message) -> RawResponse | None:
        left[0] -= 1
        if left[0] < 0:
            return None
        said = f"You sent {encode_credentials(headers)} and that will not do."
        body = json.dumps({"message": said, "error": said}) if "json" in kind else html.escape(said)
        challenge = [("WWW-Authenticate", 'Basic realm="git"')] if status == 401 else []
        return status, [("Content-Type", kind), *challenge], body.encode()

    return answer


@pytest.mark.parametrize("way", mark_drills(("github", "gitlab", "gitea", "github-app"), default=("github-app",)))
def test_complete_run_exposes_no_secret(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    planted = {"a variable of the service": "planted-in-the-environment-4711"}
    monkeypatch.setenv("PLANTED", *planted.values())
    command = "env; cat /proc/*/environ" if way == "github" else None
    with open_project(way, running, tmp_path, check_command=command) as place, ProcessWatch() as watch:
        place.listen()
        place.fake.faults.slow(0.15, where=f"POST .*(?:{FETCH}|{PUSH})")
        job = place.run_job(*FIX_SCRIPT, call_edit("# Other", "# Another", "docs/other.md"), FIX_SCRIPT[1])
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        place.fake.comment(1, "@copydesk name the other one too.")
        place.fake.webhooks.flush()
        job = place.client.wait(job["id"])
        assert (job["status"], job["reason"], len(place.fake.pulls)) == ("completed", None, 1), job["message"]
    assert find_secrets(collect_presented_secrets(place), watch.in_git), "git has it, and so would be seen with it"
    assert find_secrets(planted, watch.contents | watch.in_git) == []
    assert find_leaks(place, caplog, watch) == []
    sent = json.dumps([[request.body, request.headers] for request in running[1].requests]).encode()
    others = {name: value for name, value in place.secrets.items() if name != "model_key_compatible"}
    assert find_secrets(others, [("what the model was sent", sent)]) == []


FAILURES: dict[str, tuple[str, ResponseRule, str, str]] = {
    "401 at fetch": (FETCH, echo_credentials(401, "text/plain"), "repository_error", "refused the token"),
    "403 at fetch": (FETCH, echo_credentials(403, "text/plain"), "repository_error", "refused the token"),
    "git's words at fetch": (FETCH, echo_credentials(400, "text/plain"), "repository_error", "git fetch failed"),
    "401 at push": (PUSH, echo_credentials(401, "text/plain"), "repository_error", "refused the token"),
    "git's words at push": (PUSH, echo_credentials(422, "text/plain"), "repository_error", "git push failed"),
    "401 at the API": (OPEN, echo_credentials(401), "repository_error", "rejected the token"),
    "403 at the API": (OPEN, echo_credentials(403), "repository_error", "answered 403"),
    "the API's refusal": (OPEN, echo_credentials(422), "publish_refused", "answered 422"),
    "an error page": (OPEN, echo_credentials(403, "text/html"), "repository_error", "answered 403"),
}


TRIED = list(zip(FAILURES, cycle(("gitea", "github-app", "gitlab", "github"))))


@pytest.mark.deep
@pytest.mark.parametrize(("failure", "way"), mark_drills(TRIED, default=TRIED[::4]))
def test_token_echoed_by_a_failing_forge_is_redacted(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str, failure: str
) -> None:
    where, rule, reason, words = FAILURES[failure]
    with open_project(way, running, tmp_path) as place:
        place.add_response_rule(where, rule)
        job = place.run_job(*FIX_SCRIPT)
        assert (job["status"], job["reason"]) == ("failed", reason), job["message"]
        assert words in (job["message"] or "")
        assert find_leaks(place, caplog) == []


@pytest.mark.deep
@pytest.mark.parametrize("where", mark_drills((PUSH, OPEN), default=(PUSH,)))
def test_token_echoed_by_an_unavailable_forge_is_redacted(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    with open_project("gitea", running, tmp_path) as place:
        place.add_response_rule(
            where, echo_credentials(503, "text/plain" if where == PUSH else "application/json", times=1)
        )
        job = place.run_job(*FIX_SCRIPT)
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        waits = [event["data"] for event in place.client.events(job["id"]) if event["kind"] == "waiting"]
        assert any("503" in wait["why"] for wait in waits)
        assert find_leaks(place, caplog) == []


@pytest.mark.deep
@pytest.mark.parametrize("where", mark_drills((FETCH, PUSH, OPEN, "GET .*/api/"), default=(PUSH,)))
def test_redirect_sends_no_token_to_another_host(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    with serve_stub(StubAnswer(200, {})) as elsewhere, open_project("github", running, tmp_path) as place:
        place.add_response_rule(where, lambda _headers: (307, [("Location", f"{elsewhere.url}/x")], b""))
        job = place.run_job(*FIX_SCRIPT)
        assert (job["status"], job["reason"]) == ("failed", "repository_error"), job["message"]
        assert elsewhere.requests == []
        assert find_leaks(place, caplog) == []


@pytest.mark.deep
def test_response_to_a_failed_webhook_contains_no_secret(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_project("gitea", running, tmp_path) as place:
        place.listen()
        place.run_job(*FIX_SCRIPT)
        place.add_response_rule("/api/", echo_credentials(500))
        place.fake.comment(1, "@copydesk go on.")
        place.fake.webhooks.flush()
        delivery = place.fake.webhooks.deliveries[-1]
        signed = place.fake.sign(delivery, delivery.hook)
        answer = place.service.http.post(delivery.hook.url, content=delivery.body, headers=dict(signed))
        forged = place.service.http.post(delivery.hook.url, content=b"{}", headers=dict(signed))
        assert (answer.status_code, forged.status_code) == (202, 401)
        assert answer.json()["outcome"] == "kept"
        assert find_secrets(place.secrets, [("the answer", answer.content), ("the refusal", forged.content)]) == []
        assert find_leaks(place, caplog) == []


@pytest.mark.deep
@pytest.mark.parametrize("status", [400, 401, 500])
def test_key_echoed_by_a_model_provider_is_redacted(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    with open_project("gitea", running, tmp_path) as place:
        key = place.secrets["model_key_compatible"]
        said = (
            f"Wrong key {key}, {key[:14]}…{key[-6:]}, {base64.b64encode(key.encode()).decode()}, {quote(key, safe='')}"
        )
        body = json.dumps({"error": {"message": f"{said} in Authorization: Bearer {key}", "type": "x", "code": None}})
        # Transient errors are retried, so a permanent error follows.
        job = place.run_job([send(body, status=status), fail(401, said)])
        assert (job["status"], job["reason"]) == ("failed", "model_error"), job["message"]
        assert find_leaks(place, caplog) == []


@pytest.mark.parametrize("name", PROVIDER_MODELS)
def test_provider_libraries_do_not_log_the_key(
    workspace: MakeWorkspace, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    ask_model([say("Hello.")], FIX_TYPO_CONVERSATION, workspace(FILES), name)
    failed, _ = ask_failing_model([fail(401, f"Incorrect API key provided: {PROVIDER_KEY}.")], workspace(FILES), name)
    log = [("the log", "\n".join(f"{one.getMessage()} {one.__dict__}" for one in caplog.records).encode())]
    assert find_secrets({"the key": PROVIDER_KEY}, [*log, ("the error", str(failed).encode())]) == []


@pytest.mark.deep
def test_trailing_newline_of_an_environment_token_is_removed(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_project("gitea", running, tmp_path) as place:
        monkeypatch.setenv("DRILL_TOKEN", place.secrets["forge_token"] + "\n")
        project = place.service.desk.projects.create(
            "Docs",
            repository=place.service.project.repository,
            ref="main",
            forge="gitea",
            token_env="DRILL_TOKEN",
            actor="t",
        )
        key = place.service.desk.keys.create(project.id, actor="test")[1]
        place.service = replace(place.service, project=project, key=key)
        place.secrets["another key"] = key
        job = place.run_job(*FIX_SCRIPT)
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert find_leaks(place, caplog) == []


def test_token_invalid_in_a_header_is_not_quoted(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_project("gitea", running, tmp_path) as place:
        place.secrets["forge_token"] = "first-part-of-it\x0band-the-rest-of-it"
        desk, project = place.service.desk, place.service.project
        desk.secrets.set(project.id, "forge_token", place.secrets["forge_token"], actor="test")
        job = place.run_job(*FIX_SCRIPT)
        assert (job["status"], job["reason"]) == ("failed", "repository_error")
        assert "other invalid characters" in (job["message"] or "")
        parts = dict(enumerate(place.secrets["forge_token"].split("\x0b")))
        place.secrets |= {f"part {n}": part for n, part in parts.items()}
        assert find_leaks(place, caplog) == []


@pytest.mark.deep
def test_a_secret_in_a_prompt_is_not_quoted_in_the_pull_request(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_project("github", running, tmp_path) as place:
        token = place.secrets["forge_token"]
        job = place.run_job(*FIX_SCRIPT, prompt=f"Mend the page; the token is {token}, the key {place.service.key}.")
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert "> Mend the page; the token is •••, the key •••." in place.fake.pulls[0].body
        assert find_secrets(place.secrets, [*read_pull_requests(place.fake), *read_files(place.folder)]) == []


@pytest.mark.deep
def test_a_job_that_runs_out_of_time_leaves_no_secret_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        serve_with_model_server(tmp_path, job_minutes=1 / 60) as running,
        open_project("gitlab", running, tmp_path) as place,
    ):
        place.fake.faults.slow(3, where=f"POST .*{PUSH}")
        with ProcessWatch() as watch:
            job = place.run_job(*FIX_SCRIPT)
        assert (job["status"], job["reason"]) == ("failed", "timed_out"), job["message"]
        assert find_leaks(place, caplog, watch) == []


@pytest.mark.drill
def test_a_service_that_is_killed_in_mid_push_leaves_no_secret_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        serve_with_model_server(tmp_path, with_worker=False) as running,
        open_project("github", running, tmp_path) as place,
    ):
        data, temporary = place.service.desk.settings.data, tmp_path / "tmp"
        temporary.mkdir()
        place.fake.faults.slow(10, where=f"POST .*{PUSH}")
        place.start(*FIX_SCRIPT)
        environment = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(temporary),
            "COPYDESK_DATA": str(data),
            "COPYDESK_MODEL_URL": running[1].url,
            "COPYDESK_MODELS": SCRIPTED_MODEL,
            "COPYDESK_LOG_LEVEL": "debug",
        }
        with open(tmp_path / "log", "wb") as log, ProcessWatch() as watch:
            worker = subprocess.Popen([sys.executable, "-m", "copydesk", "work"], env=environment, stderr=log)
            try:
                mirrors = str(data / "mirrors").encode()
                _wait_until(
                    lambda: any(mirrors in said and b"receive-pack" in said for _, said in list(watch.contents))
                )
                time.sleep(0.2)
            finally:
                worker.send_signal(signal.SIGKILL)
                worker.wait()
        place.fake.faults.clear()
        assert (tmp_path / "log").stat().st_size > 0
        assert find_leaks(place, caplog, watch) == []
        assert find_secrets(place.secrets, [*read_files(tmp_path / "log"), *read_files(temporary)]) == []


def _wait_until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)
