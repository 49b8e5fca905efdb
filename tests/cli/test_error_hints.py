"""Errors of the command line say what to do next."""

import socket
from collections.abc import Callable

import pytest
from click.testing import Result
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk_client import Client, NotConfigured, Unreachable
from tests.support.service import Service

Run = Callable[..., Result]


@pytest.fixture
def run(service: Service, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COPYDESK_DATA", str(service.desk.settings.data))
    monkeypatch.setenv("COPYDESK_URL", service.url)
    monkeypatch.setenv("COPYDESK_API_KEY", service.key)
    monkeypatch.setenv("COPYDESK_PROJECT", service.project.id)
    return lambda *arguments: CliRunner().invoke(app, arguments)  # type: ignore[return-value]


def test_missing_key_and_missing_project_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COPYDESK_API_KEY", "COPYDESK_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotConfigured, match="'copydesk key create' creates a key") as without_key:
        Client(project="proj_1")
    assert "COPYDESK_PROJECT" not in str(without_key.value)
    with pytest.raises(NotConfigured, match="'copydesk project list' lists the projects") as without_project:
        Client(key="desk_1")
    assert "COPYDESK_API_KEY" not in str(without_project.value)
    with pytest.raises(NotConfigured, match=r"Set COPYDESK_API_KEY; .* Set COPYDESK_PROJECT; "):
        Client()


def test_refused_connection_asks_whether_the_service_runs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    expected = r"Is 'copydesk serve' running there\? COPYDESK_URL names the service"
    with (
        Client(f"http://127.0.0.1:{port}", "desk_1", "proj_1") as client,
        pytest.raises(Unreachable, match=expected),
    ):
        client.create_job("Fix it.")


@pytest.mark.deep
def test_unknown_project_is_answered_with_the_nearest_name(run: Run, service: Service) -> None:
    name = service.project.name
    nearest = run("project", "show", "--project", f"{name.lower()}s")
    assert f"Did you mean '{name}'?" in str(nearest.exception)
    assert "Did you mean" not in str(run("project", "show", "--project", "xyzzy").exception)


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_port_in_use_says_how_to_choose_another(run: Run, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run(command, "--port", str(port))
    expected = f"copydesk: Cannot listen on 127.0.0.1:{port}: Address already in use. Choose another port with --port."
    assert (result.exit_code, result.stderr.strip()) == (1, expected)


def test_message_to_an_archived_job_says_how_to_unarchive_it(run: Run, service: Service) -> None:
    job = service.client.create_job("Replace colour with color.")["id"]
    service.client.archive_job(job)
    result = run("job", "message", job, "Go on.")
    assert str(result.exception) == f"The job is archived; unarchive it first. Run: copydesk job unarchive {job}"
