"""--project: every command that works on one project has it, with the same meaning."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from copydesk import cli
from copydesk.core.errors import InvalidRequest
from tests.support.command_line import Run, parse_output, run_command, set_client_variables
from tests.support.repositories import make_repository
from tests.support.service import Service

FOR_NO_SINGLE_PROJECT = {
    "serve", "work", "demo", "doctor", "backup", "restore", "migrate-stores", "completion", "mail test",
    "project create", "project list",
    "person role", "person remove", "person reset", "person first-link",
    "automation check", "analytics rebuild", "analytics backup", "analytics refresh-ranges",
}  # fmt: skip
ONLY_IF_GIVEN = {"key revoke", "person invite", "person list"}
"""Commands that work without a project. The option limits them to one, so they ignore COPYDESK_PROJECT."""


def list_commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
    for word, each in (below or {}).items():
        yield from list_commands(each, f"{name} {word}".strip())


def find_option(command: Any) -> Any:
    return next((each for each in command.params if "--project" in each.opts), None)


@pytest.fixture
def run(service: Service, monkeypatch: pytest.MonkeyPatch) -> Run:
    set_client_variables(service, monkeypatch)
    monkeypatch.delenv("COPYDESK_PROJECT")
    return run_command


def test_every_command_of_a_project_has_the_same_option() -> None:
    commands = dict(list_commands(typer.main.get_command(cli.app)))
    options = {name: find_option(command) for name, command in commands.items()}
    assert {name for name, option in options.items() if option is None} == FOR_NO_SINGLE_PROJECT
    assert {name for name, option in options.items() if option and not option.envvar} == ONLY_IF_GIVEN
    texts = {(o.metavar, o.help, o.envvar) for name, o in options.items() if o and name not in ONLY_IF_GIVEN}
    assert texts == {("PROJECT", "The project's ID or name.", "COPYDESK_PROJECT")}
    assert all(options[name].help.endswith("its ID or name.") for name in ONLY_IF_GIVEN)


@pytest.mark.parametrize("command", [("job", "list"), ("key", "list"), ("project", "show"), ("analytics", "views")])
def test_project_is_given_by_id_by_name_or_by_the_variable(
    run: Run, service: Service, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    missing = run(*command)
    assert missing.exit_code == 2
    assert "--project" in missing.stderr
    assert "COPYDESK_PROJECT" in missing.stderr
    by_id = parse_output(run(*command, "--project", service.project.id, "--json"))
    assert parse_output(run(*command, "--project", service.project.name, "--json")) == by_id
    monkeypatch.setenv("COPYDESK_PROJECT", service.project.name)
    assert parse_output(run(*command, "--json")) == by_id


@pytest.mark.parametrize("command", [("job", "list"), ("key", "list")])
def test_option_overrides_the_variable(
    run: Run, service: Service, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COPYDESK_PROJECT", "Elsewhere")
    assert "There is no project 'Elsewhere'" in str(run(*command).exception)
    assert run(*command, "--project", service.project.id).exit_code == 0


def test_key_of_another_project_is_not_revoked(run: Run, service: Service, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other.git", {"a.md": b"a\n"})
    assert run("project", "create", "Other", "--repo", str(other)).exit_code == 0
    (key,) = parse_output(run("key", "list", "--project", service.project.id, "--json"))
    assert "There is no such API key" in str(run("key", "revoke", key["id"], "--project", "Other").exception)
    assert parse_output(run("key", "revoke", key["id"], "--project", service.project.name, "--json"))["revokedAt"]


def test_name_needs_the_data_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path / "nowhere"))
    refused = run("job", "list", "--project", "Docs").exception
    assert isinstance(refused, InvalidRequest)
    assert "'Docs' is not given by its ID (proj_…)" in str(refused)
    assert str(tmp_path / "nowhere") in str(refused)
