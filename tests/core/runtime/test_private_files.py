"""Other users of the machine cannot read the service's files: real processes, with the usual umask."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core.runtime.private_files import find_exposed_files, make_files_private
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from tests.support import migrated_databases
from tests.support.processes import TIMEOUT_SECONDS, forkserver, free_port, settings_environment
from tests.support.repositories import list_branches, make_repository

OPEN_UMASK = 0o022
OTHER_USER = 65533
PAGE = {"docs/index.md": b"# Hello\n\nThe colour of things.\n"}


def file_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def list_open_files(folder: Path) -> list[str]:
    """Lists the folder and its content, as far as other users have any access."""
    return [f"{path} {file_mode(path):o}" for path in (folder, *folder.rglob("*")) if file_mode(path) & 0o077]


@contextmanager
def run_server(data: Path) -> Iterator[str]:
    """Runs `copydesk serve` with an open umask."""
    port = free_port()
    command = [sys.executable, "-m", "copydesk", "serve", "--port", str(port)]
    settings = {**os.environ, **settings_environment({"data": data})}
    with subprocess.Popen(command, env=settings, umask=OPEN_UMASK, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not _is_ready(f"http://127.0.0.1:{port}/readyz"):
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(address, timeout=30).status_code == 200
    except httpx.TransportError:
        return False


def run_job(api: httpx.Client, project_id: str) -> dict[str, Any]:
    job: dict[str, Any] = api.post(f"/v2/agent/{project_id}/job", json={"prompt": "Replace colour with color"}).json()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while job["status"] == "active":
        assert time.monotonic() < deadline
        time.sleep(0.1)
        job = api.get(f"/v2/agent/{project_id}/job/{job['id']}").json()
    return job


@pytest.mark.deep
def test_server_makes_its_files_private_and_repairs_open_ones(tmp_path: Path) -> None:
    data = tmp_path / "data"
    migrated_databases.new_sqlite(data)
    desk = open_desk(Settings(data=data))
    repository = make_repository(tmp_path / "docs.git", PAGE)
    project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
    desk.secrets.set(project.id, "webhook_secret", "hush", actor="test")
    key = desk.keys.create(project.id, actor="test")[1]
    desk.close()
    for path in (data / "copydesk.db", data / "secret.key"):
        path.chmod(0o644)
    (data / "notes.txt").write_text("A file of the user's own.")
    (data / "notes.txt").chmod(0o644)
    data.chmod(0o755)
    with (
        run_server(data) as url,
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as api,
    ):
        view = {"path": "/guide", "userAgent": "Mozilla/5.0", "ip": "192.0.2.7"}
        assert api.post(f"/v1/analytics/{project.id}/events", json=view, timeout=60).status_code == 202
        job = run_job(api, project.id)
        assert job["status"] == "completed", job["message"]
        assert {"copydesk.db", "copydesk.db-wal", "analytics.duckdb", "mirrors"} <= {
            each.name for each in data.iterdir()
        }
        assert list_open_files(data) == [f"{data / 'notes.txt'} 644"]
    commit = list_branches(repository)[job["branch"]]
    pushed = repository / "objects" / commit[:2] / commit[2:]
    assert file_mode(pushed) & 0o044 == 0o044, "the repository's other users can read what was pushed"
    assert file_mode(repository / "refs" / "heads" / job["branch"]) & 0o044 == 0o044


@pytest.mark.deep
def test_the_doctor_warns_about_files_that_other_users_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    migrated_databases.new_sqlite(data)
    make_files_private(Settings(data=data))
    monkeypatch.setenv("COPYDESK_DATA", str(data))

    def run_doctor() -> dict[str, Any]:
        result = CliRunner().invoke(app, ("doctor", "--json"))
        assert result.exit_code == 0, result.output
        [found] = [check for check in json.loads(result.stdout) if check["check"] == "private files"]
        return dict(found)

    assert run_doctor()["warning"] is False
    (data / "copydesk.db").chmod(0o640)
    (data / "mirrors").mkdir()
    (data / "mirrors").chmod(0o705)
    assert run_doctor()["warning"] is True
    assert str(data / "copydesk.db") in run_doctor()["says"]
    assert str(data / "mirrors") in run_doctor()["says"]
    assert "! private files: other users can read" in CliRunner().invoke(app, ("doctor",)).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_files_of_another_user_are_only_reported() -> None:
    """Files of other users occur on volumes whose root Kubernetes owns, or if root ran a command."""
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        data.chmod(0o755)
        for file in ("copydesk.db", "secret.key"):
            (data / file).write_text("x")
            (data / file).chmod(0o644)
        os.chown(data / "secret.key", OTHER_USER, OTHER_USER)
        settings = Settings(data=data)
        with ProcessPoolExecutor(1, mp_context=forkserver) as another:
            changed, failed = another.submit(make_private_as_other_user, settings).result()
        assert changed == [data / "secret.key"]
        assert failed == [data / "copydesk.db"], "and the folder is not this user's to change"
        assert find_exposed_files(settings) == [data, data / "copydesk.db"]


def make_private_as_other_user(settings: Settings) -> tuple[list[Path], list[Path]]:
    os.setuid(OTHER_USER)
    return make_files_private(settings)
