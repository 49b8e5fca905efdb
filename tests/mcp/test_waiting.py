"""Waiting for a job: progress, the time limit, and what cancelling does to the job."""

import asyncio
import itertools
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from copydesk.web.app import create_app
from tests.support.mcp_clients import Mode, Transport, call, open_mcp, run_server
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.support.tcp_proxy import TcpProxy, tcp_proxy

WAYS = [("http", "auto"), ("http", "legacy"), ("stdio", "auto"), ("stdio", "legacy")]


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves Copydesk without a worker, so that jobs stay active."""
    folder = tmp_path_factory.mktemp("waiting")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, streams_per_key=1) as running:
        yield running


@pytest.mark.deep
@pytest.mark.parametrize(("transport", "mode"), WAYS)
def test_progress_is_reported_until_the_job_ends(service: Service, transport: Transport, mode: Mode) -> None:
    steps: list[float] = []
    messages: list[str | None] = []

    async def record(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)
        messages.append(message)

    async def check() -> dict[str, Any]:
        async with open_mcp(service, transport, mode) as client:
            job = await call(client, "create_job", prompt="Replace colour with color in docs/index.md")
            result = await client.call_tool("wait_for_job", {"jobId": job["id"]}, progress_callback=record)
            waited: dict[str, Any] = result.structured_content
            return waited

    waited = asyncio.run(check())
    assert waited["finished"]
    assert waited["job"]["status"] == "completed"
    assert waited["job"]["prLink"]
    assert steps == sorted(set(steps))
    assert messages[-1] == "completed"
    assert "publishing" in messages


@pytest.mark.deep
def test_wait_returns_the_active_job_after_its_time(idle: Service) -> None:
    job = idle.client.create_job("Wait for me")["id"]

    async def check() -> dict[str, Any]:
        async with open_mcp(idle) as client:
            return await call(client, "wait_for_job", jobId=job, timeoutSeconds=1)

    waited = asyncio.run(check())
    assert not waited["finished"]
    assert waited["job"]["status"] == "active"


def test_wait_for_a_job_that_has_ended_returns_at_once(idle: Service) -> None:
    job = idle.client.create_job("Wait for me")["id"]
    idle.client.cancel_job(job)

    async def check() -> dict[str, Any]:
        async with open_mcp(idle) as client:
            return await call(client, "wait_for_job", jobId=job, timeoutSeconds=1800)

    assert asyncio.run(check())["finished"]


async def cancel_a_wait(client: Client, job: str, **arguments: Any) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await call(client, "wait_for_job", jobId=job, timeoutSeconds=600, **arguments)


@pytest.mark.deep
@pytest.mark.parametrize(("transport", "mode"), WAYS)
def test_cancelling_the_wait_leaves_the_job_active_and_frees_its_stream(
    idle: Service, transport: Transport, mode: Mode
) -> None:
    job = idle.client.create_job("Wait for me")["id"]

    async def check() -> None:
        async with open_mcp(idle, transport, mode) as client:
            await cancel_a_wait(client, job)
            await asyncio.sleep(3)  # the server ends a stream when it next notices that its client is gone
            waited = await call(client, "wait_for_job", jobId=job, timeoutSeconds=1)
            assert waited["job"]["status"] == "active"

    asyncio.run(check())


@pytest.mark.deep
@pytest.mark.parametrize(("transport", "mode"), WAYS)
def test_cancelling_the_wait_cancels_the_job_if_asked(idle: Service, transport: Transport, mode: Mode) -> None:
    job = idle.client.create_job("Wait for me")["id"]

    async def check() -> None:
        async with open_mcp(idle, transport, mode) as client:
            await cancel_a_wait(client, job, cancelJobIfCancelled=True)
            await asyncio.sleep(3)

    asyncio.run(check())
    ended = idle.client.get_job(job)
    assert (ended["status"], ended["reason"]) == ("failed", "cancelled")


@pytest.mark.deep
def test_wait_of_an_older_client_ends_with_its_session(idle: Service) -> None:
    job = idle.client.create_job("Wait for me")["id"]

    async def leave() -> None:
        async with open_mcp(idle, "http", "legacy") as client:
            waiting = asyncio.create_task(call(client, "wait_for_job", jobId=job, timeoutSeconds=600))
            await asyncio.sleep(2)
        with pytest.raises(MCPError):
            await waiting

    async def check() -> dict[str, Any]:
        async with open_mcp(idle) as client:
            return await call(client, "wait_for_job", jobId=job, timeoutSeconds=1)

    asyncio.run(leave())
    time.sleep(3)
    assert asyncio.run(check())["job"]["status"] == "active"


@pytest.mark.deep
def test_wait_over_stdio_survives_an_interruption_of_the_network(idle: Service) -> None:
    job = idle.client.create_job("Wait for me")["id"]
    address = httpx.URL(idle.url)

    async def check(proxy: TcpProxy) -> dict[str, Any]:
        behind = replace(idle, url=f"http://127.0.0.1:{proxy.port}")
        async with open_mcp(behind, "stdio") as client:
            waiting = asyncio.create_task(call(client, "wait_for_job", jobId=job, timeoutSeconds=600))
            await asyncio.sleep(3)
            proxy.refuses = True
            assert proxy.cut() > 0
            await asyncio.sleep(5)
            assert not waiting.done()
            proxy.refuses = False
            idle.client.cancel_job(job)
            return await asyncio.wait_for(waiting, 60)

    with tcp_proxy(lambda: socket.create_connection((address.host, address.port or 80))) as proxy:
        waited = asyncio.run(check(proxy))
    assert waited["finished"]
    assert waited["job"]["reason"] == "cancelled"


@pytest.mark.deep
def test_server_that_stops_does_not_wait_for_the_job(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})

    async def check(service: Service, stop: Any) -> dict[str, Any]:
        job = service.client.create_job("Wait for me")["id"]
        async with open_mcp(service) as client:
            waiting = asyncio.create_task(call(client, "wait_for_job", jobId=job, timeoutSeconds=600))
            await asyncio.sleep(2)
            stop()
            return await asyncio.wait_for(waiting, 60)

    with serve(tmp_path / "data", repository=repository, with_worker=False) as service:
        waited = asyncio.run(check(service, service.desk.database.notifications.stop))
    assert not waited["finished"]


class AlternatingTransport(httpx.AsyncHTTPTransport):
    """Sends each request to the next of several servers, as a load balancer does."""

    def __init__(self, urls: list[str]) -> None:
        super().__init__()
        self.used: list[int | None] = []
        self._urls = itertools.cycle(map(httpx.URL, urls))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = next(self._urls)
        self.used.append(url.port)
        request.url = request.url.copy_with(host=url.host, port=url.port)
        return await super().handle_async_request(request)


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_any_server_behind_a_load_balancer_answers_any_request(service: Service, mode: Mode) -> None:
    async def check(second_url: str) -> list[int | None]:
        transport = AlternatingTransport([service.url, second_url])
        headers = {"Authorization": f"Bearer {service.key}"}
        async with httpx.AsyncClient(transport=transport, headers=headers, timeout=60) as http:
            server = streamable_http_client(f"{service.url}/mcp", http_client=http)
            async with Client(server, mode=mode) as client:
                job = (await call(client, "create_job", prompt="Replace colour with color in docs/index.md"))["id"]
                for _ in range(2):
                    assert (await call(client, "wait_for_job", jobId=job))["finished"]
                    assert "color" in (await call(client, "get_job_diff", jobId=job))["diff"]
        return transport.used

    with run_server(create_app(service.desk)) as second_url:
        used = asyncio.run(check(second_url))
    assert len(set(used)) == 2
