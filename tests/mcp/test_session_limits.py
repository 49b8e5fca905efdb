"""How many sessions a server keeps and for how long, the streams of sessions, and what a stop does to them."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.mcp.http.sessions import SessionLimits
from copydesk.web.app import create_app
from tests.support.mcp_clients import RawClient, run_server
from tests.support.processes import CommandSpec, RunningServer, free_port, settings_environment
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

STREAMS_PER_KEY = 4
END_SECONDS = 10


@contextmanager
def run_service(folder: Path, **settings: Any) -> Iterator[Service]:
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, **settings) as running:
        yield running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_service(tmp_path_factory.mktemp("limits"), streams_per_key=STREAMS_PER_KEY) as running:
        yield running


@contextmanager
def serve_with_limits(service: Service, **limits: Any) -> Iterator[str]:
    """Serves the same desk at another port, with other limits of sessions. Yields the URL."""
    app = create_app(service.desk)
    app.state.mcp_session_limits = SessionLimits(**limits)
    with run_server(app) as url:
        yield url


def read_until_end(response: httpx.Response, seconds: float = END_SECONDS) -> str:
    """Returns the rest of a stream. Fails if the server does not end it in time."""
    began = time.monotonic()
    text = "".join(response.iter_text())
    assert time.monotonic() - began < seconds
    return text


def test_key_with_too_many_sessions_loses_the_one_that_was_idle_longest(service: Service) -> None:
    with serve_with_limits(service, per_key=3) as url:
        client, other = RawClient(url, service.new_key()), RawClient(url, service.new_key())
        others = [other.initialize() for _ in range(3)]
        sessions = [client.initialize() for _ in range(3)]
        assert client.is_kept(sessions[0])
        newest = client.initialize()
        assert [client.is_kept(session) for session in (*sessions, newest)] == [True, False, True, True]
        assert all(other.is_kept(session) for session in others)


def test_full_server_ends_the_session_that_was_idle_longest(service: Service) -> None:
    with serve_with_limits(service, total=3) as url:
        client, other = RawClient(url, service.new_key()), RawClient(url, service.new_key())
        sessions = [client.initialize() for _ in range(3)]
        theirs = other.initialize()
        assert other.is_kept(theirs)
        assert [client.is_kept(session) for session in sessions] == [False, True, True]


@pytest.mark.parametrize("limits", [{"per_key": 2}, {"total": 2}])
def test_session_with_a_call_in_progress_is_kept_and_no_client_is_refused(
    service: Service, limits: dict[str, int]
) -> None:
    job = service.client.create_job("Wait for me")["id"]
    with serve_with_limits(service, **limits) as url, ExitStack() as calls:
        client = RawClient(url, service.new_key())
        busy = client.initialize()
        calls.enter_context(client.open_call(busy, "wait_for_job", jobId=job, timeoutSeconds=60))
        idle, newest = client.initialize(), client.initialize()
        assert [client.is_kept(session) for session in (busy, idle, newest)] == [True, False, True]
        calls.enter_context(client.open_call(newest, "wait_for_job", jobId=job, timeoutSeconds=60))
        assert client.initialize() is None
        assert client.list_tools(None).status_code == 200
        assert [client.is_kept(session) for session in (busy, newest)] == [True, True]


@pytest.mark.deep
def test_flood_of_sessions_does_not_end_those_of_other_keys(service: Service) -> None:
    with serve_with_limits(service, per_key=10, total=100) as url:
        flood, other = RawClient(url, service.new_key()), RawClient(url, service.new_key())
        theirs = other.initialize()
        sessions = [flood.initialize() for _ in range(150)]
        assert other.is_kept(theirs)
        assert [flood.is_kept(session) for session in sessions] == [False] * 140 + [True] * 10


def test_large_message_is_served_on_its_own(service: Service) -> None:
    """The SDK keeps the last message of each session. A key could fill the memory with large ones."""
    client = RawClient(service.url, service.new_key())
    session = client.initialize()
    for size, is_within in ((1_000, True), (100_000, False)):
        params = {"name": "create_job", "arguments": {"prompt": "word " * (size // 5), "unknown": 1}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = client.send("POST", session, body)
        assert "unknown: Extra inputs are not permitted" in response.text
        assert ("mcp-session-id" in response.headers) is is_within
    client_info = {"name": "x" * 100_000, "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client_info}
    response = client.send("POST", None, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    assert response.status_code == 200
    assert "mcp-session-id" not in response.headers
    assert client.is_kept(session)


def test_idle_session_ends_and_its_client_goes_on_without(service: Service) -> None:
    with serve_with_limits(service, idle_seconds=2) as url:
        client = RawClient(url, service.new_key())
        session = client.initialize()
        for _ in range(3):
            time.sleep(1)
            assert client.is_kept(session)
        time.sleep(3)
        assert not client.is_kept(session)
        assert client.is_kept(client.initialize())


def test_session_with_an_open_stream_or_call_is_not_idle(service: Service) -> None:
    job = service.client.create_job("Wait for me")["id"]
    with serve_with_limits(service, idle_seconds=1) as url:
        client = RawClient(url, service.new_key())
        session = client.initialize()
        with client.open_stream(session) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            time.sleep(3)
            assert client.is_kept(session)
        with client.open_call(session, "wait_for_job", jobId=job, timeoutSeconds=3) as call:
            read_until_end(call)
        assert client.is_kept(session)


@pytest.mark.deep
def test_stream_counts_as_a_live_stream_and_leaves_half_of_the_limit_to_waits(service: Service) -> None:
    job = service.client.create_job("Wait for me")["id"]
    client = RawClient(service.url, service.new_key())
    sessions = [client.initialize() for _ in range(STREAMS_PER_KEY)]
    half = STREAMS_PER_KEY // 2
    with ExitStack() as streams:
        for session in sessions[:half]:
            assert streams.enter_context(client.open_stream(session)).status_code == 200
        assert client.send("GET", sessions[half]).status_code == 405
        for session in sessions[half:]:
            streams.enter_context(client.open_call(session, "wait_for_job", jobId=job, timeoutSeconds=60))
        time.sleep(2)
        with client.open_call(sessions[0], "wait_for_job", jobId=job) as refused:
            assert "too_many_streams" in read_until_end(refused)


def test_session_has_one_stream(service: Service) -> None:
    client = RawClient(service.url, service.new_key())
    session = client.initialize()
    with client.open_stream(session):
        assert client.send("GET", session).status_code == 409
    time.sleep(2)  # until the server has noticed that the client closed it
    with client.open_stream(session) as response:
        assert next(response.iter_text()).startswith(":")


def test_head_of_the_stream_returns_at_once_and_leaves_it_free(service: Service) -> None:
    client = RawClient(service.url, service.new_key())
    session = client.initialize()
    began = time.monotonic()
    assert client.send("HEAD", session).status_code == 200
    assert time.monotonic() - began < END_SECONDS
    time.sleep(2)
    with client.open_stream(session) as response:
        assert response.status_code == 200


def test_stream_ends_when_its_key_is_revoked_on_either_database(tmp_path: Path, migrated_url: str) -> None:
    with run_service(tmp_path, database_url=migrated_url) as service:
        key, secret = service.desk.keys.create(service.project.id, actor="test")
        client = RawClient(service.url, secret)
        with client.open_stream(client.initialize()) as response:
            time.sleep(1)
            service.desk.keys.revoke(key.id, actor="test")
            read_until_end(response)


def test_stream_ends_with_its_session(service: Service) -> None:
    client = RawClient(service.url, service.new_key())
    session = client.initialize()
    with client.open_stream(session) as response:
        assert client.send("DELETE", session).status_code == 204
        read_until_end(response)


@pytest.mark.deep
@pytest.mark.parametrize("drain_seconds", [0, 1])
def test_server_with_sessions_stops_promptly(tmp_path: Path, drain_seconds: int) -> None:
    """Neither the open stream nor waits delay it, and the job that the calls wait for is not cancelled."""
    settings: dict[str, Any] = {"data": tmp_path / "data", "drain_seconds": drain_seconds}
    desk = open_desk(Settings(**settings))
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
    secret = desk.keys.create(project.id, actor="test")[1]
    port, log = free_port(), tmp_path / "server.log"
    command = ("serve", "--no-worker", "--port", str(port))
    server = RunningServer(CommandSpec(command, settings_environment(settings), log), port)
    try:
        server.wait_until_ready()
        client = RawClient(f"http://127.0.0.1:{port}", secret)
        created = client.http.post(
            f"{client.url}/v2/agent/{project.id}/job",
            json={"prompt": "Wait for me"},
            headers={"Authorization": f"Bearer {secret}"},
        )
        assert created.status_code == 201, created.text
        job = created.json()["id"]
        session = client.initialize()
        arguments = {"jobId": job, "timeoutSeconds": 600, "cancelJobIfCancelled": True}
        with ExitStack() as requests:
            stream = requests.enter_context(client.open_stream(session))
            calls = [
                requests.enter_context(client.open_call(each, "wait_for_job", **arguments)) for each in (session, None)
            ]
            time.sleep(2)
            began = time.monotonic()
            server.send(signal.SIGTERM)
            assert "data" not in read_until_end(stream)
            for call in calls:
                assert '"finished":false' in read_until_end(call).replace("\\", "")
        server.process.join(timeout=60)
        assert time.monotonic() - began < drain_seconds + END_SECONDS
        assert server.process.exitcode == 0
        text = log.read_text("utf-8")
        assert "Traceback" not in text
        assert "without completing" not in text
        assert desk.jobs.get(project.id, job).status.value == "active"
    finally:
        server.close()
        desk.close()
