"""The official conformance suite of MCP, from npm, tests both transports of Copydesk."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.mcp.conformance.expected import (
    HTTP_CHECKS,
    SKILLS,
    Revision,
    ServerKind,
    TransportKind,
    list_not_applicable,
    list_passed,
)
from tests.mcp.conformance.stdio_bridge import serve_stdio
from tests.mcp.conformance.suite_server import build_suite_server
from tests.support.mcp_clients import client_environment, serve_with_key
from tests.support.programs import install_npm_packages, require_node
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

ROOT = Path(__file__).parent.parent.parent.parent
SUITE = "@modelcontextprotocol/conformance"
OLD, NEW = "conformance-old", "conformance-new"
PACKAGES = (f"{OLD}@npm:{SUITE}@0.1.16", f"{NEW}@npm:{SUITE}@0.2.0-alpha.12")
"""The stable version, which knows the protocol until 2025-11-25, and the first that knows all versions."""
NEW_SCENARIO = "server-session-lifecycle"
"""A scenario of 2025-11-25 that the stable version does not know."""
RUN_SECONDS = 1500
FAULTS = ("FAILURE", "WARNING")
WIRE_CHECKS = "wire-schema-"
"""Checks of every message against the schema of the protocol, which the suite adds to each scenario."""

pytestmark = [
    pytest.mark.drill,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
SERVERS = pytest.mark.parametrize("server", ["copydesk", "suite"])


class Outcome(NamedTuple):
    passed: set[str]
    others: dict[str, list[dict[str, Any]]]
    """The scenarios that have a fault or in which nothing was checked, with their faults."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_node()
    return install_npm_packages(tmp_path_factory.mktemp("programs"), *PACKAGES)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("served")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


@contextmanager
def serve_target(service: Service, server: ServerKind, transport: TransportKind) -> Iterator[str]:
    """Serves what the suite tests, with the key that the suite cannot send. Yields the URL."""
    if transport == "http":
        with serve_with_key(service, build_suite_server if server == "suite" else None) as url:
            yield f"{url}/mcp"
        return
    module = ["copydesk", "mcp"] if server == "copydesk" else ["tests.mcp.conformance.suite_server"]
    environment = client_environment(service, service.key) | {"PYTHONPATH": str(ROOT)}
    with serve_stdio([sys.executable, "-m", *module], environment) as url:
        yield f"{url}/mcp"


def run_suite(programs: Path, version: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    script = programs / "node_modules" / version / "dist/index.js"
    return subprocess.run(
        [require_node(), str(script), *arguments],
        cwd=programs,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )


def run_scenarios(programs: Path, version: str, results: Path, url: str, *selection: str) -> Outcome:
    done = run_suite(programs, version, "server", "--url", url, "--output-dir", str(results), *selection)
    outcome = Outcome(set(), {})
    for file in results.rglob("checks.json"):
        [scenario] = re.findall(r"^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$", file.parent.name)
        checks: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
        faults = [check for check in checks if check["status"] in FAULTS]
        assert [fault for fault in faults if fault["id"].startswith(WIRE_CHECKS)] == [], scenario
        if faults or not any(is_passed(check) for check in checks):
            outcome.others[scenario] = faults
        else:
            outcome.passed.add(scenario)
    assert outcome.passed, done.stdout + done.stderr
    return outcome


def is_passed(check: dict[str, Any]) -> bool:
    return check["status"] == "SUCCESS" and not check["id"].startswith(WIRE_CHECKS)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
@SERVERS
def test_all_scenarios_that_apply_pass(
    programs: Path, service: Service, tmp_path: Path, server: ServerKind, transport: TransportKind, revision: Revision
) -> None:
    with serve_target(service, server, transport) as url:
        outcome = run_scenarios(programs, NEW, tmp_path, url, "--requirements", revision)
    assert outcome.passed == list_passed(server, transport, revision)
    assert outcome.others.keys() == list_not_applicable(server, transport, revision).keys()
    if (server, transport, revision) == ("suite", "stdio", "2026-07-28"):
        failed = {fault["id"] for fault in outcome.others["server-stateless"]}
        assert [check for check in failed if not re.fullmatch(HTTP_CHECKS, check)] == []


@SERVERS
def test_stable_version_of_the_suite_has_the_same_outcome(
    programs: Path, service: Service, tmp_path: Path, server: ServerKind
) -> None:
    with serve_target(service, server, "http") as url:
        outcome = run_scenarios(programs, OLD, tmp_path, url, "--suite", "all")
    assert outcome.passed == list_passed(server, "http", "2025-11-25") - {NEW_SCENARIO}
    assert outcome.others.keys() == list_not_applicable(server, "http", "2025-11-25").keys()


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_scenario_that_does_not_apply_to_copydesk_passes_with_the_content_that_it_needs(
    transport: TransportKind,
) -> None:
    """Then the reason is the content: the transports are the same."""
    for revision in ("2025-11-25", "2026-07-28"):
        unproven = set(list_not_applicable("copydesk", transport, revision))
        unproven -= list_passed("suite", transport, revision)
        assert unproven == list_not_applicable("suite", transport, revision).keys()


def test_no_scenario_is_overlooked(programs: Path) -> None:
    listed = set(re.findall(r"^ +- ([\w-]+)", run_suite(programs, NEW, "list", "--server").stdout, re.M))
    known = {
        name
        for revision in ("2025-11-25", "2026-07-28")
        for name in list_passed("suite", "http", revision) | list_not_applicable("suite", "http", revision).keys()
    }
    assert listed - known == SKILLS
