"""One trace connects the request for a job with its pull request, through every process involved."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from copydesk.core.settings import Settings
from copydesk.core.telemetry import traces
from copydesk.desk import Desk, open_desk
from copydesk.jobs.service import NewJob
from tests.conftest import DATABASE_NAMES, DATABASES
from tests.jobs.drills import FIX_SCRIPT, SCRIPTED_MODEL
from tests.support.drills import mark_drills
from tests.support.leases import expire_leases
from tests.support.model_server import ModelServer, fail, hang
from tests.support.otlp import ReceivedSpan, SpanCollector
from tests.support.processes import CommandSpec, RunningCommand, RunningServer, free_port, settings_environment
from tests.support.repositories import make_repository

BOTH = pytest.mark.parametrize("database_url", DATABASES, indirect=True)
SQLITE_FIRST = pytest.mark.parametrize("database_url", mark_drills(DATABASE_NAMES, default=("sqlite",)), indirect=True)
SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # independent of the database
PAGE = {"docs/index.md": b"# Hello\n\nThe colour of things.\n", "docs/other.md": b"# Other\n"}


@pytest.fixture
def collector() -> Iterator[SpanCollector]:
    with SpanCollector() as collector:
        yield collector


class TracedStage:
    """A server and workers as processes, and a project with its key."""

    def __init__(self, folder: Path, database_url: str, collector: SpanCollector, model_url: str) -> None:
        self.folder, self.collector = folder, collector
        settings = {"data": folder / "data", "database_url": database_url, "lease_seconds": 30}
        self.desk: Desk = open_desk(Settings(models=(SCRIPTED_MODEL,), **settings))  # type: ignore[arg-type]
        repository = make_repository(folder / "docs.git", PAGE)
        self.project = self.desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
        self.key = self.desk.keys.create(self.project.id, actor="test")[1]
        told = settings_environment({**settings, "models": SCRIPTED_MODEL, "model_url": model_url})
        self.environment = {**told, **collector.environment, "COPYDESK_MODEL_KEY": "key-of-the-model"}
        self.commands: list[RunningCommand] = []

    def serve(self) -> RunningServer:
        port = free_port()
        order = CommandSpec(("serve", "--no-worker", "--port", str(port)), self.environment, self.folder / "serve.log")
        server = RunningServer(order, port)
        self.commands.append(server)
        server.wait_until_ready()
        return server

    def work(self) -> RunningCommand:
        worker = RunningCommand(CommandSpec(("work",), self.environment, self.folder / "work.log"))
        self.commands.append(worker)
        return worker

    def close(self) -> None:
        for command in self.commands:
            command.close()
        self.desk.close()


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(FIX_SCRIPT, by_turn=True) as model:
        yield model


@pytest.fixture
def stage(tmp_path: Path, database_url: str, collector: SpanCollector, model: ModelServer) -> Iterator[TracedStage]:
    stage = TracedStage(tmp_path, database_url, collector, model.url)
    yield stage
    stage.close()


def create_job(stage: TracedStage, url: str, traceparent: str | None = None) -> str:
    headers = {"Authorization": f"Bearer {stage.key}"} | ({"traceparent": traceparent} if traceparent else {})
    body = {"prompt": "Spell the-hidden-word so.", "model": SCRIPTED_MODEL}
    answer = httpx.post(f"{url}/v2/agent/{stage.project.id}/job", json=body, headers=headers, timeout=60)
    assert answer.status_code == 201, answer.text
    job: str = answer.json()["id"]
    return job


def has_ended(spans: list[ReceivedSpan]) -> bool:
    return any(span.name == "attempt" and not span.is_error for span in spans)


@BOTH
def test_trace_spans_from_the_request_to_the_pull_request(stage: TracedStage, collector: SpanCollector) -> None:
    server, trace, caller = stage.serve(), secrets.token_hex(16), secrets.token_hex(8)
    job = create_job(stage, server.url, f"00-{trace}-{caller}-01")
    stage.work()
    spans = collector.wait_for(has_ended)
    assert {span.trace for span in spans} == {trace}
    assert {span.service for span in spans} == {"copydesk"}
    named = {span.name: span for span in spans}
    above = {span.id: span.name for span in spans} | {caller: "the caller"}
    assert {name: above[span.parent] for name, span in named.items()} == {
        "POST create": "the caller",
        "queued": "POST create",
        "attempt": "POST create",
        "pin": "attempt",
        "edit": "attempt",
        "inbox": "edit",
        "reply": "edit",
        "acts": "edit",
        "check": "attempt",
        "publish": "attempt",
        "risk": "publish",
        "commit": "publish",
        "push": "publish",
        "open": "publish",
    }
    assert sorted(span.attributes["copydesk.turn"] for span in spans if span.name == "reply") == [1, 2]
    attempt = named["attempt"]
    assert (attempt.attributes["copydesk.job"], attempt.attributes["copydesk.attempt"]) == (job, 1)
    assert attempt.attributes["copydesk.status"] == "completed"
    assert named["POST create"].kind == 2, "a server's"
    assert named["queued"].end <= attempt.start <= named["pin"].start <= named["open"].end <= attempt.end
    told = b"".join(collector.bodies)
    for hidden in (b"hidden-word", b"docs/", b"colour", stage.key.encode(), b"key-of-the-model", b"127.0.0.1"):
        assert hidden not in told


@pytest.mark.deep
@SQLITE_FIRST
def test_takeover_continues_the_trace(stage: TracedStage, collector: SpanCollector, model: ModelServer) -> None:
    model.script = [hang(600), *FIX_SCRIPT]
    server = stage.serve()
    create_job(stage, server.url)
    worker = stage.work()
    collector.wait_for(lambda spans: any(span.name == "pin" for span in spans))
    worker.kill()
    expire_leases(stage.desk.database)
    model.script = FIX_SCRIPT
    stage.work()
    spans = collector.wait_for(has_ended)
    assert len({span.trace for span in spans}) == 1
    [request] = [span for span in spans if span.name == "POST create"]
    [attempt] = [span for span in spans if span.name == "attempt"]
    assert (attempt.parent, attempt.attributes["copydesk.attempt"], attempt.attributes["copydesk.crashes"]) == (
        request.id,
        2,
        1,
    )
    assert sum(span.name == "pin" for span in spans) == 1, "what the first attempt had done is not done again"


@pytest.mark.drill
@SQLITE_FIRST
def test_job_of_an_untraced_request_starts_a_new_trace(stage: TracedStage, collector: SpanCollector) -> None:
    stage.desk.jobs.create(stage.project, NewJob("Spell it so.", model=SCRIPTED_MODEL))
    stage.work()
    spans = collector.wait_for(has_ended)
    [queued] = [span for span in spans if span.name == "queued"]
    [attempt] = [span for span in spans if span.name == "attempt"]
    assert (queued.parent, attempt.parent, attempt.trace) == ("", queued.id, queued.trace)


@SQLITE
@pytest.mark.drill
def test_span_of_a_failed_job_has_its_reason_code(
    stage: TracedStage, collector: SpanCollector, model: ModelServer
) -> None:
    model.script = [fail(401, "Wrong key: key-of-the-model")]
    create_job(stage, stage.serve().url)
    stage.work()
    spans = collector.wait_for(lambda spans: any(span.name == "attempt" for span in spans))
    failed = {span.name: span.status_message for span in spans if span.is_error}
    assert failed == {"reply": "model_error", "edit": "model_error", "attempt": "model_error"}
    assert not any(b"Wrong key" in body for body in collector.bodies)


@pytest.mark.drill
@SQLITE
def test_malformed_traceparent_starts_a_new_trace(stage: TracedStage, collector: SpanCollector) -> None:
    url = stage.serve().url
    for wrong in ("nonsense", f"00-{'0' * 32}-{'1' * 16}-01", f"ff-{'1' * 32}-{'1' * 16}-01", "00-a-b-c" * 1000):
        create_job(stage, url, wrong)
    spans = collector.wait_for(lambda spans: len(spans) == 4)
    assert [span.parent for span in spans] == [""] * 4
    assert len({span.trace for span in spans}) == 4


@pytest.mark.deep
@SQLITE
def test_unauthenticated_request_cannot_join_a_trace(stage: TracedStage, collector: SpanCollector) -> None:
    url = stage.serve().url
    headers = {"traceparent": f"00-{'1' * 32}-{'1' * 16}-01"}
    assert httpx.post(f"{url}/v2/agent/{stage.project.id}/job", json={}, headers=headers, timeout=60).status_code == 401
    address = "https://gitea.example.org/acme/docs.git"
    project = stage.desk.projects.create("Signed", repository=address, ref="main", forge="gitea", actor="test")
    stage.desk.secrets.set(project.id, "webhook_secret", "secret", actor="test")
    forged = {**headers, "X-Gitea-Signature": "0" * 64}
    assert httpx.post(f"{url}/webhooks/{project.id}", json={}, headers=forged, timeout=60).status_code == 401
    spans = collector.wait_for(lambda spans: any(span.name == "POST webhook" for span in spans))
    assert {span.trace for span in spans} != {"1" * 32}
    assert [span.name for span in spans] == ["POST webhook"], "who has no key leaves no trace"


def test_tracing_is_disabled_without_an_endpoint() -> None:
    assert not any(os.environ.get(name) for name in traces.ENDPOINT_VARIABLES)
    traces.start_tracing()
    assert not traces.is_enabled()
    with traces.start_span("anything") as span:
        assert (span, span.trace_id, traces.current_traceparent()) == (traces.NO_SPAN, "", None)
