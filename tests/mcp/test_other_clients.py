"""A program of others: the Inspector, a client for Node, over both transports."""

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
