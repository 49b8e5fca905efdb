"""A proxy that is not trusted: the service and copydesk doctor say what happens and which setting to set."""

import logging
from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.datastructures import Headers

from copydesk.web.http.client_address import ClientAddressFinder
from tests.support.command_line import run_command
from tests.support.repositories import make_repository
from tests.support.service import serve

FORWARDED = {"X-Forwarded-For": "203.0.113.7"}
WARNING = "COPYDESK_TRUSTED_PROXIES is not set"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("proxy") / "docs.git", {"index.md": b"# Hello\n"})


def find_address(finder: ClientAddressFinder, peer: str, **headers: str) -> str | None:
    scope = {"type": "http", "client": (peer, 1234)}
    return finder.find_address(scope, Headers({name.replace("_", "-"): value for name, value in headers.items()}))


def read_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if WARNING in record.getMessage()]


def test_served_requests_through_a_proxy_are_reported_once(
    tmp_path: Path, repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(tmp_path / "data", repository=repository, with_worker=False) as service:
        assert httpx.get(f"{service.url}/healthz", timeout=60).status_code == 200
        assert read_warnings(caplog) == []
        for _ in range(3):
            assert httpx.get(f"{service.url}/healthz", headers=FORWARDED, timeout=60).status_code == 200
    [warning] = read_warnings(caplog)
    assert "they share its rate limits" in warning
    assert "set COPYDESK_TRUSTED_PROXIES=127.0.0.1" in warning


def test_trusted_proxy_is_not_reported(tmp_path: Path, repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serve(tmp_path / "data", repository=repository, with_worker=False, trusted_proxies="127.0.0.1") as service:
        assert httpx.get(f"{service.url}/healthz", headers=FORWARDED, timeout=60).status_code == 200
    assert read_warnings(caplog) == []


@pytest.mark.parametrize(
    "peer", ["127.0.0.1", "::1", "10.1.2.3", "172.18.0.1", "192.168.1.1", "fd00::1", "::ffff:10.0.0.1"]
)
def test_private_senders_are_reported(peer: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        find_address(ClientAddressFinder(()), peer, x_forwarded_for="203.0.113.7")
    assert len(read_warnings(caplog)) == 1


def test_strangers_who_send_the_header_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    finder = ClientAddressFinder(())
    assert find_address(finder, "8.8.8.8", x_forwarded_for="127.0.0.1") == "8.8.8.8"
    assert read_warnings(caplog) == []
    find_address(finder, "10.0.0.1", x_forwarded_for="203.0.113.7")
    assert len(read_warnings(caplog)) == 1, "a stranger does not use up the warning"


@pytest.mark.deep
def test_doctor_warns_if_a_proxy_is_certain_and_none_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path / "data"))
    assert "✓ proxy: none" in run_command("doctor").stdout
    monkeypatch.setenv("COPYDESK_BASE_URL", "https://desk.example.org")
    shown = run_command("doctor")
    assert shown.exit_code == 0, "a warning"
    assert "! proxy: COPYDESK_BASE_URL is https://desk.example.org, so a proxy with TLS is in front" in shown.stdout
    assert WARNING in shown.stdout
    monkeypatch.setenv("COPYDESK_TRUSTED_PROXIES", "10.0.0.0/8")
    assert "✓ proxy: 10.0.0.0/8 trusted" in run_command("doctor").stdout
