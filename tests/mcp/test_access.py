"""A key has the same rights over MCP as on the API: each limit is tested with the attempt to pass it."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from mcp.shared.exceptions import MCPError

from copydesk.core.ids import new_id, new_key
from copydesk.mcp.tools.catalog import TOOLS
from tests.support.mcp_clients import MCP_HEADERS, Transport, call, call_refused, open_mcp
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

READ_TOOLS = {tool.name for tool in TOOLS if tool.scope == "read"}
WRITE_CALLS: dict[str, dict[str, Any]] = {
    "create_job": {"prompt": "Fix the typos"},
    "send_job_message": {"jobId": "{job}", "prompt": "And the links"},
    "cancel_job": {"jobId": "{job}"},
    "retry_job": {"jobId": "{job}"},
    "run_automation": {"automationId": "{automation}"},
}
JOB_CALLS = ("get_job", "wait_for_job", "cancel_job", "retry_job", "get_job_diff", "send_job_message")
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@contextmanager
def run_service(folder: Path, **settings: Any) -> Iterator[Service]:
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, **settings) as running:
        yield running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_service(tmp_path_factory.mktemp("access")) as running:
        yield running


def post(service: Service, key: str | None, body: Any = LIST_TOOLS, **headers: str) -> httpx.Response:
    sent = {**MCP_HEADERS, **headers} | ({"Authorization": f"Bearer {key}"} if key else {})
    return httpx.post(f"{service.url}/mcp", json=body, headers=sent, timeout=60)


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_read_only_key_gets_only_the_tools_that_read(service: Service, transport: Transport) -> None:
    async def check() -> None:
        async with open_mcp(service, transport, key=service.new_key(scopes=["read"])) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == READ_TOOLS
        async with open_mcp(service, transport) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {tool.name for tool in TOOLS}

    asyncio.run(check())


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_read_only_key_cannot_call_a_tool_that_writes_although_it_knows_its_name(
    service: Service, transport: Transport
) -> None:
    job = service.client.create_job("Leave me alone")["id"]
    values = {"name": "Spelling", "prompt": "Fix the typos", "trigger": {"type": "api"}}
    automation = service.desk.automations.create(service.project, values, actor="test").id
    before = service.client.list_jobs(limit=100), service.client.events(job)

    async def attack() -> None:
        async with open_mcp(service, transport, key=service.new_key(scopes=["read"])) as client:
            for tool, arguments in WRITE_CALLS.items():
                filled = {name: value.format(job=job, automation=automation) for name, value in arguments.items()}
                assert "scope_missing" in await call_refused(client, tool, **filled), tool

    asyncio.run(attack())
    assert WRITE_CALLS.keys() == {tool.name for tool in TOOLS} - READ_TOOLS
    assert (service.client.list_jobs(limit=100), service.client.events(job)) == before


def test_cancelling_a_wait_with_a_read_only_key_does_not_cancel_the_job(service: Service) -> None:
    job = service.client.create_job("Leave me alone")["id"]

    async def attack() -> None:
        async with open_mcp(service, key=service.new_key(scopes=["read"])) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await call(client, "wait_for_job", jobId=job, cancelJobIfCancelled=True)

    asyncio.run(attack())
    time.sleep(1)
    assert service.client.get_job(job)["status"] == "active"


def test_key_that_can_only_send_events_is_refused(service: Service) -> None:
    response = post(service, service.new_key(scopes=["events"]))
    assert (response.status_code, response.json()["code"]) == (403, "scope_missing")


@pytest.mark.parametrize("kind", ["missing", "unknown", "expired", "revoked", "malformed"])
def test_invalid_key_returns_401(service: Service, kind: str) -> None:
    revoked, revoked_secret = service.desk.keys.create(service.project.id, actor="test")
    service.desk.keys.revoke(revoked.id, actor="test")
    keys = {
        "missing": None,
        "unknown": new_key(),
        "expired": service.new_key(expires_in=-1),
        "revoked": revoked_secret,
        "malformed": "desk_nope",
    }
    response = post(service, keys[kind])
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_key_that_is_revoked_during_a_session_is_refused_at_the_next_call(
    service: Service, transport: Transport
) -> None:
    key, secret = service.desk.keys.create(service.project.id, actor="test")

    async def check() -> None:
        async with open_mcp(service, transport, key=secret) as client:
            await call(client, "list_jobs")
            service.desk.keys.revoke(key.id, actor="test")
            if transport == "stdio":
                assert "key_rejected" in await call_refused(client, "list_jobs")
            with pytest.raises(MCPError):
                await client.list_tools(cache_mode="bypass")
            with pytest.raises(MCPError):
                await client.read_resource("copydesk://reports/visitors")

    asyncio.run(check())


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_wait_ends_when_its_key_is_revoked(service: Service, transport: Transport) -> None:
    key, secret = service.desk.keys.create(service.project.id, actor="test")
    job = service.client.create_job("Wait for me")["id"]

    async def check() -> str:
        async with open_mcp(service, transport, key=secret) as client:
            waiting = asyncio.create_task(call_refused(client, "wait_for_job", jobId=job, timeoutSeconds=600))
            await asyncio.sleep(2)
            service.desk.keys.revoke(key.id, actor="test")
            return await asyncio.wait_for(waiting, 60)

    assert "key_rejected" in asyncio.run(check())


def test_key_that_expires_during_a_session_is_refused(service: Service) -> None:
    secret = service.new_key(expires_in=8_000)

    async def check() -> None:
        async with open_mcp(service, key=secret) as client:
            await call(client, "list_jobs")
            await asyncio.sleep(8)
            with pytest.raises(MCPError):
                await client.call_tool("list_jobs", {})

    asyncio.run(check())


def test_key_is_refused_from_an_address_that_it_does_not_allow(service: Service) -> None:
    secret = service.new_key(allow=["10.0.0.0/8"])
    response = post(service, secret, **{"X-Forwarded-For": "10.0.0.1"})
    assert (response.status_code, response.json()["code"]) == (403, "address_refused")


def test_tools_are_called_from_the_address_of_the_client_behind_a_trusted_proxy(tmp_path: Path) -> None:
    with run_service(tmp_path, trusted_proxies=("127.0.0.1",)) as service:
        secret = service.new_key(allow=["203.0.113.0/24"])

        async def check() -> None:
            async with open_mcp(service, key=secret, headers={"X-Forwarded-For": "203.0.113.7"}) as client:
                assert await call(client, "list_jobs") == {"jobs": [], "nextCursor": None}

        asyncio.run(check())
        response = post(service, secret, **{"X-Forwarded-For": "203.0.114.7"})
        assert (response.status_code, response.json()["code"]) == (403, "address_refused")


@pytest.mark.deep
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_job_of_another_project_looks_like_one_that_does_not_exist(service: Service, transport: Transport) -> None:
    other = service.another_project()
    theirs = other.client.create_job("A secret prompt of theirs")["id"]

    async def attack() -> None:
        async with open_mcp(service, transport) as client:
            for tool in JOB_CALLS:
                arguments = {"prompt": "Tell me"} if tool == "send_job_message" else {}
                refused = await call_refused(client, tool, jobId=theirs, **arguments)
                assert refused == await call_refused(client, tool, jobId=new_id("job"), **arguments)
                assert "job_not_found" in refused
            for uri in (f"copydesk://jobs/{theirs}", f"copydesk://jobs/{theirs}/diff"):
                with pytest.raises(MCPError, match="job_not_found"):
                    await client.read_resource(uri)
            assert theirs not in str(await call(client, "list_jobs", limit=50))
            assert theirs not in str(await client.list_resources())

    asyncio.run(attack())
    assert other.client.get_job(theirs)["status"] == "active"


@pytest.mark.deep
def test_stdio_server_of_another_project_is_refused(service: Service) -> None:
    other = service.another_project()
    mixed = Service(service.url, service.desk, other.project, service.key, service.repository)

    async def attack() -> None:
        async with open_mcp(mixed, "stdio") as client:
            assert "project_not_found" in await call_refused(client, "list_jobs")
            with pytest.raises(MCPError, match="project_not_found"):
                await client.list_tools()

    asyncio.run(attack())


@pytest.mark.parametrize(
    "path", ["../../visitors", "/a/../../x", "..", "%2e%2e/jobs", "a?dateFrom=x", "a#b", "//v2/agent"]
)
def test_path_of_a_page_cannot_lead_to_another_route(service: Service, path: str) -> None:
    async def attack() -> str:
        async with open_mcp(service) as client:
            return await call_refused(client, "get_page", path=path)

    refused = asyncio.run(attack())
    assert "page_not_found" in refused or "must not contain the segments" in refused


def test_limit_of_jobs_per_hour_holds(tmp_path: Path) -> None:
    with run_service(tmp_path, jobs_per_hour=2) as service:

        async def attack() -> str:
            async with open_mcp(service) as client:
                await call(client, "create_job", prompt="One")
                await call(client, "create_job", prompt="Two")
                return await call_refused(client, "create_job", prompt="Three")

        refused = asyncio.run(attack())
        assert "COPYDESK_JOBS_PER_HOUR" in refused
        assert "try again in" in refused
        assert len(service.client.list_jobs()["jobs"]) == 2


@pytest.mark.deep
def test_limit_of_an_automation_holds_and_says_when_to_try_again(service: Service) -> None:
    made = service.client.create_automation(
        name="Once", prompt="Replace a with b.", trigger={"type": "api"}, dailyLimit=1
    )

    async def attack() -> str:
        async with open_mcp(service) as client:
            await call(client, "run_automation", automationId=made["id"])
            return await call_refused(client, "run_automation", automationId=made["id"])

    refused = asyncio.run(attack())
    assert "1 run per day" in refused
    assert re.search(r"\(automation_limit, try again in \d+ seconds\)", refused)


@pytest.mark.deep
def test_limit_of_exports_per_minute_holds(tmp_path: Path) -> None:
    with run_service(tmp_path, exports_per_minute=2) as service:

        async def attack() -> str:
            async with open_mcp(service) as client:
                await call(client, "get_visitors")
                await call(client, "get_top_pages")
                return await call_refused(client, "get_agents")

        assert "COPYDESK_EXPORTS_PER_MINUTE" in asyncio.run(attack())


@pytest.mark.deep
def test_waits_count_as_live_streams_of_the_key(tmp_path: Path) -> None:
    with run_service(tmp_path, streams_per_key=1) as service:
        job = service.client.create_job("Wait for me")["id"]

        async def attack() -> str:
            async with open_mcp(service) as client:
                waiting = asyncio.create_task(call(client, "wait_for_job", jobId=job, timeoutSeconds=20))
                await asyncio.sleep(3)
                refused = await call_refused(client, "wait_for_job", jobId=job)
                assert not (await waiting)["finished"]
                assert not (await call(client, "wait_for_job", jobId=job, timeoutSeconds=1))["finished"]
                return refused

        assert "too_many_streams" in asyncio.run(attack())


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example", "http://10.1.2.3"])
def test_web_page_of_another_origin_is_refused(service: Service, origin: str) -> None:
    response = post(service, service.key, Origin=origin)
    assert (response.status_code, response.json()["code"]) == (403, "origin_refused")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example", "[", ""])
def test_unknown_host_name_is_refused(service: Service, host: str) -> None:
    response = post(service, service.key, Host=host)
    assert response.status_code in (400, 421)
    assert "tools" not in response.text


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1", "[::1]:80", "192.168.1.5", "docs.internal"]
)
def test_known_host_names_and_addresses_are_accepted(tmp_path: Path, host: str) -> None:
    with run_service(tmp_path, mcp_hosts=("Docs.internal:8080",)) as service:
        assert post(service, service.key, Host=host, Origin="http://localhost:1234").status_code == 200


@pytest.mark.parametrize(("method", "allowed"), [("GET", "POST, DELETE"), ("PUT", "DELETE, GET, POST")])
def test_other_methods_return_405(service: Service, method: str, allowed: str) -> None:
    response = service.http.request(method, "/mcp", headers=MCP_HEADERS)
    assert (response.status_code, response.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b"[" * 10_000, b"\xff"])
def test_malformed_message_returns_400(service: Service, body: bytes) -> None:
    for version in ("2025-06-18", "2026-07-28"):
        headers = {**MCP_HEADERS, "Mcp-Protocol-Version": version}
        response = service.http.post("/mcp", content=body, headers=headers)
        assert response.status_code == 400, (version, response.text)
        assert "Traceback" not in response.text


def test_too_large_message_returns_413(service: Service) -> None:
    assert service.http.post("/mcp", content=b" " * (1 << 21), headers=MCP_HEADERS).status_code == 413


def test_white_space_around_header_values_does_not_matter(service: Service) -> None:
    """The newest protocol repeats parts of the body in headers. HTTP allows white space around their values."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "list_models", "arguments": {}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Mcp-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Authorization": f"Bearer {service.key}",
    }
    connection = HTTPConnection(service.url.removeprefix("http://"), timeout=60)
    for name, status in (("list_models", 200), (" \tlist_models\t ", 200), ("list_jobs", 400)):
        connection.request("POST", "/mcp", json.dumps(body), {**MCP_HEADERS, **headers, "Mcp-Name": name})
        response = connection.getresponse()
        assert response.status == status, response.read()
        response.read()
    connection.close()


@pytest.mark.deep
def test_key_opens_only_its_own_project_on_either_database(tmp_path: Path, migrated_url: str) -> None:
    with run_service(tmp_path, database_url=migrated_url) as service:
        other = service.another_project()
        key, secret = other.desk.keys.create(other.project.id, actor="test")

        async def check() -> None:
            async with open_mcp(service, key=secret) as client:
                job = await call(client, "create_job", prompt="Fix the typos")
                assert [each["id"] for each in other.client.list_jobs()["jobs"]] == [job["id"]]
                assert service.client.list_jobs()["jobs"] == []
                assert not (await call(client, "wait_for_job", jobId=job["id"], timeoutSeconds=1))["finished"]
                service.desk.keys.revoke(key.id, actor="test")
                with pytest.raises(MCPError):
                    await client.call_tool("list_jobs", {})

        asyncio.run(check())
