"""The contract of the jobs API, over real HTTP, on both databases where state matters."""

import asyncio
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.jobs.agent.conversation import Conversation, Model, ModelFailed, Prompt, Reply, ToolResults
from copydesk.jobs.job import Usage
from copydesk.jobs.workspace.workspace import Workspace
from copydesk_client import ApiError, Event, Job
from tests.conftest import DATABASES
from tests.support import migrated_databases
from tests.support.repositories import list_branches, make_repository, read_file
from tests.support.scripted_model import ScriptedModel, Turn, calls, edit, finish
from tests.support.service import Service, serve

PAGE = b"# Hello\n\nThe colour of things.\n"
FIELDS = {
    "id", "status", "source", "model", "prLink", "createdAt", "archivedAt",
    "prompt", "title", "summary", "phase", "reason", "message", "branch", "updatedAt", "finishedAt", "filesChanged",
    "checks", "risk", "usage", "question", "secondLook", "evidence", "createdBy", "automation", "pullRequest",
}  # fmt: skip
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

Serve = Callable[..., AbstractContextManager[Service]]


class SharedServices:
    """Two services on one database engine, one with a worker and one without; each test has its own project."""

    def __init__(self, kind: str, folder: Path, closing: ExitStack) -> None:
        self.kind, self.folder, self.models = kind, folder, dict[str, Model]()
        repository = make_repository(folder / "docs.git", {"docs/index.md": PAGE})
        self.working, self.idle = (
            closing.enter_context(
                serve(
                    folder / name,
                    repository=repository,
                    database_url=self.new_database(),
                    model=self.models.__getitem__,
                    with_worker=name == "working",
                )
            )
            for name in ("working", "idle")
        )

    def new_database(self) -> str:
        return "" if self.kind == "sqlite" else migrated_databases.new_database(self.kind, self.folder)

    def project(self, repository: Path, model: Model | None) -> Service:
        service, name = (self.idle, None) if model is None else (self.working, f"openai:{len(self.models)}")
        if name is not None and model is not None:
            self.models[name] = model
        made = service.desk.projects.create("Docs", repository=str(repository), ref="main", model=name, actor="test")
        key = service.desk.keys.create(made.id, actor="test")[1]
        return Service(service.url, service.desk, made, key, repository)


@pytest.fixture(scope="module", params=DATABASES)
def shared_services(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServices]:
    with ExitStack() as closing:
        yield SharedServices(request.param, tmp_path_factory.mktemp("contract"), closing)


@pytest.fixture
def serving(shared_services: SharedServices, tmp_path: Path) -> Serve:
    """serving(model) returns a project on each database in turn; without a model, there is no worker.

    With settings, it starts a separate service: serving(model, job_minutes=1).
    """

    @contextmanager
    def start(model: Model | None = None, **settings: Any) -> Iterator[Service]:
        repository = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE, "package.json": b"{}\n"})
        if not settings:
            service = shared_services.project(repository, model)
            yield service
            for left in service.client.list_jobs(status="active", limit=100)["jobs"]:
                service.client.cancel_job(left["id"])
            return
        with serve(
            tmp_path / "data",
            repository=repository,
            database_url=shared_services.new_database(),
            model=None if model is None else lambda _name: model,
            with_worker=model is not None,
            **settings,
        ) as running:
            yield running

    return start


@dataclass
class GatedModel:
    """A scripted model that reports requests, and answers each one after its release."""

    script: ScriptedModel
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    through: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    name: str = "gated"

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        self.asked.release()
        while not self.through.acquire(blocking=False):
            await asyncio.sleep(0.005)
        return await self.script.reply(conversation, workspace)

    def wait(self) -> None:
        assert self.asked.acquire(timeout=60), "the model was not asked"

    def release(self, times: int = 1) -> None:
        self.through.release(times)


@dataclass
class BrokenModel:
    name: str = "broken"

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        raise ModelFailed("The provider is out of order (529).")


@dataclass
class HangingModel:
    """Never answers."""

    begun: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    name: str = "hanging"

    async def reply(self, conversation: Conversation, workspace: Workspace) -> Reply:
        self.begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            self.ended.set()
        raise AssertionError("it was to hang")


def scripted_model(*turns: Turn) -> ScriptedModel:
    return ScriptedModel(turns)


def raises_api_error(status: int, code: str) -> Any:
    """Asserts that the call in the block is refused with this status and code."""
    return pytest.raises(ApiError, check=lambda error: (error.status, error.code) == (status, code))


