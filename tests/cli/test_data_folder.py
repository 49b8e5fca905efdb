"""The data folder on the command line: only a few commands create it, and every other one says where it looked."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import Result
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core.errors import DataFolderMissing, ProjectNotFound
from tests.support.postgres import new_database
from tests.support.repositories import make_repository

Run = Callable[..., Result]
PROJECT = "proj_01m7ejdwk9m7fcjvqdk3jx1ct8"
ONLY_USE_A_FOLDER = (
    "project list",
    f"project show --project {PROJECT}",
    f"project set --project {PROJECT} draft=true",
    f"project audit --project {PROJECT}",
    f"key create --project {PROJECT}",
    f"key list --project {PROJECT}",
    "key revoke key_01m7ejdwk9m7fcjvqdk3jx1ct8",
    f"secret list --project {PROJECT}",
    f"secret set forge_token --project {PROJECT}",
    f"pull list --project {PROJECT}",
    f"pull merge 1 --project {PROJECT}",
    "person list",
    "person remove ada@example.org --yes",
    f"analytics import access.log --project {PROJECT}",
    "analytics rebuild",
    "analytics refresh-ranges",
    f"analytics delete --project {PROJECT} --yes",
    "analytics backup copy.duckdb",
    "backup copy",
    "migrate-stores --to-database sqlite:////nowhere/copydesk.db --check",
)
NEED_A_PROJECT = [command for command in ONLY_USE_A_FOLDER if PROJECT in command]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs copydesk … in an empty folder, with the default data folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COPYDESK_DATA", raising=False)
    return lambda *arguments, **options: CliRunner().invoke(app, arguments, **options)  # type: ignore[return-value]


@pytest.mark.parametrize("command", ONLY_USE_A_FOLDER)
def test_command_creates_no_data_folder_and_names_the_one_it_looked_for(run: Run, tmp_path: Path, command: str) -> None:
    result = run(*command.split(), input="value")
    assert result.exit_code == 1
    assert str(tmp_path / "copydesk-data") in str(result.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_doctor_creates_no_data_folder(run: Run, tmp_path: Path) -> None:
    shown = run("doctor")
    assert shown.exit_code == 0, shown.output
    assert f"! data folder: {tmp_path / 'copydesk-data'} does not exist yet" in shown.stdout
    for check in ("private files", "database", "views", "secrets", "repositories"):
        assert f"– {check}: not checked, because there is no da" in shown.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
@pytest.mark.parametrize("command", ["person first-link", "person invite ada@example.org", "project create"])
def test_first_command_creates_the_data_folder(run: Run, tmp_path: Path, command: str) -> None:
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    options = ("Docs", "--repo", str(repository)) if command == "project create" else ()
    assert run(*command.split(), *options).exit_code == 0
    assert (tmp_path / "copydesk-data" / "copydesk.db").exists()


@pytest.mark.deep
@pytest.mark.parametrize("command", NEED_A_PROJECT)
def test_unknown_project_is_reported_with_the_data_folder(run: Run, tmp_path: Path, command: str) -> None:
    assert run("person", "first-link").exit_code == 0
    result = run(*command.split(), input="value")
    assert isinstance(result.exception, ProjectNotFound)
    assert f"There is no project '{PROJECT}' in {tmp_path / 'copydesk-data'}." in str(result.exception)
    assert f"in {tmp_path / 'copydesk-data'}" in run("project", "list").stderr


def test_missing_sqlite_file_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_DATABASE_URL", f"sqlite:///{tmp_path}/other.db")
    result = run("project", "list")
    assert isinstance(result.exception, DataFolderMissing)
    assert f"There is no database {tmp_path}/other.db." in str(result.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_postgres_needs_no_data_folder_and_its_password_is_not_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    monkeypatch.setenv("COPYDESK_DATABASE_URL", url)
    assert run("project", "list", "--json").stdout == "[]\n"
    missing = str(run("project", "show", "--project", PROJECT).exception)
    assert f"{urlsplit(url).path}. " in missing
    assert "@" not in missing
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_secrets_are_not_encrypted_with_a_key_in_a_new_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPYDESK_DATABASE_URL", new_database())
    repository = make_repository(tmp_path / "docs.git", {"a.md": b"a\n"})
    assert run("project", "create", "Docs", "--repo", str(repository)).exit_code == 0
    subprocess.run(["rm", "-r", str(tmp_path / "copydesk-data")], check=True)
    refused = run("secret", "set", "forge_token", "--project", "Docs", input="token")
    assert isinstance(refused.exception, DataFolderMissing)
    assert not (tmp_path / "copydesk-data").exists()
