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
from tests.jobs.drills import FILES, MENDED, MODEL, Place, Rule, Wire, drilled, edited, place_on
from tests.jobs.publish.forges.stub import Answer, stub
from tests.jobs.traces import Watch, answers, files, pulls, rows, traces
from tests.support.drills import drills
from tests.support.model_server import ModelServer, fail, say, send
from tests.support.models.asking import ASKED, KEY, PROVIDERS, failure, heard
from tests.support.service import Service

Running = tuple[Service, ModelServer]
FETCH, PUSH, OPEN = "git-upload-pack", "git-receive-pack", r"POST .*/(pulls|merge_requests)(\?|$)"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with drilled(tmp_path_factory.mktemp("desk")) as running:
        yield running


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def shown(place: Place) -> dict[str, str]:
    """Returns the secrets that callers sent to the forge, and those that it minted for them."""
    found = {f"credential {n}": value.partition(" ")[2] for n, value in enumerate(place.fake.shown)}
    return found | {f"minted {n}": value for n, value in enumerate(place.fake.tokens)}


def leaks(place: Place, caplog: pytest.LogCaptureFixture, watch: Watch | None = None) -> list[str]:
    """Finds every place that shows a secret of the project, or a credential that the forge received."""
    data = place.service.desk.settings.data
    logged = [("the log", caplog.text.encode())]
    told = [f"{record.getMessage()} {record.__dict__}".encode() for record in caplog.records]
    places = [*files(data), *rows(data / "copydesk.db"), *files(place.folder), *answers(place), *pulls(place.fake)]
    seen = list(watch.seen) if watch else []
    return traces(
        {**place.secrets, **shown(place)}, [*places, *logged, *(("a log record", one) for one in told), *seen]
    )


@contextmanager
def on(way: str, running: Running, folder: Path, **policy: Any) -> Iterator[Place]:
    with place_on(way, *running, folder / "forge", **policy) as place:
        yield place


def credentials(headers: Message) -> str:
    """Returns the caller's credentials in plain form and in every encoding that a careless server might repeat."""
    header = headers.get("Authorization", "")
    value = header.partition(" ")[2]
    plain = base64.b64decode(value).decode().partition(":")[2] if header.startswith("Basic ") else value
    return f"{header} {plain} {quote(plain, safe='')} {base64.b64encode(plain.encode()).decode()}"


def echo(status: int, kind: str = "application/json", times: int = 1000) -> Rule:
    """Builds a response that repeats the caller's credentials, for the first `times` calls."""
    left = [times]

    def answer(headers: Message) -> Wire | None:
        left[0] -= 1
        if left[0] < 0:
            return None
        said = f"You sent {credentials(headers)} and that will not do."
        body = json.dumps({"message": said, "error": said}) if "json" in kind else html.escape(said)
        challenge = [("WWW-Authenticate", 'Basic realm="git"')] if status == 401 else []
        return status, [("Content-Type", kind), *challenge], body.encode()

    return answer


