"""Programs of others: the Inspector, a client for Node, over both transports, and the official conformance suite."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.mcp.tools.catalog import TOOLS
from tests.support.mcp_clients import client_environment, serve_with_key
from tests.support.programs import require_node, skip_missing
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

ROOT = Path(__file__).parent.parent.parent
NPM_PACKAGES = ("@modelcontextprotocol/inspector-cli@0.22.0", "@modelcontextprotocol/conformance@0.1.16")
INSTALL_SECONDS, CALL_SECONDS = 600, 300
INSPECTOR_FOLDER = "node_modules/@modelcontextprotocol/inspector-cli/build"  # it looks for its files from there
CONFORMANCE = "node_modules/@modelcontextprotocol/conformance/dist/index.js"

PASSED_CHECKS = {
    "server-initialize": 1,
    "ping": 1,
    "tools-list": 1,
    "resources-list": 1,
    "dns-rebinding-protection": 2,
}
"""The scenarios that apply to every server with tools and resources, and how many checks each has."""
NEEDS_TEST_TOOLS = re.compile(
    r"tools-call-.+|json-schema-.+|elicitation-.+|resources-(?:read|templates)-.+|server-sse-.+"
)
"""Scenarios that call tools and resources of the suite's own test server, such as `test_simple_text`."""
NOT_OFFERED = re.compile(r"logging-.+|completion-.+|prompts-.+|resources-(?:un)?subscribe")
"""Scenarios of optional capabilities that Copydesk does not declare."""

pytestmark = pytest.mark.drill


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs the programs from their public registry. Skips the tests if that is not possible."""
    require_node()
    npm = shutil.which("npm") or skip_missing("npm", "It comes with Node.")
    folder = tmp_path_factory.mktemp("programs")
    (folder / "package.json").write_text('{"private": true}', "utf-8")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *NPM_PACKAGES]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if result.returncode:
        skip_missing("inspector", f"Its registry must be reachable: {result.stderr.strip()[-300:]}")
    return folder


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


def test_scenarios_of_the_conformance_suite_that_apply_pass(programs: Path, service: Service) -> None:
    with serve_with_key(service) as url:
        done = run_node(programs, CONFORMANCE, "server", "--url", f"{url}/mcp", "--suite", "all")
    counts = {
        name: (int(passed), int(failed))
        for name, passed, failed in re.findall(r"^. ([\w-]+): (\d+) passed, (\d+) failed", done.stdout, re.M)
    }
    assert len(counts) == 32, done.stdout + done.stderr
    passed = {name: checks for name, (checks, failed) in counts.items() if checks and not failed}
    assert passed == PASSED_CHECKS
    others = [name for name in counts if name not in passed]
    assert [name for name in others if not NEEDS_TEST_TOOLS.fullmatch(name) and not NOT_OFFERED.fullmatch(name)] == []