def edit_to_color() -> Turn:
    return edit("docs/index.md", "colour", "color")


def post_job(service: Service, prompt: str = "Any", **headers: str) -> httpx.Response:
    return service.http.post(service.at("/job"), json={"prompt": prompt}, headers=headers)


@pytest.mark.deep
def test_a_job_has_exactly_the_fields_of_the_contract(serving: Serve) -> None:
    with serving(scripted_model(edit_to_color(), finish("Use color", "One word."))) as service:
        answer = post_job(service, "Use American spelling")
        job = answer.json()
        assert answer.status_code == 201
        assert answer.headers["location"] == service.at(f"/job/{job['id']}")
        assert set(job) == FIELDS
        assert re.fullmatch(r"job_[0-9a-z]{26}", job["id"])
        assert (job["status"], job["prLink"], job["archivedAt"]) == ("active", None, None)
        assert job["source"] == {"repository": str(service.repository), "ref": "main"}
        assert job["branch"] == f"copydesk/{job['id']}"

        job = service.client.wait(job["id"])
        assert set(job) == FIELDS
        assert (job["status"], job["phase"], job["reason"], job["message"]) == ("completed", "done", None, None)
        assert (job["title"], job["summary"]) == ("Use color", "One word.")
        (changed,) = job["filesChanged"]
        assert (changed["path"], changed["change"]) == ("docs/index.md", "modified")
        assert (changed["additions"], changed["deletions"]) == (1, 1)
        assert job["usage"] == {"requests": 2, "inputTokens": 20, "outputTokens": 10, "costUsd": None}
        times = (job["createdAt"], job["updatedAt"], job["finishedAt"])
        assert all(isinstance(at, str) and MOMENT.fullmatch(at) for at in times)
        assert job["prLink"] is not None
        assert re.fullmatch(rf"{service.url}/review/\w+/pulls/1", job["prLink"])


def test_job_options_are_stored(serving: Serve) -> None:
    with serving(models="openai:gpt-x") as service:
        job = service.client.create_job("Any", model="openai:gpt-x", ref="release/1.0", draft=True, title="Mine")
        assert (job["model"], job["source"]["ref"], job["title"]) == ("openai:gpt-x", "release/1.0", "Mine")
        assert service.client.get_job(job["id"]) == job


def test_the_same_idempotency_key_and_body_give_the_same_job(serving: Serve) -> None:
    with serving() as service:
        first = post_job(service, "Once", **{"Idempotency-Key": "k" * 128})
        again = post_job(service, "Once", **{"Idempotency-Key": "k" * 128})
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.json() == first.json()
        assert again.headers["location"] == first.headers["location"]
        assert "idempotent-replayed" not in first.headers
        assert again.headers["idempotent-replayed"] == "true"
        assert post_job(service, "Once", **{"Idempotency-Key": "other"}).json()["id"] != first.json()["id"]


def test_same_idempotency_key_with_another_body_returns_409(serving: Serve) -> None:
    with serving() as service:
        assert post_job(service, "Once", **{"Idempotency-Key": "k"}).status_code == 201
        for other in ({"prompt": "Twice"}, {"prompt": "Once", "draft": True}, {"prompt": "Once", "title": "T"}):
            answer = service.http.post(service.at("/job"), json=other, headers={"Idempotency-Key": "k"})
            assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_key_reused")
        assert len(service.client.list_jobs()["jobs"]) == 1


@pytest.mark.deep
def test_twenty_concurrent_requests_with_one_idempotency_key_create_one_job(serving: Serve) -> None:
    with serving() as service, ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: post_job(service, "Once", **{"Idempotency-Key": "k"}), range(20)))
        assert [answer.status_code for answer in answers] == [201] * 20
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
        assert len(service.client.list_jobs()["jobs"]) == 1


