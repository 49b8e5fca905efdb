"""Programs of others: the Inspector, a client for Node, over both transports, and the SDK that it uses."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.mcp.tools.catalog import TOOLS
from tests.support.mcp_clients import client_environment
from tests.support.programs import install_npm_packages, require_node
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

ROOT = Path(__file__).parent.parent.parent
INSPECTOR = "@modelcontextprotocol/inspector-cli@0.22.0"
CALL_SECONDS = 300
INSPECTOR_FOLDER = "node_modules/@modelcontextprotocol/inspector-cli/build"  # it looks for its files from there
SESSION_SCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, key, jobId] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
const client = new Client({ name: "test", version: "1" });
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const wait = (timeoutSeconds, options) =>
  client.callTool({ name: "wait_for_job", arguments: { jobId, timeoutSeconds } }, undefined, options);

await client.connect(transport);
const session = transport.sessionId;
const controller = new AbortController();
const first = wait(600, { signal: controller.signal }).then(() => "returned", () => "aborted");
await sleep(2);
const second = await wait(1);
controller.abort();
const aborted = await first;
await sleep(1);
const third = await wait(1);
await transport.terminateSession();
const ended = { ...headers, "Mcp-Session-Id": session, "Content-Type": "application/json" };
const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
const after = await fetch(url, { method: "POST", headers: ended, body });
await client.close();
console.log(JSON.stringify({ session, second, aborted, third, status: after.status }));
"""

pytestmark = pytest.mark.drill


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs the Inspector. Skips the tests if that is not possible."""
    require_node()
    return install_npm_packages(tmp_path_factory.mktemp("programs"), INSPECTOR)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("served")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    with serve(folder / "data", repository=repository) as running:
        yield running


def run_node(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [require_node(), *arguments]
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=CALL_SECONDS
    )


def inspect(
    programs: Path, server: list[str], environment: dict[str, str], method: str, *arguments: str
) -> dict[str, Any]:
    """Returns what the Inspector prints for one request to a server."""
    done = run_node(programs / INSPECTOR_FOLDER, "index.js", *server, "--method", method, *arguments, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_inspector_calls_tools_and_reads_resources(programs: Path, service: Service, transport: str) -> None:
    environment = client_environment(service, service.key) | {"PYTHONPATH": str(ROOT)}
    server = [sys.executable, "-m", "copydesk", "mcp"]
    if transport == "http":
        server = [f"{service.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {service.key}"]
    listed = inspect(programs, server, environment, "tools/list")["tools"]
    assert [tool["name"] for tool in listed] == [tool.name for tool in TOOLS]

    def call(tool: str, **arguments: str) -> dict[str, Any]:
        words = [word for name, value in arguments.items() for word in ("--tool-arg", f"{name}={value}")]
        result = inspect(programs, server, environment, "tools/call", "--tool-name", tool, *words)
        assert not result.get("isError"), result
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    job = call("create_job", prompt="Replace colour with color in docs/index.md")["id"]
    assert call("wait_for_job", jobId=job)["job"]["status"] == "completed"
    assert "+The color of things." in call("get_job_diff", jobId=job)["diff"]
    assert call("get_top_pages")["pages"] == []
    uris = [resource["uri"] for resource in inspect(programs, server, environment, "resources/list")["resources"]]
    assert f"copydesk://jobs/{job}/diff" in uris


def test_client_for_node_cancels_a_call_and_ends_its_session(programs: Path, tmp_path: Path) -> None:
    """The key can have two live streams: that of the session and one wait."""
    script = programs / "session.mjs"
    script.write_text(SESSION_SCRIPT, "utf-8")
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False, streams_per_key=2) as idle:
        job = idle.client.create_job("Wait for me")["id"]
        done = run_node(programs, script.name, f"{idle.url}/mcp", idle.key, job)
        assert done.returncode == 0, done.stdout + done.stderr
        assert idle.client.get_job(job)["status"] == "active"
    outcome = json.loads(done.stdout)
    assert outcome["session"]
    assert "too_many_streams" in outcome["second"]["content"][0]["text"]
    assert outcome["aborted"] == "aborted"
    assert outcome["third"]["structuredContent"]["finished"] is False
    assert outcome["status"] == 404
