"""Sealed secrets: encrypted at rest, bound to their project and name, never shown again."""

import base64
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import update

from copydesk.core.audit_log import list_entries
from copydesk.core.db.tables import secrets
from copydesk.core.errors import InvalidRequest, NotFound
from copydesk.core.projects.projects import Project
from copydesk.core.projects.sealed_secrets import CannotUnseal, SealedSecrets
from copydesk.core.settings import BadSettings, Settings
from copydesk.desk import Desk, open_desk

VALUE = "ghp_a-very-secret-token-1234567890"


def make_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


@pytest.fixture
def project(desk: Desk) -> Project:
    return desk.projects.create("Docs", repository="https://example.org/docs.git", ref="main", actor="ada")


def test_secret_is_decrypted_unchanged_and_the_newest_wins(desk: Desk, project: Project) -> None:
    desk.secrets.set(project.id, "forge_token", "old", actor="ada")
    desk.secrets.set(project.id, "forge_token", f"{VALUE}\n", actor="ada")
    assert desk.secrets.all(project.id) == {"forge_token": VALUE}
    desk.secrets.remove(project.id, "forge_token", actor="ada")
    assert desk.secrets.get(project.id, "forge_token") is None
    with pytest.raises(NotFound):
        desk.secrets.remove(project.id, "forge_token", actor="ada")
    actions = [entry["action"] for entry in list_entries(desk.database, project.id)]
    assert actions == ["secret.removed", "secret.set", "secret.set", "project.created"]


def test_no_secret_is_in_the_database_or_the_audit_log(tmp_path: Path) -> None:
    with_file = open_desk(Settings(data=tmp_path, database_url=""))
    made = with_file.projects.create("Docs", repository="https://example.org/docs.git", ref="main", actor="ada")
    with_file.secrets.set(made.id, "forge_token", VALUE, actor="ada")
    with_file.close()
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert VALUE.encode() not in file.read_bytes(), file
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600


def test_sealed_row_cannot_be_moved_to_another_project(desk: Desk, project: Project) -> None:
    other = desk.projects.create("Other", repository="https://example.org/other.git", ref="main", actor="ada")
    desk.secrets.set(project.id, "forge_token", VALUE, actor="ada")
    with desk.database.write() as tx:
        tx.execute(update(secrets).values(project_id=other.id))
    with pytest.raises(CannotUnseal) as failure:
        desk.secrets.all(other.id)
    assert VALUE not in str(failure.value)


def test_old_secrets_open_while_the_old_key_is_listed(desk: Desk, project: Project) -> None:
    old, new = make_key(), make_key()
    SealedSecrets(desk.database, Settings(secret_key=(old,))).set(project.id, "app_key", VALUE, actor="ada")
    both = SealedSecrets(desk.database, Settings(secret_key=(new, old)))
    assert both.get(project.id, "app_key") == VALUE
    both.set(project.id, "app_key", VALUE, actor="ada")
    assert SealedSecrets(desk.database, Settings(secret_key=(new,))).get(project.id, "app_key") == VALUE
    with pytest.raises(CannotUnseal):
        SealedSecrets(desk.database, Settings(secret_key=(old,))).get(project.id, "app_key")


@pytest.mark.parametrize("key", ["x", "YWJj", base64.b64encode(bytes(31)).decode()])
def test_invalid_key_error_names_its_environment_variable(desk: Desk, project: Project, key: str) -> None:
    with pytest.raises(BadSettings, match="COPYDESK_SECRET_KEY"):
        SealedSecrets(desk.database, Settings(secret_key=(key,))).set(project.id, "app_key", VALUE, actor="ada")


@pytest.mark.parametrize(("name", "value"), [("password", "x"), ("forge_token", "  "), ("forge_token", "x" * 20_001)])
def test_only_known_secrets_up_to_the_size_limit_are_sealed(
    desk: Desk, project: Project, name: str, value: str
) -> None:
    with pytest.raises(InvalidRequest):
        desk.secrets.set(project.id, name, value, actor="ada")


@pytest.mark.deep
def test_processes_starting_together_create_one_key(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys; from copydesk.core.projects.sealed_secrets import _read_or_create_key; "
        "print(_read_or_create_key(pathlib.Path(sys.argv[1])))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "secret.key")], stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    assert len({process.communicate()[0] for process in started}) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]


def test_first_caller_creates_a_secret_and_all_others_get_it(desk: Desk, project: Project) -> None:
    together = Barrier(4)

    def get_or_create(_: int) -> str:
        together.wait()
        return desk.secrets.get_or_create(project.id, "visitor_key")

    with ThreadPoolExecutor(4) as pool:
        values = set(pool.map(get_or_create, range(4)))
    assert values == {desk.secrets.get_or_create(project.id, "visitor_key")}