def test_requests_over_the_limit_return_429_and_are_not_counted(serving: Serve) -> None:
    with serving(jobs_per_hour=3) as service:
        first = post_job(service, **{"Idempotency-Key": "first"})
        assert first.headers["ratelimit-policy"] == '"jobs";q=3;w=3600'
        assert re.fullmatch(r'"jobs";r=2;t=\d+', first.headers["ratelimit"])
        assert post_job(service, "").status_code == 400
        assert post_job(service, "Other", **{"Idempotency-Key": "first"}).status_code == 409
        assert post_job(service, **{"Idempotency-Key": "first"}).headers["idempotent-replayed"] == "true"
        service.client.message_job(first.json()["id"], "A message counts too")
        assert post_job(service).headers["ratelimit"].startswith('"jobs";r=0;')
        for _ in range(3):
            over = post_job(service, **{"Idempotency-Key": "over"})
            assert (over.status_code, over.json()["code"]) == (429, "too_many_requests")
            assert 0 < int(over.headers["retry-after"]) <= 3600
            assert over.headers["ratelimit-policy"] == '"jobs";q=3;w=3600'
            assert over.headers["ratelimit"].startswith('"jobs";r=0;t=')
        with raises_api_error(429, "too_many_requests"):
            service.client.message_job(first.json()["id"], "One too many")
        assert len(service.client.list_jobs()["jobs"]) == 2
        assert service.another_project().client.create_job("Their limit is their own")


@pytest.mark.deep
def test_the_limit_is_exact_under_contention(serving: Serve) -> None:
    with serving(jobs_per_hour=10) as service, ThreadPoolExecutor(16) as pool:
        statuses = [answer.status_code for answer in pool.map(lambda _: post_job(service), range(32))]
        assert (statuses.count(201), statuses.count(429)) == (10, 22)


@pytest.mark.deep
def test_pages_are_newest_first_and_stable(serving: Serve) -> None:
    with serving() as service:
        client = service.client
        made = [client.create_job(f"Job {n}")["id"] for n in range(7)]
        page, seen = client.list_jobs(limit=3), []
        client.create_job("Newer than the first page")
        while True:
            seen += [job["id"] for job in page["jobs"]]
            if page["nextCursor"] is None:
                break
            page = client.list_jobs(limit=3, cursor=page["nextCursor"])
        assert seen == made[::-1]
        assert client.list_jobs(limit=8)["nextCursor"] is None
        assert client.list_jobs(limit=7)["nextCursor"] is not None
        assert [len(client.list_jobs(limit=n)["jobs"]) for n in (1, 100)] == [1, 8]


@pytest.mark.deep
def test_default_page_size_is_twenty(serving: Serve) -> None:
    with serving() as service:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: post_job(service), range(21)))
        page = service.http.get(service.at("/jobs")).json()
        assert set(page) == {"jobs", "nextCursor"}
        assert len(page["jobs"]) == 20
        assert all(set(job) == FIELDS for job in page["jobs"])


def test_jobs_are_listed_by_status(serving: Serve) -> None:
    with serving() as service:
        client = service.client
        active, failed, archived = (client.create_job(name)["id"] for name in ("active", "failed", "archived"))
        client.cancel_job(failed)
        client.archive_job(archived)
        for status, expected in (
            ("active", [active]),
            ("failed", [failed]),
            ("archived", [archived]),
            ("completed", []),
        ):
            assert [job["id"] for job in client.list_jobs(status=status)["jobs"]] == expected


def test_models_are_listed_with_the_default(serving: Serve) -> None:
    with serving() as service:
        listed = service.client.models()
        assert listed["default"] in [model["id"] for model in listed["models"] if model["default"]]


def test_a_hanging_model_call_is_cancelled_without_waiting_for_a_heartbeat(serving: Serve) -> None:
    model = HangingModel()
    with serving(model, lease_seconds=600) as service:  # the next heartbeat, which would notice it too, is minutes away
        job = service.client.create_job("Any")
        assert model.begun.wait(60)
        ended = service.client.cancel_job(job["id"])
        assert model.ended.wait(60)
        assert (ended["status"], ended["reason"], ended["phase"]) == ("failed", "cancelled", "done")
        assert ended["message"]
        assert service.client.get_job(job["id"]) == ended
        assert set(list_branches(service.repository)) == {"main"}


def test_ended_job_cannot_be_canceled(serving: Serve) -> None:
    with serving(scripted_model(finish())) as service:
        job = service.client.wait(service.client.create_job("Any")["id"])
        with raises_api_error(409, "wrong_state"):
            service.client.cancel_job(job["id"])
        archived = service.client.archive_job(job["id"])
        with raises_api_error(409, "wrong_state"):
            service.client.cancel_job(job["id"])
        assert service.client.get_job(job["id"]) == archived


