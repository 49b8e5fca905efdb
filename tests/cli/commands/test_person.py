"""copydesk person …, on a new data folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core.errors import KeyRejected, RequestError
from copydesk.core.settings import read_settings
from copydesk.desk import Desk, open_desk
from tests.support import migrated_databases
from tests.support.people import PASSWORD, add_person

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    migrated_databases.new_sqlite(tmp_path / "data")
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COPYDESK_BASE_URL", "https://docs.example.org")
    return lambda *arguments, **options: CliRunner().invoke(app, ("person", *arguments), **options)  # type: ignore[return-value]


@pytest.fixture
def desk(run: Run) -> Any:
    desk = open_desk(read_settings())
    yield desk
    desk.close()


def parse_output(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def link_secret(facts: dict[str, str]) -> str:
    assert facts["link"].startswith("https://docs.example.org/join/")
    return facts["link"].rpartition("/")[2]


@pytest.mark.deep
def test_first_link_can_be_printed_again_until_there_is_an_administrator(run: Run, desk: Desk) -> None:
    assert "There are no accounts yet" in run("list").stderr
    made = desk.people.accept_invitation(
        link_secret(parse_output(run("first-link", "--json"))), "ada@example.org", "Ada", PASSWORD
    )
    assert made.role == "admin"
    refused = run("first-link")
    assert refused.exit_code == 1
    assert "There is an administrator already" in refused.stderr


@pytest.mark.deep
def test_person_is_invited_listed_and_removed(run: Run, desk: Desk) -> None:
    add_person(desk, "ada@example.org", "admin")
    invited = parse_output(run("invite", "Eve@example.org", "--role", "editor", "--json"))
    assert (invited["email"], invited["role"]) == ("eve@example.org", "editor")
    assert desk.people.get_invitation(link_secret(invited)).role == "editor"
    eve = add_person(desk, "eve@example.org", "editor")
    project = desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")
    desk.keys.create(project.id, actor=eve.email)
    assert [(one["email"], one["role"], one["liveKeys"]) for one in parse_output(run("list", "--json"))] == [
        ("ada@example.org", "admin", 0),
        ("eve@example.org", "editor", 1),
    ]
    assert "eve@example.org\tEditor\teditor" in run("list").stdout
    assert run("remove", "eve@example.org", input="n\n").exit_code == 1
    assert parse_output(run("remove", "eve@example.org", "--yes", "--json")) == {"email": eve.email, "keysRevoked": 1}
    assert [one.email for one in desk.people.all()] == ["ada@example.org"]


def test_a_demoted_administrators_keys_are_listed_and_revoked(run: Run, desk: Desk) -> None:
    add_person(desk, "ada@example.org", "admin")
    eve = add_person(desk, "eve@example.org", "admin")
    project = desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")
    key, secret = desk.keys.create(project.id, name="CI", actor=eve.email)
    refused = run("role", eve.email, "viewer", input="n\n")
    assert refused.exit_code == 1
    assert f"{key.id}  CI  {key.hint}…  read+write  Docs  never used" in refused.stderr
    desk.keys.authenticate(secret, project.id, "write", None)
    changed = parse_output(run("role", eve.email, "viewer", "--yes", "--json"))
    assert changed == {"email": eve.email, "role": "viewer", "keysRevoked": 1}
    with pytest.raises(KeyRejected):
        desk.keys.authenticate(secret, project.id, "write", None)


def test_a_demoted_administrators_keys_can_be_kept(run: Run, desk: Desk) -> None:
    add_person(desk, "ada@example.org", "admin")
    eve = add_person(desk, "eve@example.org", "admin")
    project = desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")
    _, secret = desk.keys.create(project.id, name="CI", actor=eve.email)
    assert parse_output(run("role", eve.email, "viewer", "--keep-keys", "--json"))["keysRevoked"] == 0
    desk.keys.authenticate(secret, project.id, "write", None)


def test_person_who_forgot_their_password_gets_a_reset_link(run: Run, desk: Desk) -> None:
    ada = add_person(desk, "ada@example.org", "admin")
    assert desk.people.get_invitation(link_secret(parse_output(run("reset", "ada@example.org", "--json")))).is_reset
    assert "It is not shown again" in run("reset", ada.email).stderr


def test_person_gets_a_role_in_one_project_and_loses_it(run: Run, desk: Desk) -> None:
    eve = add_person(desk, "eve@example.org", "none")
    docs, other = (
        desk.projects.create(name, repository="/srv/docs.git", ref="main", actor="test") for name in ("Docs", "Other")
    )
    assert parse_output(run("access", eve.email, "admin", "--project", "Docs", "--json")) == {
        "email": eve.email,
        "projectId": docs.id,
        "role": "admin",
        "keysRevoked": 0,
    }
    assert parse_output(run("list", "--json"))[0]["projectRoles"] == {docs.id: "admin"}
    assert "Docs: admin" in run("list").stdout
    assert len(parse_output(run("list", "--project", docs.id, "--json"))) == 1
    assert parse_output(run("list", "--project", other.id, "--json")) == []
    desk.keys.create(docs.id, actor=eve.email)
    assert "Revoked 1 key." in run("access", eve.email, "none", "--project", docs.id).stdout
    assert parse_output(run("list", "--json"))[0]["projectRoles"] == {}


@pytest.mark.deep
def test_person_is_invited_to_one_project(run: Run, desk: Desk) -> None:
    docs = desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")
    invited = parse_output(run("invite", "eve@example.org", "--project", "Docs", "--role", "editor", "--json"))
    assert (invited["projectId"], invited["role"]) == (docs.id, "editor")
    eve = desk.people.accept_invitation(link_secret(invited), "", "Eve", PASSWORD)
    assert (eve.role, desk.people.project_roles.load(eve)) == ("none", {docs.id: "editor"})


@pytest.mark.parametrize(
    "arguments",
    [
        ("invite", "nonsense"),
        ("invite", "ada@example.org"),
        ("invite", "eve@example.org", "--role", "owner"),
        ("remove", "nobody@example.org", "--yes"),
        ("remove", "ada@example.org", "--yes"),
        ("reset", "nobody@example.org"),
        ("access", "nobody@example.org", "viewer", "--project", "Docs"),
        ("access", "ada@example.org", "owner", "--project", "Docs"),
        ("access", "ada@example.org", "viewer", "--project", "proj_0"),
        ("invite", "eve@example.org", "--project", "Docs", "--role", "none"),
    ],
    ids=" ".join,
)
def test_impossible_changes_are_refused(run: Run, desk: Desk, arguments: tuple[str, ...]) -> None:
    add_person(desk, "ada@example.org", "admin")
    desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")
    assert isinstance(run(*arguments).exception, RequestError)
