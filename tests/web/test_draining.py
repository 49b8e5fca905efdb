"""A stop loses nothing: clients that follow /readyz see no error, started work finishes, a second signal is faster."""

import itertools
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import text

from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.jobs.service import NewJob
from tests.conftest import DATABASE_NAMES
from tests.jobs.drills import SCRIPTED_MODEL, call_edit, call_finish
from tests.support.drills import mark_drills
from tests.support.model_server import ModelServer, hang
from tests.support.processes import CommandSpec, RunningCommand, RunningServer, free_port, settings_environment
from tests.support.repositories import make_repository

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
PAGE = {"docs/index.md": b"# Hello\n\nThe colour of things.\n", "docs/other.md": b"# Other\n"}
SQLITE_FIRST = pytest.mark.parametrize("database_url", mark_drills(DATABASE_NAMES, default=("sqlite",)), indirect=True)
SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # independent of the database
POSTGRES_FIRST = pytest.mark.parametrize(
    "database_url", mark_drills(DATABASE_NAMES, default=("postgres",)), indirect=True
)


class DrainStage:
    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = {
            "data": folder / "data",
            "database_url": database_url,
            "models": (SCRIPTED_MODEL,),
            "lease_seconds": 30,
        }
        self.desk = open_desk(Settings(**self.settings))
        repository = make_repository(folder / "docs.git", PAGE)
        self.project = self.desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
        self.headers = {"Authorization": f"Bearer {self.desk.keys.create(self.project.id, actor='test')[1]}"}
        self.events = f"/v1/analytics/{self.project.id}/events"
        self.commands: list[RunningCommand] = []

    def serve(self, *options: str, **settings: Any) -> RunningServer:
        port = free_port()
        told = settings_environment({**self.settings, **settings})
        log = self.folder / f"{len(self.commands)}.log"
        server = RunningServer(CommandSpec(("serve", "--port", str(port), *options), told, log), port)
        self.commands.append(server)
        server.wait_until_ready()
        return server

    def work(self, **settings: Any) -> RunningCommand:
        log = self.folder / f"{len(self.commands)}.log"
        worker = RunningCommand(CommandSpec(("work",), settings_environment({**self.settings, **settings}), log))
        self.commands.append(worker)
        return worker

    def run(self) -> tuple[str, int, int | None]:
        with self.desk.database.read() as tx:
            row = tx.execute(text("select state, attempt, released_at from runs")).one()
            return row.state, row.attempt, row.released_at

    def close(self) -> None:
        for command in self.commands:
            command.close()
        self.desk.close()


@pytest.fixture
def stage(tmp_path: Path, database_url: str) -> Iterator[DrainStage]:
    stage = DrainStage(tmp_path, database_url)
    yield stage
    stage.close()


class Balancer:
    """Sends each request to the next server that was ready at the last check, ten times per second."""

    def __init__(self, servers: list[RunningServer], headers: dict[str, str]) -> None:
        self.servers, self.headers = servers, headers
        self.ready = list(servers)
        self.seen: list[int | str] = []
        self.over = threading.Event()

    def look(self) -> None:
        while not self.over.wait(0.1):
            self.ready = [server for server in self.servers if self._is_ready(server)]

    def send(self, method: str, path: str, body: Any) -> None:
        clients = {
            server.url: httpx.Client(base_url=server.url, headers=self.headers, timeout=60) for server in self.servers
        }
        for number in itertools.count():
            if self.over.wait(0.01):
                return
            ready = self.ready
            try:
                self.seen.append(clients[ready[number % len(ready)].url].request(method, path, json=body).status_code)
            except httpx.HTTPError as error:
                self.seen.append(repr(error))

    @staticmethod
    def _is_ready(server: RunningServer) -> bool:
        try:
            return httpx.get(f"{server.url}/readyz", timeout=30).status_code == 200
        except httpx.TransportError:
            return False


@pytest.mark.deep
@POSTGRES_FIRST
def test_steady_requests_see_no_error_when_a_server_stops(stage: DrainStage) -> None:
    servers = [stage.serve("--no-worker", drain_seconds=3) for _ in range(2)]
    job = stage.desk.jobs.create(stage.project, NewJob("Wait.")).job.id
    balancer = Balancer(servers, stage.headers)
    calls = [("GET", f"/v2/agent/{stage.project.id}/job/{job}", None), ("POST", stage.events, {"path": "/a"})]
    threads = [threading.Thread(target=balancer.look)]
    threads += [threading.Thread(target=balancer.send, args=call) for call in calls]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    took = servers[0].stop()
    time.sleep(0.5)
    balancer.over.set()
    for thread in threads:
        thread.join()
    assert took >= 3
    assert set(balancer.seen) == {200, 202}
    assert len(balancer.seen) > 10