@pytest.mark.deep
def test_archiving_and_unarchiving_are_idempotent(serving: Serve) -> None:
    with serving(scripted_model(edit_to_color(), finish())) as service:
        client = service.client
        job = client.wait(client.create_job("Any")["id"])
        assert client.unarchive_job(job["id"]) == job, "there is nothing to restore"
        archived = client.archive_job(job["id"])
        assert archived["status"] == "archived"
        assert MOMENT.fullmatch(archived["archivedAt"] or "")
        assert archived["prLink"] == job["prLink"]
        assert client.archive_job(job["id"]) == archived
        restored = client.unarchive_job(job["id"])
        assert client.unarchive_job(job["id"]) == restored
        assert {**restored, "updatedAt": ""} == {**job, "updatedAt": ""}


def test_archiving_an_active_job_cancels_it(serving: Serve) -> None:
    model = HangingModel()
    with serving(model, lease_seconds=600) as service:
        job = service.client.create_job("Any")
        assert model.begun.wait(60)
        archived = service.client.archive_job(job["id"])
        assert model.ended.wait(60)
        assert (archived["status"], archived["reason"]) == ("archived", "cancelled")
        restored = service.client.unarchive_job(job["id"])
        assert (restored["status"], restored["reason"], restored["archivedAt"]) == ("failed", "cancelled", None)


def test_archived_job_refuses_messages(serving: Serve) -> None:
    with serving() as service:
        job = service.client.create_job("Any")
        archived = service.client.archive_job(job["id"])
        with raises_api_error(409, "wrong_state"):
            service.client.message_job(job["id"], "More")
        assert service.client.get_job(job["id"]) == archived


@pytest.mark.deep
def test_message_to_an_active_job_is_processed_at_the_next_turn(serving: Serve) -> None:
    script = scripted_model(edit_to_color(), edit("docs/index.md", "things", "all things"), finish())
    model = GatedModel(script)
    with serving(model) as service:
        job = service.client.create_job("First")
        model.wait()
        answer = service.client.message_job(job["id"], "Second")
        assert (answer["status"], answer["prompt"]) == ("active", "First")
        model.release(3)
        job = service.client.wait(job["id"])
        prompts = [[entry.text for entry in asked if isinstance(entry, Prompt)] for asked in script.requests]
        assert prompts == [["First"], ["First", "Second"], ["First", "Second"]]
        assert (job["status"], job["usage"]["requests"]) == ("completed", 3)
        assert read_file(service.repository, job["branch"], "docs/index.md") == b"# Hello\n\nThe color of all things.\n"
        kinds = [event["kind"] for event in service.client.events(job["id"])]
        assert (kinds.count("pull_request"), kinds.count("pushed"), kinds.count("finished")) == (1, 1, 1)
        assert len(service.desk.pulls.list_for_project(service.project.id)) == 1


@pytest.mark.deep
def test_a_message_during_the_last_turn_is_not_lost(serving: Serve) -> None:
    model = GatedModel(
        scripted_model(edit_to_color(), finish(), edit("docs/index.md", "things", "all things"), finish())
    )
    with serving(model) as service:
        job = service.client.create_job("First")
        model.wait()
        model.release()
        model.wait()
        service.client.message_job(job["id"], "Second")
        model.release(3)
        job = service.client.wait(job["id"])
        assert job["status"] == "completed"
        assert read_file(service.repository, job["branch"], "docs/index.md") == b"# Hello\n\nThe color of all things.\n"
        assert len(service.desk.pulls.list_for_project(service.project.id)) == 1


@pytest.mark.deep
def test_a_follow_up_goes_to_the_same_branch_and_pull_request(serving: Serve) -> None:
    with serving(
        scripted_model(edit_to_color(), finish(), edit("docs/index.md", "things", "all things"), finish())
    ) as service:
        client = service.client
        first = client.wait(client.create_job("First")["id"])
        head = list_branches(service.repository)[first["branch"]]
        again = client.message_job(first["id"], "Second")
        assert (again["status"], again["prLink"], again["finishedAt"]) == ("active", None, None)
        assert again["phase"] in ("queued", "preparing"), "a worker may have been quick"
        second = client.wait(first["id"])
        assert (second["prLink"], second["branch"]) == (first["prLink"], first["branch"])
        assert set(list_branches(service.repository)) == {"main", first["branch"]}
        assert list_branches(service.repository)[first["branch"]] != head
        assert (
            read_file(service.repository, first["branch"], "docs/index.md") == b"# Hello\n\nThe color of all things.\n"
        )
        assert len(service.desk.pulls.list_for_project(service.project.id)) == 1
        assert client.diff(first["id"]).count(b"\n-The colour of things.\n+The color of all things.\n") == 1


