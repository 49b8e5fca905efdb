"""Projects and secrets on the command line: settings are stored or refused, and secrets are never shown."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core.errors import InvalidRequest
from tests.jobs.publish.forges.extra_calls import FAKE_FORGES
from tests.support import migrated_databases
from tests.support.repositories import make_repository

Run = Callable[..., Result]
TOKEN = "token-of-the-documentation-team-0815"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    migrated_databases.new_sqlite(tmp_path / "data")
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path / "data"))
    return lambda *arguments, **options: CliRunner().invoke(app, arguments, **options)  # type: ignore[return-value]


@pytest.fixture
def project(run: Run, tmp_path: Path) -> str:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    made = run("project", "create", "Docs", "--repo", str(repository), "--set", "draft=true", "--json")
    return str(json.loads(made.stdout)["projectId"])


def test_a_projects_settings_are_changed_and_shown(run: Run, project: str) -> None:
    done = run("project", "set", "labels=docs, agent", "sign-off=true", "root=docs", "--project", project, "--json")
    facts = json.loads(done.stdout)
    assert (facts["root"], facts["policy"]["labels"], facts["policy"]["draft"]) == ("docs", ["docs", "agent"], True)
    shown = run("project", "show", "--project", project).stdout
    assert re.search(r"^labels +docs, agent$", shown, re.M)
    assert shown.count("sign_off") == 1


@pytest.mark.deep
def test_project_is_found_by_id_by_name_and_by_the_variable(
    run: Run, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (project, "Docs", "docs"):
        assert run("project", "show", "--project", name, "--quiet").stdout == f"{project}\n"
    assert run("key", "create", "--project", "Docs", "--quiet").stdout.startswith("desk_")
    assert len(json.loads(run("key", "list", "--project", "docs", "--json").stdout)) == 1
    assert run("project", "show").exit_code == 2
    assert run("project", "set", "draft=true").exit_code == 2
    assert run("project", "set", "--project", project).exit_code == 2
    for value in (project, "Docs"):
        monkeypatch.setenv("COPYDESK_PROJECT", value)
        assert json.loads(run("project", "show", "--json").stdout)["projectId"] == project
        assert json.loads(run("project", "set", "draft=false", "labels=a", "--json").stdout)["policy"]["labels"] == [
            "a"
        ]
        assert "project.changed" in run("project", "audit").stdout
        assert run("pull", "list").exit_code == 0
    create = ("project", "create", "Docs", "--repo", str(tmp_path / "docs.git"), "--quiet")
    again = run(*create, "--allow-same-name").stdout.strip()
    refused = run("project", "show", "--project", "Docs")
    assert str(refused.exception) == f"2 projects are named 'Docs': {project}, {again}. Use the ID."
    named = run("project", "create", "proj_docs", "--repo", str(tmp_path / "docs.git"), "--quiet").stdout
    assert run("project", "show", "--project", "proj_docs", "--quiet").stdout == named
    assert "There is no project 'Dogs' in" in str(run("project", "show", "--project", "Dogs").exception)


@pytest.mark.deep
def test_missing_branch_or_folder_is_stored_with_a_note(run: Run, project: str, tmp_path: Path) -> None:
    for value, note in (
        ("root=handbook", "There is no folder handbook on the branch main"),
        ("ref=nowhere", "The repository has no branch nowhere; it has main."),
    ):
        assert "Note:" not in run("project", "set", value, "--no-check", "--project", project).stderr
        done = run("project", "set", value, "--json", "--project", project)
        assert done.exit_code == 0, done.output
        assert note in done.stderr
    assert "Note:" not in run("project", "set", "ref=main", "root=docs", "--project", project).stderr
    assert "Note:" not in run("project", "set", "draft=false", "--project", project).stderr
    made = run("project", "create", "Handbook", "--repo", str(tmp_path / "docs.git"), "--root", "handbook", "--json")
    assert json.loads(made.stdout)["root"] == "handbook"
    assert "There is no folder handbook on the branch main" in made.stderr


@pytest.mark.deep
def test_repository_of_a_project_is_checked(run: Run, project: str) -> None:
    assert run("project", "check", "--project", project).stdout == "Access works. Jobs start from main.\n"
    assert json.loads(run("project", "check", "--project", "Docs", "--json").stdout) == {
        "ok": True,
        "problems": [],
        "note": None,
    }
    run("project", "set", "root=handbook", "--no-check", "--project", project)
    wrong = run("project", "check", "--project", project)
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "There is no folder handbook on the branch main" in wrong.stderr
    assert json.loads(run("project", "check", "--project", project, "--json").stdout)["ok"] is False


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("labels", "'labels' is not in the form NAME=VALUE."),
        ("colour=red", "colour: unknown setting"),
        ("ignored_checks=lnk", "There is no check 'lnk'. Use one of: link, anchor,"),
        ("model=gpt", "There is no model 'gpt'. Use one of: mechanic,"),
        ("on_check_failure=maybe", "on_check_failure: Input should be 'draft' or 'fail'"),
    ],
)
def test_a_wrong_setting_is_refused_with_a_sentence(run: Run, project: str, value: str, message: str) -> None:
    before = run("project", "show", "--project", project, "--json").stdout
    refused = run("project", "set", value, "--project", project)
    assert isinstance(refused.exception, InvalidRequest), refused.exception
    assert str(refused.exception).startswith(message)
    assert run("project", "show", "--project", project, "--json").stdout == before


@pytest.mark.deep
def test_a_secret_is_set_listed_and_removed_and_never_shown(run: Run, project: str) -> None:
    said = run("secret", "set", "forge_token", "--project", project, input=f"{TOKEN}\n").stdout
    said += run("secret", "list", "--project", project).stdout
    said += run("secret", "list", "--project", project, "--json").stdout
    said += run("project", "show", "--project", project).stdout + run("project", "audit", "--project", project).stdout
    said += run("secret", "remove", "forge_token", "--project", project).stdout
    assert "forge_token" in said
    assert TOKEN not in said
    assert run("secret", "remove", "forge_token", "--project", project).exit_code == 1
    assert run("secret", "set", "password", "--project", project, input="x").exit_code == 1


@pytest.mark.deep
@pytest.mark.parametrize("forge", ["github", "gitlab", "gitea", "forgejo"])
def test_project_on_a_forge_is_created_once_its_token_has_the_needed_permissions(
    run: Run, tmp_path: Path, forge: str
) -> None:
    with FAKE_FORGES[forge](tmp_path / "forge", "acme/docs") as fake:
        fake.add_token(TOKEN)
        wanted = (
            "project",
            "create",
            "Forge",
            "--repo",
            fake.repository_url("acme/docs"),
            "--forge",
            forge,
            "--allow-same-name",
        )
        assert run(*wanted).exit_code == 1, "it is private"
        made = run(*wanted, "--token-stdin", "--json", input=f"{TOKEN}\n")
        assert made.exit_code == 0, made.output
        assert TOKEN not in made.output
        assert "forge_token" in run("secret", "list", "--project", json.loads(made.stdout)["projectId"]).stdout
        fake.revoke(TOKEN)
        assert run(*wanted, "--token-stdin", input=TOKEN).exit_code == 1
        assert run(*wanted, "--no-check").exit_code == 1, "the branch must be named then"
        assert run(*wanted, "--no-check", "--ref", "main").exit_code == 0
        assert fake.violations == []
