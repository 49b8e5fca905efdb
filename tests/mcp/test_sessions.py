"""Sessions over HTTP, for clients that begin with `initialize`: whose they are, and that nothing depends on them."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2 as httpx
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp, Receive, Scope, Send

from copydesk.mcp.server import build_server
from copydesk.web.app import create_app
from tests.mcp.conformance.suite_server import build_suite_server
from tests.support.mcp_clients import RawClient, call, run_server, serve_with_key
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

CANCEL_SEVEN = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves Copydesk without a worker, so that jobs stay active. A key can wait for one job at a time."""
    folder = tmp_path_factory.mktemp("sessions")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, streams_per_key=1) as running:
        yield running


@pytest.fixture
def client(service: Service) -> RawClient:
    return RawClient(service.url, service.new_key())


def can_wait(client: RawClient, job: str) -> bool:
    """Returns whether the key can wait for a job: then none of its other waits goes on at the server."""
    with client.open_call(None, "wait_for_job", jobId=job, timeoutSeconds=1) as response:
        text = response.read().decode()
    assert "too_many_streams" in text or '"finished":false' in text.replace("\\", ""), text
    return "too_many_streams" not in text


@contextmanager
def open_wait(client: RawClient, session: str | None, job: str, **arguments: Any) -> Iterator[Iterator[str]]:
    """Starts to wait for a job. Yields the rest of the response."""
    with client.open_call(session, "wait_for_job", jobId=job, timeoutSeconds=600, **arguments) as response:
        text: Iterator[str] = response.iter_text()
        while "notifications/progress" not in next(text):
            pass
        time.sleep(1)
        assert not can_wait(client, job)
        yield text