def test_message_continues_a_failed_job(serving: Serve) -> None:
    model = HangingModel()
    with serving(model) as service:
        job = service.client.create_job("Any")
        assert model.begun.wait(60)
        service.client.cancel_job(job["id"])
        model.begun.clear()
        again = service.client.message_job(job["id"], "Once more")
        assert (again["status"], again["reason"], again["message"]) == ("active", None, None)
        assert model.begun.wait(60)


def sequence_numbers(events: list[Event]) -> list[int]:
    return [event["seq"] for event in events]


def test_events_are_live_and_a_broken_stream_resumes(serving: Serve) -> None:
    model = GatedModel(scripted_model(edit_to_color(), edit("docs/index.md", "things", "all things"), finish()))
    with serving(model) as service:
        job = service.client.create_job("Any")
        model.wait()
        watched = service.client.watch(job["id"])
        seen = list(take_until(watched, "phase", {"phase": "thinking"}))
        watched.close()  # type: ignore[attr-defined]
        model.release()
        model.wait()
        stream = service.client.watch(job["id"], after=seen[-1]["seq"])
        seen.append(next(stream))
        assert seen[-1]["kind"] == "tool", "told while the job is still at work"
        stream.close()  # type: ignore[attr-defined]
        model.release(2)
        seen += service.client.watch(job["id"], after=seen[-1]["seq"])
        told = service.client.events(job["id"])
        assert sequence_numbers(seen) == sequence_numbers(told) == list(range(1, len(told) + 1))
        assert [event["kind"] for event in seen] == [event["kind"] for event in told]
        assert seen[-1]["kind"] == "finished"


def take_until(events: Iterator[Event], kind: str, data: dict[str, Any]) -> Iterator[Event]:
    for event in events:
        yield event
        if event["kind"] == kind and data.items() <= event["data"].items():
            return


@pytest.mark.deep
def test_events_are_sent_as_event_stream_or_json(serving: Serve) -> None:
    with serving(scripted_model(edit_to_color(), finish())) as service:
        http = service.http
        job = service.client.wait(service.client.create_job("Any")["id"])
        path = service.at(f"/job/{job['id']}/events")
        as_json = http.get(path, headers={"Accept": "application/json"})
        assert as_json.headers["content-type"] == "application/json"
        events = as_json.json()["events"]
        assert all(set(event) == {"seq", "at", "kind", "data"} for event in events)
        assert all(MOMENT.fullmatch(event["at"]) for event in events)
        later = http.get(path, headers={"Accept": "application/json", "Last-Event-ID": "2"}).json()["events"]
        assert later == events[2:]
        for accept in ("text/event-stream", "*/*"):
            stream = http.get(path, headers={"Accept": accept, "Last-Event-ID": "2"})
            assert stream.headers["content-type"].startswith("text/event-stream")
            ids = re.findall(r"^id: (\d+)$", stream.text, re.MULTILINE)
            assert ids == [str(event["seq"]) for event in later]
            data = [json.loads(line) for line in re.findall(r"^data: (.*)$", stream.text, re.MULTILINE)]
            assert [said["at"] for said in data] == [event["at"] for event in later]
        past = http.get(path, headers={"Last-Event-ID": "999999999"})
        assert (past.status_code, "id:" in past.text) == (200, False)


def test_a_prompt_with_line_breaks_stays_one_event(serving: Serve) -> None:
    prompt = "One\n\nid: 99\nevent: finished\ndata: {}\n\u2028\u0085\rtwo"
    with serving(scripted_model(finish())) as service:
        job = service.client.create_job(prompt)
        seen = list(service.client.watch(job["id"]))
        assert seen[0]["data"]["prompt"] == prompt
        assert sequence_numbers(seen) == list(range(1, len(seen) + 1))


@pytest.mark.deep
def test_diff_is_available_before_the_job_ends(serving: Serve) -> None:
    model = GatedModel(scripted_model(edit_to_color(), calls(("delete", {"path": "docs/index.md"})), finish()))
    with serving(model) as service:
        job = service.client.create_job("Any")
        model.wait()
        assert service.client.diff(job["id"]) == b""
        model.release()
        model.wait()
        answer = service.http.get(service.at(f"/job/{job['id']}/diff"))
        assert answer.headers["content-type"].startswith("text/x-diff")
        assert b"-The colour of things.\n+The color of things.\n" in answer.content
        assert service.client.get_job(job["id"])["filesChanged"][0]["additions"] == 1
        model.release(2)
        service.client.wait(job["id"])
        assert b"deleted file mode" in service.client.diff(job["id"])