@pytest.mark.parametrize("way", drills(("github", "gitlab", "gitea", "github-app"), but=("github-app",)))
def test_complete_run_exposes_no_secret(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    planted = {"a variable of the service": "planted-in-the-environment-4711"}
    monkeypatch.setenv("PLANTED", *planted.values())
    command = "env; cat /proc/*/environ" if way == "github" else None
    with on(way, running, tmp_path, check_command=command) as place, Watch() as watch:
        place.listen()
        place.fake.faults.slow(0.15, where=f"POST .*(?:{FETCH}|{PUSH})")
        job = place.done(*MENDED, edited("# Other", "# Another", "docs/other.md"), MENDED[1])
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        place.fake.comment(1, "@copydesk name the other one too.")
        place.fake.webhooks.flush()
        job = place.client.wait(job["id"])
        assert (job["status"], job["reason"], len(place.fake.pulls)) == ("completed", None, 1), job["message"]
    assert traces(shown(place), watch.in_git), "git has it, and so would be seen with it"
    assert traces(planted, watch.seen | watch.in_git) == []
    assert leaks(place, caplog, watch) == []
    sent = json.dumps([[request.body, request.headers] for request in running[1].requests]).encode()
    others = {name: value for name, value in place.secrets.items() if name != "model_key_compatible"}
    assert traces(others, [("what the model was sent", sent)]) == []


FAILURES: dict[str, tuple[str, Rule, str, str]] = {
    "401 at fetch": (FETCH, echo(401, "text/plain"), "repository_error", "refused the token"),
    "403 at fetch": (FETCH, echo(403, "text/plain"), "repository_error", "refused the token"),
    "git's words at fetch": (FETCH, echo(400, "text/plain"), "repository_error", "git fetch failed"),
    "401 at push": (PUSH, echo(401, "text/plain"), "repository_error", "refused the token"),
    "git's words at push": (PUSH, echo(422, "text/plain"), "repository_error", "git push failed"),
    "401 at the API": (OPEN, echo(401), "repository_error", "rejected the token"),
    "403 at the API": (OPEN, echo(403), "repository_error", "answered 403"),
    "the API's refusal": (OPEN, echo(422), "publish_refused", "answered 422"),
    "an error page": (OPEN, echo(403, "text/html"), "repository_error", "answered 403"),
}


TRIED = list(zip(FAILURES, cycle(("gitea", "github-app", "gitlab", "github"))))


@pytest.mark.parametrize(("failure", "way"), drills(TRIED, but=TRIED[::4]))
def test_token_echoed_by_a_failing_forge_is_redacted(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str, failure: str
) -> None:
    where, rule, reason, words = FAILURES[failure]
    with on(way, running, tmp_path) as place:
        place.refuse(where, rule)
        job = place.done(*MENDED)
        assert (job["status"], job["reason"]) == ("failed", reason), job["message"]
        assert words in (job["message"] or "")
        assert leaks(place, caplog) == []


@pytest.mark.parametrize("where", drills((PUSH, OPEN), but=(PUSH,)))
def test_token_echoed_by_an_unavailable_forge_is_redacted(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    with on("gitea", running, tmp_path) as place:
        place.refuse(where, echo(503, "text/plain" if where == PUSH else "application/json", times=1))
        job = place.done(*MENDED)
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        waits = [event["data"] for event in place.client.events(job["id"]) if event["kind"] == "waiting"]
        assert any("503" in wait["why"] for wait in waits)
        assert leaks(place, caplog) == []


@pytest.mark.parametrize("where", drills((FETCH, PUSH, OPEN, "GET .*/api/"), but=(PUSH,)))
def test_redirect_sends_no_token_to_another_host(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    with stub(Answer(200, {})) as elsewhere, on("github", running, tmp_path) as place:
        place.refuse(where, lambda _headers: (307, [("Location", f"{elsewhere.url}/x")], b""))
        job = place.done(*MENDED)
        assert (job["status"], job["reason"]) == ("failed", "repository_error"), job["message"]
        assert elsewhere.asked == []
        assert leaks(place, caplog) == []


def test_response_to_a_failed_webhook_contains_no_secret(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with on("gitea", running, tmp_path) as place:
        place.listen()
        place.done(*MENDED)
        place.refuse("/api/", echo(500))
        place.fake.comment(1, "@copydesk go on.")
        place.fake.webhooks.flush()
        [delivery] = [one for one in place.fake.webhooks.deliveries if 503 in one.statuses]
        signed = place.fake.sign(delivery, delivery.hook)
        answer = place.service.http.post(delivery.hook.url, content=delivery.body, headers=dict(signed))
        forged = place.service.http.post(delivery.hook.url, content=b"{}", headers=dict(signed))
        assert (answer.status_code, forged.status_code) == (503, 401)
        assert traces(place.secrets, [("the answer", answer.content), ("the refusal", forged.content)]) == []
        assert leaks(place, caplog) == []


@pytest.mark.parametrize("status", [400, 401, 500])
def test_key_echoed_by_a_model_provider_is_redacted(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    with on("gitea", running, tmp_path) as place:
        key = place.secrets["model_key_compatible"]
        said = (
            f"Wrong key {key}, {key[:14]}…{key[-6:]}, {base64.b64encode(key.encode()).decode()}, {quote(key, safe='')}"
        )
        body = json.dumps({"error": {"message": f"{said} in Authorization: Bearer {key}", "type": "x", "code": None}})
        # Transient errors are retried, so a permanent error follows.
        job = place.done([send(body, status=status), fail(401, said)])
        assert (job["status"], job["reason"]) == ("failed", "model_error"), job["message"]
        assert leaks(place, caplog) == []


@pytest.mark.parametrize("name", PROVIDERS)
def test_provider_libraries_do_not_log_the_key(
    workspace: MakeWorkspace, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    heard([say("Hello.")], ASKED, workspace(FILES), name)
    failed, _ = failure([fail(401, f"Incorrect API key provided: {KEY}.")], workspace(FILES), name)
    log = [("the log", "\n".join(f"{one.getMessage()} {one.__dict__}" for one in caplog.records).encode())]
    assert traces({"the key": KEY}, [*log, ("the error", str(failed).encode())]) == []


def test_trailing_newline_of_an_environment_token_is_removed(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on("gitea", running, tmp_path) as place:
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
        job = place.done(*MENDED)
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert leaks(place, caplog) == []


def test_token_invalid_in_a_header_is_not_quoted(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with on("gitea", running, tmp_path) as place:
        place.secrets["forge_token"] = "first-part-of-it\x0band-the-rest-of-it"
        desk, project = place.service.desk, place.service.project
        desk.secrets.set(project.id, "forge_token", place.secrets["forge_token"], actor="test")
        job = place.done(*MENDED)
        assert (job["status"], job["reason"]) == ("failed", "repository_error")
        assert "other invalid characters" in (job["message"] or "")
        parts = dict(enumerate(place.secrets["forge_token"].split("\x0b")))
        place.secrets |= {f"part {n}": part for n, part in parts.items()}
        assert leaks(place, caplog) == []


def test_a_secret_in_a_prompt_is_not_quoted_in_the_pull_request(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with on("github", running, tmp_path) as place:
        token = place.secrets["forge_token"]
        job = place.done(*MENDED, prompt=f"Mend the page; the token is {token}, the key {place.service.key}.")
        assert (job["status"], job["reason"]) == ("completed", None), job["message"]
        assert "> Mend the page; the token is •••, the key •••." in place.fake.pulls[0].body
        assert traces(place.secrets, [*pulls(place.fake), *files(place.folder)]) == []


def test_a_job_that_runs_out_of_time_leaves_no_secret_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with drilled(tmp_path, job_minutes=1 / 60) as running, on("gitlab", running, tmp_path) as place:
        place.fake.faults.slow(3, where=f"POST .*{PUSH}")
        with Watch() as watch:
            job = place.done(*MENDED)
        assert (job["status"], job["reason"]) == ("failed", "timed_out"), job["message"]
        assert leaks(place, caplog, watch) == []


@pytest.mark.drill
def test_a_service_that_is_killed_in_mid_push_leaves_no_secret_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with drilled(tmp_path, with_worker=False) as running, on("github", running, tmp_path) as place:
        data, temporary = place.service.desk.settings.data, tmp_path / "tmp"
        temporary.mkdir()
        place.fake.faults.slow(10, where=f"POST .*{PUSH}")
        place.start(*MENDED)
        environment = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(temporary),
            "COPYDESK_DATA": str(data),
            "COPYDESK_MODEL_URL": running[1].url,
            "COPYDESK_MODELS": MODEL,
            "COPYDESK_LOG_LEVEL": "debug",
        }
        with open(tmp_path / "log", "wb") as log, Watch() as watch:
            worker = subprocess.Popen([sys.executable, "-m", "copydesk", "work"], env=environment, stderr=log)
            try:
                mirrors = str(data / "mirrors").encode()
                _until(lambda: any(mirrors in said and b"receive-pack" in said for _, said in list(watch.seen)))
                time.sleep(0.2)
            finally:
                worker.send_signal(signal.SIGKILL)
                worker.wait()
        place.fake.faults.clear()
        assert (tmp_path / "log").stat().st_size > 0
        assert leaks(place, caplog, watch) == []
        assert traces(place.secrets, [*files(tmp_path / "log"), *files(temporary)]) == []


def _until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)