@pytest.mark.deep
@SQLITE
def test_draining_server_reports_unready_and_answers_until_a_second_signal(stage: DrainStage) -> None:
    server = stage.serve(drain_seconds=600)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.get("/healthz").headers.get("connection") != "close"
        server.send(signal.SIGTERM)
        deadline = time.monotonic() + 60
        while (answer := http.get("/readyz")).status_code == 200:
            assert time.monotonic() < deadline
        assert answer.json()["details"] == [{"field": "draining", "message": "This process is about to stop."}]
        assert answer.headers["connection"] == "close", "the next request is to find another server"
        sent = http.post(stage.events, json={"path": "/a"}, headers=stage.headers)
        assert sent.json()["accepted"] == 1
    assert server.stop() < 60, "the second signal hurries, and the exit code is 0"


@pytest.mark.deep
@SQLITE
def test_started_requests_finish_and_live_streams_are_closed(stage: DrainStage) -> None:
    server = stage.serve("--no-worker")
    job = stage.desk.jobs.create(stage.project, NewJob("Wait.")).job.id
    body = json.dumps([{"path": f"/{n}", "userAgent": FIREFOX} for n in range(100)]).encode()
    head = (
        f"POST {stage.events} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    head += f"Authorization: {stage.headers['Authorization']}\r\n\r\n"
    stream = httpx.Client(base_url=server.url, headers=stage.headers, timeout=60)
    # Opens the store first: a stop leaves started work five seconds, which a busy machine may need for that alone.
    stream.post(stage.events, json={"path": "/first"})  # by a program, which does not count as a visitor
    stream.get(f"/v1/analytics/{stage.project.id}/views")
    with (
        socket.create_connection(("127.0.0.1", server.port)) as line,
        stream.stream("GET", f"/v2/agent/{stage.project.id}/job/{job}/events") as live,
    ):
        lines = live.iter_lines()
        assert next(lines) == "retry: 1000"
        line.sendall(head.encode() + body[:50])
        for _ in range(3):  # after these responses, the server has read everything that was sent before
            httpx.get(f"{server.url}/healthz", timeout=60)
        server.send(signal.SIGTERM)
        time.sleep(0.5)
        line.sendall(body[50:])
        answer = line.makefile("rb").read()
        list(lines)  # the stream ends cleanly
    assert answer.startswith(b"HTTP/1.1 202")
    assert b'"accepted":100' in answer
    server.process.join(60)
    assert server.process.exitcode == 0
    stage.desk.store.fold()
    assert stage.desk.store.count_views_by_page(stage.project.id).totals.total == 100, "what was acknowledged is there"


@SQLITE_FIRST
@pytest.mark.parametrize("way", ["serve", "work"])
@pytest.mark.drill
def test_job_that_ends_while_its_worker_drains_is_not_released(stage: DrainStage, way: str) -> None:
    with ModelServer([hang(1.5, call_edit("colour", "color")), call_finish()], by_turn=True) as model:
        told = {"model_url": model.url, "drain_seconds": 6}
        command = stage.serve(**told) if way == "serve" else stage.work(**told)
        stage.desk.jobs.create(stage.project, NewJob("Spell it so.", model=SCRIPTED_MODEL))
        _wait_until(lambda: model.requests)
        took = command.stop()
    state, attempt, _ = stage.run()
    assert (state, attempt) == ("done", 1)
    if way == "work":
        assert took < 5, "it leaves as soon as it is done"


@pytest.mark.deep
@SQLITE_FIRST
def test_job_that_does_not_end_in_time_is_released(stage: DrainStage) -> None:
    with ModelServer([hang(600)], by_turn=True) as model:
        worker = stage.work(model_url=model.url, drain_seconds=0.5)
        stage.desk.jobs.create(stage.project, NewJob("Spell it so.", model=SCRIPTED_MODEL))
        _wait_until(lambda: model.requests)
        assert worker.stop() < 60
    state, attempt, released_at = stage.run()
    assert (state, attempt) == ("running", 1)
    assert released_at is not None, "the next worker takes it at once"


def _wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