def run_job(service: Service, **options: Any) -> Job:
    return service.client.wait(service.client.create_job("Any", **options)["id"])


def assert_failed(job: Job, reason: str) -> None:
    assert (job["status"], job["reason"], job["phase"], job["prLink"]) == ("failed", reason, "done", None)
    assert job["message"]
    assert job["finishedAt"] is not None
    assert not re.search(r"Traceback|sqlalchemy|\.py\b", job["message"])


def test_a_job_that_changed_nothing_is_completed_with_no_changes(serving: Serve) -> None:
    back = edit("docs/index.md", "color", "colour")
    with serving(scripted_model(edit_to_color(), back, finish("Nothing", "All was well."))) as service:
        job = run_job(service)
        assert (job["status"], job["reason"], job["prLink"], job["filesChanged"]) == (
            "completed",
            "no_changes",
            None,
            [],
        )
        assert job["summary"] == "All was well."
        assert service.client.diff(job["id"]) == b""
        assert set(list_branches(service.repository)) == {"main"}


@pytest.mark.parametrize(
    ("bound", "usage"),
    [
        ({"job_requests": 2}, Usage(requests=1)),
        ({"job_tokens": 100}, Usage(requests=1, input_tokens=40, output_tokens=10)),
        ({"job_cost_usd": 0.5}, Usage(requests=1, cost_usd=0.25)),
    ],
)
def test_a_job_over_its_budget_fails_with_budget_exceeded(tmp_path: Path, bound: dict[str, Any], usage: Usage) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": PAGE})
    look = calls(("list", {}), usage=usage)
    with serve(
        tmp_path / "data", repository=repository, model=lambda _: scripted_model(*[look] * 9), **bound
    ) as service:
        job = run_job(service)
        assert_failed(job, "budget_exceeded")
        assert job["usage"]["requests"] == 2


@pytest.mark.deep
def test_a_job_over_its_time_fails_with_timed_out(serving: Serve) -> None:
    model = HangingModel()
    with serving(model, job_minutes=0.05, lease_seconds=1) as service:
        assert_failed(run_job(service), "timed_out")
        assert model.ended.wait(60)


def test_long_job_is_not_taken_over_from_a_live_worker(serving: Serve) -> None:
    model = HangingModel()
    with serving(model, lease_seconds=3) as service:
        job = service.client.create_job("Any")
        assert model.begun.wait(60)
        assert not model.ended.wait(3.2)
        assert "resumed" not in [event["kind"] for event in service.client.events(job["id"])]


def test_a_broken_model_fails_the_job_with_model_error(serving: Serve) -> None:
    with serving(BrokenModel()) as service:
        job = run_job(service)
        assert_failed(job, "model_error")
        assert "529" in (job["message"] or "")


def test_a_repository_that_is_gone_fails_the_job_with_repository_error(serving: Serve) -> None:
    with serving(scripted_model(finish())) as service:
        shutil.rmtree(service.repository)
        assert_failed(run_job(service), "repository_error")


def test_a_branch_that_is_not_there_fails_the_job_with_repository_error(serving: Serve) -> None:
    with serving(scripted_model(finish())) as service:
        job = run_job(service, ref="nowhere")
        assert_failed(job, "repository_error")
        assert "nowhere" in (job["message"] or "")


@pytest.mark.deep
def test_too_large_a_change_fails_the_job_with_publish_refused(serving: Serve) -> None:
    many = calls(*[("write", {"path": f"docs/{n}.md", "content": "x\n"}) for n in range(101)])
    with serving(scripted_model(many, finish())) as service:
        assert_failed(run_job(service), "publish_refused")
        assert set(list_branches(service.repository)) == {"main"}


def test_protected_file_is_refused_by_the_agents_tools(serving: Serve) -> None:
    asked: list[Conversation] = []

    def look_back(conversation: Conversation, _workspace: Workspace) -> Reply:
        asked.append(list(conversation))
        return finish()

    with serving(scripted_model(edit("package.json", "{}", "{1}"), look_back)) as service:
        job = run_job(service)
        assert (job["status"], job["reason"]) == ("completed", "no_changes")
        observed = asked[0][-1]
        assert isinstance(observed, ToolResults)
        assert (observed.results[0].ok, "protected" in observed.results[0].text) == (False, True)
