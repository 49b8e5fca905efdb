"""The replacement for curl does what the documentation's examples need."""

import subprocess
import sys

import pytest

from tests.support.programs import CURL, curl_command, skip_missing
from tests.support.service import Service

STAND_IN = [sys.executable, "-IS", str(CURL)]


@pytest.fixture(params=["stand-in", "curl"])
def curl(request: pytest.FixtureRequest) -> list[str]:
    if request.param == "curl" and curl_command() == STAND_IN:
        skip_missing("curl", "Install the package curl.")
    return STAND_IN if request.param == "stand-in" else curl_command()


def run_curl(curl: list[str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*curl, "--silent", "--fail-with-body", *arguments], capture_output=True, text=True)


def test_a_body_is_posted_with_its_headers(curl: list[str], service: Service) -> None:
    url = f"{service.url}/v2/agent/{service.project.id}/job"
    key = ("--header", f"Authorization: Bearer {service.key}")
    created = run_curl(curl, url, *key, "--header", "Content-Type: application/json", "--data", '{"prompt": "Hello"}')
    assert created.returncode == 0
    assert '"prompt":"Hello"' in created.stdout.replace(" ", "")
    assert '"jobs"' in run_curl(curl, f"{url}s", "-H", f"Authorization: Bearer {service.key}").stdout


def test_headers_are_printed_when_they_are_asked_for(curl: list[str], service: Service) -> None:
    head, _, body = (
        run_curl(curl, f"{service.url}/healthz", "--include", "--retry", "5")
        .stdout.replace("\r\n", "\n")
        .partition("\n\n")
    )
    assert head.startswith("HTTP/1.1 200 OK\n")
    assert "\nx-request-id: " in head.lower()
    assert '"status"' in body


def test_failed_request_exits_with_22_and_prints_the_error(curl: list[str], service: Service) -> None:
    refused = run_curl(curl, f"{service.url}/v2/agent/{service.project.id}/jobs")
    assert refused.returncode == 22
    assert '"key_missing"' in refused.stdout