def wait_until(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def test_requests_of_a_session_are_served_within_it(client: RawClient) -> None:
    first, second = client.initialize(), client.initialize()
    assert first is not None
    assert first != second
    assert len(first) >= 22
    assert client.is_kept(first)
    assert client.is_kept(second)


def test_session_is_not_found_with_another_key(service: Service, client: RawClient) -> None:
    session = client.initialize()
    for other in (service.new_key(), service.another_project().key):
        thief = RawClient(service.url, other)
        for method in ("GET", "DELETE"):
            response = thief.send(method, session)
            assert (response.status_code, response.json()["code"]) == (404, "session_not_found")
        assert thief.list_tools(session).status_code == 404
        assert thief.send("POST", session, CANCEL_SEVEN).status_code == 404
    assert client.is_kept(session)


def test_key_is_checked_at_every_request_of_a_session(service: Service) -> None:
    key, secret = service.desk.keys.create(service.project.id, actor="test")
    client = RawClient(service.url, secret)
    session = client.initialize()
    service.desk.keys.revoke(key.id, actor="test")
    assert client.list_tools(session).status_code == 401
    assert client.send("GET", session).status_code == 401
    assert client.send("DELETE", session).status_code == 401


def test_session_that_the_client_ended_is_not_found(client: RawClient) -> None:
    session = client.initialize()
    assert client.send("DELETE", session).status_code == 204
    for method in ("GET", "DELETE"):
        assert client.send(method, session).status_code == 404
    assert client.list_tools(session).status_code == 404
    assert client.is_kept(client.initialize(**{"Mcp-Session-Id": session or ""}))


def test_request_of_a_session_of_another_server_is_served_on_its_own(service: Service, client: RawClient) -> None:
    with run_server(create_app(service.desk)) as url:
        session = RawClient(url, client.key).initialize()
        assert not client.is_kept(session)
        assert client.send("POST", session, CANCEL_SEVEN).status_code == 202
        assert client.send("GET", session).status_code == 405
        assert client.send("DELETE", session).status_code == 404
        assert RawClient(url, client.key).is_kept(session)
    assert not client.is_kept(session)


def test_server_never_adopts_an_id_that_the_client_chose(client: RawClient) -> None:
    first = client.initialize()
    for chosen in (first, "chosen", "0" * 43):
        headers = {"Mcp-Session-Id": chosen or ""}
        assert client.initialize(**headers) not in (None, first, chosen)
    assert not client.is_kept("chosen")


@pytest.mark.parametrize("session", ["x" * 60_000, "\xff\xfe", "a b", "..", "%0d%0aX-Injected: 1", "' or 1=1 --"])
def test_strange_session_id_is_harmless(client: RawClient, session: str) -> None:
    headers = {"Mcp-Session-Id": session.encode("latin-1")}
    response = client.list_tools(None, **headers)  # type: ignore[arg-type]
    assert response.status_code in (200, 400, 431)
    assert "mcp-session-id" not in response.headers
    assert "x-injected" not in response.headers
    assert client.send("DELETE", None, **headers).status_code in (400, 404, 431)  # type: ignore[arg-type]


def test_client_of_the_newest_version_has_no_session(client: RawClient) -> None:
    session = client.initialize()
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    headers = {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    response = client.send("POST", session, body, **headers)
    assert response.status_code == 200, response.text
    assert "mcp-session-id" not in response.headers
    assert client.send("GET", session, **headers).status_code == 405


def test_refused_initialize_opens_no_session(client: RawClient) -> None:
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
    response = client.send("POST", None, body, Accept="application/json")
    assert response.status_code == 406
    assert not client.is_kept(response.headers.get("mcp-session-id", "none"))


def test_cancelling_a_call_ends_it_at_the_server_and_leaves_the_job_active(service: Service, client: RawClient) -> None:
    job = service.client.create_job("Wait for me")["id"]
    session = client.initialize()
    other = client.initialize()
    with open_wait(client, session, job) as rest:
        assert client.send("POST", other, CANCEL_SEVEN).status_code == 202
        assert client.send("POST", None, CANCEL_SEVEN).status_code == 202
        time.sleep(1)
        assert not can_wait(client, job), "another session has cancelled the call"
        assert client.send("POST", session, CANCEL_SEVEN).status_code == 202
        assert "-32800" in "".join(rest)
    wait_until(lambda: can_wait(client, job), seconds=5)
    assert service.client.get_job(job)["status"] == "active"
    assert client.is_kept(session)


@pytest.mark.deep
def test_disconnecting_ends_a_wait_but_does_not_cancel_the_job(service: Service, client: RawClient) -> None:
    """Within a session, a disconnect is not a cancellation. The wait ends because its result would reach nobody."""
    job = service.client.create_job("Wait for me")["id"]
    session = client.initialize()
    with open_wait(client, session, job, cancelJobIfCancelled=True):
        pass
    wait_until(lambda: can_wait(client, job), seconds=20)
    assert service.client.get_job(job)["status"] == "active"
    assert client.is_kept(session)


def test_ending_the_session_ends_its_calls_but_does_not_cancel_the_job(service: Service, client: RawClient) -> None:
    job = service.client.create_job("Wait for me")["id"]
    session = client.initialize()
    with open_wait(client, session, job, cancelJobIfCancelled=True) as rest:
        assert client.send("DELETE", session).status_code == 204
        assert "".join(rest) == ""
    wait_until(lambda: can_wait(client, job), seconds=5)
    assert service.client.get_job(job)["status"] == "active"


def test_call_that_creates_a_job_completes_although_the_client_disconnects(service: Service) -> None:
    other = service.another_project()
    client = RawClient(service.url, other.key)
    with client.open_call(client.initialize(), "create_job", prompt="Fix the typos"):
        pass
    wait_until(lambda: len(other.client.list_jobs()["jobs"]) == 1)


def test_requests_with_the_same_id_do_not_disturb_other_requests(service: Service, client: RawClient) -> None:
    job = service.client.create_job("Wait for me")["id"]
    session = client.initialize()
    with ExitStack() as calls:
        for _ in range(3):
            calls.enter_context(client.open_call(session, "wait_for_job", jobId=job, timeoutSeconds=2))
        assert client.is_kept(session)
    assert client.is_kept(session)


def test_session_that_cannot_start_leaves_the_client_without_one(service: Service) -> None:
    app = create_app(service.desk)
    attempts = iter([RuntimeError("broken")])

    def build(*arguments: Any) -> Any:
        for error in attempts:
            raise error
        return build_server(*arguments)

    app.state.build_mcp_server = build
    with run_server(app) as url:
        client = RawClient(url, service.key)
        assert client.initialize() is None
        assert client.is_kept(client.initialize())


class RequestLog:
    """Records the address and the request ID of every request to the API, also of those within the server."""

    def __init__(self, app: ASGIApp, seen: list[tuple[str, str]]) -> None:
        self.app, self.seen = app, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v2/"):
            self.seen.append((scope["client"][0], dict(scope["headers"])[b"x-request-id"].decode()))
        await self.app(scope, receive, send)


def test_tools_call_the_api_from_the_address_of_their_own_request(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("addresses")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, trusted_proxies=("127.0.0.1",)) as service:
        seen: list[tuple[str, str]] = []
        app = create_app(service.desk)
        app.add_middleware(RequestLog, seen=seen)
        with run_server(app) as url:
            client = RawClient(url, service.new_key(allow=["203.0.113.0/24"]))
            session = client.initialize(**{"X-Forwarded-For": "203.0.113.1"})
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_jobs", "arguments": {}}}
            for number in (2, 3):
                headers = {"X-Forwarded-For": f"203.0.113.{number}", "X-Request-Id": f"request-{number}"}
                assert '"isError":false' in client.send("POST", session, body, **headers).text
            refused = client.send("POST", session, body, **{"X-Forwarded-For": "203.0.114.1"})
            assert refused.json()["code"] == "address_refused"
        assert seen == [("203.0.113.2", "request-2"), ("203.0.113.3", "request-3")]


def test_tool_can_ask_the_client(service: Service) -> None:
    """Copydesk's own tools do not. The suite's do: the answer is another request, which must reach the running call."""
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com"})

    async def check(url: str) -> str:
        async with httpx.AsyncClient(timeout=60) as http:
            server = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(server, mode="legacy", elicitation_callback=answer) as client:
                result = await client.call_tool("test_elicitation", {"message": "Who are you?"})
                return str(result.content)

    with serve_with_key(service, build_suite_server) as url:
        result = asyncio.run(check(url))
    assert asked == ["Who are you?"]
    assert "accept" in result


@pytest.mark.deep
def test_many_sessions_work_at_the_same_time(service: Service) -> None:
    async def use_session(number: int) -> str:
        headers = {"Authorization": f"Bearer {service.key}"}
        async with httpx.AsyncClient(headers=headers, timeout=60) as http:
            server = streamable_http_client(f"{service.url}/mcp", http_client=http)
            async with Client(server, mode="legacy") as client:
                job = (await call(client, "create_job", prompt=f"Job {number}"))["id"]
                return str((await call(client, "get_job", jobId=job))["prompt"])

    async def check() -> list[str]:
        return await asyncio.gather(*(use_session(number) for number in range(20)))

    assert asyncio.run(check()) == [f"Job {number}" for number in range(20)]
