"""A backup contains everything, verifies, and restores to a working Copydesk on either database."""

import json
import os
import re
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import inspect, text
from typer.testing import CliRunner

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.cli import app
from copydesk.cli.demo.sample_traffic import BROWSERS
from copydesk.core.clock import DAY
from copydesk.core.db.database import Database
from copydesk.core.db.migrate import UnfinishedMove, migrate
from copydesk.core.errors import UserFacingError
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.prompts.template import TemplateField, build_template
from copydesk.transfer.backup.manifest import Manifest
from copydesk.transfer.backup.restore import DataWouldBeLost, restore_backup
from copydesk.transfer.errors import MigrationFailed
from copydesk.transfer.migrate import database as database_migration
from copydesk.transfer.progress import SilentProgress
from copydesk_client import Client
from tests.support import clickhouse
from tests.support.filled_data import KEY, TOKEN, copy_data, read_api_answers, serve_copy
from tests.support.imported_history import add_history, read_history
from tests.support.people import add_person
from tests.support.postgres import new_database
from tests.support.processes import CommandSpec, RunningCommand, RunningServer, free_port, settings_environment
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs copydesk … on this data folder and database."""

    def run(data: Path, *arguments: str, url: str = "", key: str = KEY) -> Result:
        for name, value in {"DATA": str(data), "DATABASE_URL": url, "SECRET_KEY": key}.items():
            monkeypatch.setenv(f"COPYDESK_{name}", value)
        done: Result = CliRunner().invoke(app, arguments)  # type: ignore[assignment]
        return done

    return run


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Returns a data folder with people, jobs, secrets and views; no process uses it."""
    copy_data(tmp_path / "old")
    return tmp_path / "old"


@pytest.fixture
def backup_path(run: Run, old: Path, tmp_path: Path) -> Path:
    """Creates a backup of it."""
    done = run(old, "backup", str(tmp_path / "copy"))
    assert done.exit_code == 0, done.output
    return tmp_path / "copy"


def make_view(visitor: int) -> PageView:
    return PageView("proj_1", "/", 20_000 * DAY, VisitorClass.HUMAN, "", "", "test", "1", visitor, "", "", 200, visitor)


def error_message(done: Result) -> str:
    """Returns the error message; asserts that the output has no traceback."""
    assert done.exit_code == 1
    return str(done.exception) if not isinstance(done.exception, SystemExit) else done.stderr


def serve_restored(data: Path, service: Service, url: str = "") -> Any:
    """Serves Copydesk on this folder; returns a client with the project and key of the old service."""
    with serve(data, repository=service.repository, database_url=url, secret_key=KEY, with_worker=False) as now:
        project = now.desk.projects.get(service.project.id)
        assert now.desk.secrets.get(project.id, "forge_token") == TOKEN
        return read_api_answers(Service(now.url, now.desk, project, service.key, service.repository))


@pytest.mark.deep
@pytest.mark.parametrize("engine", ["postgres", pytest.param("sqlite", marks=pytest.mark.drill)])
def test_backup_of_a_running_service_restores_on_the_other_database(run: Run, tmp_path: Path, engine: str) -> None:
    urls = {"sqlite": f"sqlite:///{tmp_path / 'data' / 'copydesk.db'}", "postgres": new_database()}
    url = urls.pop(engine)
    with serve_copy(tmp_path / "data", url) as service:
        facts = read_api_answers(service)
        assert run(tmp_path / "data", "backup", str(tmp_path / "copy"), url=url).exit_code == 0
    [(other, elsewhere)] = urls.items()
    elsewhere = elsewhere if other == "postgres" else ""
    done = run(tmp_path / "new", "restore", str(tmp_path / "copy"), url=elsewhere)
    assert done.exit_code == 0, done.output
    assert "cannot be decrypted" not in done.stderr
    assert serve_restored(tmp_path / "new", service, elsewhere) == facts


@pytest.mark.deep
def test_roles_in_projects_and_prompt_templates_are_in_the_backup(run: Run, tmp_path: Path) -> None:
    field = TemplateField("page", "Page", required=False, choices=("a", "ö"))
    desk = open_desk(Settings(data=tmp_path / "data", secret_key=KEY))
    project = desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")
    template = desk.prompts.create(
        project.id, build_template("own", "Own", "", "Fix it.\n{{page}}", [field]), actor="test"
    )
    person = add_person(desk, "ada@example.org", "none")
    desk.people.project_roles.set_role(person.id, project.id, "editor", actor="test")
    link = desk.people.invite_to_project("eve@example.org", project.id, "viewer", actor="test")
    desk.close()
    assert run(tmp_path / "data", "backup", str(tmp_path / "copy")).exit_code == 0
    url = new_database()
    done = run(tmp_path / "new", "restore", str(tmp_path / "copy"), url=url)
    assert done.exit_code == 0, done.output
    restored = open_desk(Settings(data=tmp_path / "new", database_url=url, secret_key=KEY))
    assert restored.prompts.get(project.id, "own") == template
    assert restored.people.project_roles.load(person) == {project.id: "editor"}
    assert restored.people.get_invitation(link).project_roles == {project.id: "viewer"}
    restored.close()


@pytest.mark.deep
def test_commands_know_every_table(tmp_path: Path) -> None:
    """Checks it in a new process, since tests import modules with tables that the commands may not import."""
    code = "from copydesk.transfer.row_codec import TABLES; print(*TABLES)"
    known = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    database = Database(f"sqlite:///{tmp_path / 'copydesk.db'}")
    migrate(database)
    with database.read() as tx:
        existing = {*inspect(tx).get_table_names()} - {"alembic_version"}
    database.close()
    assert existing == {*known}


@pytest.mark.deep
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_imported_history_is_restored_on_the_other_database(run: Run, tmp_path: Path, engine: str) -> None:
    urls = {"sqlite": "", "postgres": new_database()}
    url = urls.pop(engine)
    [elsewhere] = urls.values()
    desk = open_desk(Settings(data=tmp_path / "data", database_url=url, secret_key=KEY))
    project = desk.projects.create("Docs", repository=str(tmp_path), ref="main", actor="test")
    add_history(desk, project.id)
    before = read_history(desk, project.id)
    desk.close()
    assert run(tmp_path / "data", "backup", str(tmp_path / "copy"), url=url).exit_code == 0
    done = run(tmp_path / "new", "restore", str(tmp_path / "copy"), url=elsewhere)
    assert done.exit_code == 0, done.output
    restored = open_desk(Settings(data=tmp_path / "new", database_url=elsewhere, secret_key=KEY))
    assert read_history(restored, project.id) == before
    restored.close()


@pytest.mark.deep
def test_manifest_contains_no_secret_and_no_personal_data(backup_path: Path, old: Path) -> None:
    manifest = (backup_path / "manifest.json").read_text()
    with sqlite3.connect(old / "copydesk.db") as file:
        told = [row for table in ("people", "keys", "projects") for row in file.execute(f"select * from {table}")]
    file.close()
    words = {str(value) for row in told for value in row if isinstance(value, str) and len(value) > 6}
    assert "admin@example.org" in words
    assert [word for word in sorted(words) if word in manifest] == []
    assert KEY not in manifest
    assert TOKEN not in manifest
    assert "@" not in manifest
    assert "COPYDESK_SECRET_KEY" in json.loads(manifest)["settings"]


@pytest.mark.deep
def test_backup_is_private_and_contains_the_key_only_on_request(run: Run, old: Path, tmp_path: Path) -> None:
    (old / "secret.key").write_text(KEY + "\n")
    plain, whole = tmp_path / "plain", tmp_path / "whole"
    assert "secret.key elsewhere" in run(old, "backup", str(plain), key="").stderr
    assert "the key that decrypts them" in run(old, "backup", str(whole), "--with-secret-key", key="").stderr
    assert [KEY.encode() in path.read_bytes() for path in plain.rglob("*") if path.is_file()].count(True) == 0
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (plain, whole)} == {0}
    done = run(tmp_path / "a", "restore", str(plain), key="")
    assert "cannot be decrypted" in done.stderr
    assert not (tmp_path / "a" / "secret.key").exists(), "no key was made that opens nothing"
    assert "cannot be decrypted" not in run(tmp_path / "b", "restore", str(whole), key="").stderr
    assert stat.S_IMODE((tmp_path / "b" / "secret.key").stat().st_mode) == 0o600
    assert "copy of COPYDESK_SECRET_KEY" in error_message(run(old, "backup", str(tmp_path / "c"), "--with-secret-key"))


def test_restore_does_not_overwrite_another_key(run: Run, tmp_path: Path) -> None:
    data, copy, another = (tmp_path / name for name in ("data", "copy", "another"))
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n"})
    assert run(data, "project", "create", "Docs", "--repo", str(repository), key="").exit_code == 0
    (data / "secret.key").write_text(f"{KEY}\n")
    assert run(data, "backup", str(copy), "--with-secret-key", key="").exit_code == 0
    another.mkdir()
    (another / "secret.key").write_text("another\n")
    assert "a different key in secret.key" in error_message(run(another, "restore", str(copy), key=""))
    assert (another / "secret.key").read_text() == "another\n"


@pytest.mark.deep
def test_damaged_backup_is_refused_before_any_change(run: Run, backup_path: Path, tmp_path: Path) -> None:
    for name in ("manifest.json", "database/jobs.jsonl.gz", "analytics.duckdb"):
        path = backup_path / name
        whole = path.read_bytes()
        middle = len(whole) // 2
        for harmed in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:middle], None):
            path.unlink()
            if harmed is not None:
                path.write_bytes(harmed)
            sentence = error_message(run(tmp_path / "new", "backup", "--verify", str(backup_path)))
            assert str(backup_path) in sentence
            assert error_message(run(tmp_path / "new", "restore", str(backup_path))) == sentence
            path.write_bytes(whole)
    assert not (tmp_path / "new").exists()
    assert "Backup is valid" in run(tmp_path / "new", "backup", "--verify", str(backup_path)).stdout


@pytest.mark.deep
def test_wrong_row_count_in_the_manifest_is_noticed(run: Run, backup_path: Path) -> None:
    facts = json.loads((backup_path / "manifest.json").read_bytes())
    facts["tables"]["jobs"]["rows"] += 1
    (backup_path / "manifest.json").write_text(json.dumps(facts))
    assert "its checksum does not match" in error_message(run(backup_path, "backup", "--verify", str(backup_path)))


@pytest.mark.deep
def test_restore_overwrites_existing_data_only_with_replace(run: Run, backup_path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    assert run(new, "restore", str(backup_path)).exit_code == 0
    with sqlite3.connect(new / "copydesk.db") as file:
        file.execute("update projects set name = 'Changed'")
    file.close()
    sentence = error_message(run(new, "restore", str(backup_path)))
    assert re.search(r"1 project, 3 people, 4 jobs, 3 feedback entries", sentence)
    assert "--replace" in sentence
    assert run(new, "restore", str(backup_path), "--replace").exit_code == 0
    with sqlite3.connect(new / "copydesk.db") as file:
        assert file.execute("select name from projects").fetchall() == [("Docs",)]
    file.close()


@pytest.mark.deep
@pytest.mark.parametrize("is_moved", [False, True])
def test_unfinished_restore_is_not_served(
    old: Path, backup_path: Path, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, is_moved: bool
) -> None:
    settings = Settings(data=tmp_path / "new", database_url=database_url, secret_key=(KEY,))
    desk = open_desk(settings)
    desk.projects.create("Other", repository=str(tmp_path), ref="main", actor="ada")
    desk.store.log_views([make_view(1)])
    desk.close()

    def put(ready: Path, place: Path) -> None:
        if is_moved:
            move(ready, place)
        raise KeyboardInterrupt

    move = os.replace
    monkeypatch.setattr(os, "replace", put)
    with pytest.raises(KeyboardInterrupt):
        restore_backup(settings, backup_path, SilentProgress(), replace=True)
    monkeypatch.undo()
    database = Database(database_url)
    with pytest.raises(UnfinishedMove, match="copydesk restore"):
        migrate(database)
    database.close()
    with pytest.raises(MigrationFailed, match="copydesk restore"):
        database_migration.move_database(f"sqlite:///{old / 'copydesk.db'}", database_url, SilentProgress())
    restore_backup(settings, backup_path, SilentProgress(), replace=not is_moved)
    assert (tmp_path / "new" / "analytics.duckdb").read_bytes() == (backup_path / "analytics.duckdb").read_bytes()
    desk = open_desk(settings)
    assert [project.name for project in desk.projects.all()] == ["Docs"]
    desk.close()


@pytest.mark.deep
def test_existing_views_are_overwritten_only_with_replace(backup_path: Path, tmp_path: Path) -> None:
    data = tmp_path / "new"
    desk = open_desk(Settings(data=data, secret_key=(KEY,)))
    desk.store.log_views([make_view(1)])
    desk.close()
    half = f"sqlite:///{tmp_path / 'half.db'}"
    with pytest.raises(KeyboardInterrupt):
        database_migration.move_database(f"sqlite:///{data / 'copydesk.db'}", half, InterruptedProgress())
    settings = Settings(data=data, database_url=half, secret_key=(KEY,))
    with pytest.raises(DataWouldBeLost, match=r"1 view or visit\. Use --replace"):
        restore_backup(settings, backup_path, SilentProgress(), replace=False)
    restore_backup(settings, backup_path, SilentProgress(), replace=True)


class InterruptedProgress(SilentProgress):
    """Interrupts (Ctrl-C) as soon as work begins."""

    def start_stage(self, stage: str, total: int | None = None) -> None:
        raise KeyboardInterrupt


@pytest.mark.deep
def test_data_folder_without_content_counts_as_empty(run: Run, backup_path: Path, tmp_path: Path) -> None:
    desk = open_desk(Settings(data=tmp_path / "new", secret_key=(KEY,)))
    assert desk.people.create_first_admin_link()
    desk.store.fold()
    desk.close()
    done = run(tmp_path / "new", "restore", str(backup_path))
    assert done.exit_code == 0, done.output


@pytest.mark.deep
def test_restore_is_refused_while_the_service_runs(
    run: Run, backup_path: Path, tmp_path: Path, database_url: str
) -> None:
    data = tmp_path / "new"
    desk = open_desk(Settings(data=data, database_url=database_url))
    sentence = error_message(run(data, "restore", str(backup_path), "--replace", url=database_url))
    assert "Stop every 'copydesk serve' and 'copydesk work'" in sentence
    desk.close()
    assert run(data, "restore", str(backup_path), "--replace", url=database_url).exit_code == 0


@pytest.mark.deep
def test_restored_active_runs_can_be_claimed_immediately(run: Run, old: Path, tmp_path: Path) -> None:
    later = 9_999_999_999_999
    with sqlite3.connect(old / "copydesk.db") as file:
        file.execute("update runs set state = 'running', lease_until = ?", [later])
        file.execute("update jobs set status = 'active'")
    file.close()
    run(old, "backup", str(tmp_path / "copy"))
    run(tmp_path / "new", "restore", str(tmp_path / "copy"))
    desk = open_desk(Settings(data=tmp_path / "new"))
    claim = desk.create_worker().queue.claim("somebody")
    desk.close()
    assert claim is not None
    assert claim.crashes == 0


@pytest.mark.deep
def test_backup_of_a_newer_release_is_refused(run: Run, backup_path: Path, tmp_path: Path) -> None:
    facts = json.loads((backup_path / "manifest.json").read_bytes())
    facts.pop("checksum")
    Manifest.model_validate({**facts, "schema_version": "9999"}).write(backup_path)
    assert "newer version" in error_message(run(tmp_path / "new", "restore", str(backup_path)))
    assert not (tmp_path / "new").exists()


@pytest.mark.deep
def test_full_disk_is_reported_and_leaves_no_files(run: Run, old: Path, backup_path: Path, tmp_path: Path) -> None:
    data = tmp_path / "new"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for folder, *command in ((old, "backup", str(tmp_path / "another")), (data, "restore", str(backup_path))):
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        try:
            done = run(folder, *command)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert re.search(r"too large|full", error_message(done))
        assert isinstance(done.exception, SystemExit | UserFacingError)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"old", "copy", "new"}
    assert [path.name for path in data.iterdir() if "restoring" in path.name] == []
    with sqlite3.connect(data / "copydesk.db") as file:
        assert file.execute("select name from sqlite_master").fetchall() == []
    file.close()


@pytest.mark.deep
def test_unwritable_target_is_reported_in_one_sentence(run: Run, old: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "Not a directory" in error_message(run(old, "backup", str(tmp_path / "file" / "copy")))
    assert "exists" in error_message(run(old, "backup", str(old)))
    assert "not a complete Copydesk backup" in error_message(run(old, "backup", "--verify", str(old)))


@pytest.mark.deep
def test_leftovers_of_a_killed_backup_are_ignored(run: Run, old: Path, tmp_path: Path) -> None:
    left = tmp_path / "copy.unfinished" / "database"
    left.mkdir(parents=True)
    (left / "people.jsonl.gz").write_bytes(b"half")
    assert "not a complete Copydesk backup" in error_message(run(old, "restore", str(left.parent)))
    assert run(old, "backup", str(tmp_path / "copy")).exit_code == 0
    assert not left.parent.exists()


@pytest.mark.deep
def test_clickhouse_backup_includes_views_not_yet_folded(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_test_desk(data: str, url: str) -> Desk:
        return open_desk(Settings(data=tmp_path / data, database_url=url, analytics_url=views, secret_key=(KEY,)))

    url, views, copy = new_database(), clickhouse.new_database(), tmp_path / "copy"
    desk = open_test_desk("data", url)
    desk.projects.create("Docs", repository=str(tmp_path), ref="main", actor="ada")
    desk.store.log_views([make_view(1), make_view(2)])
    desk.store.fold()
    desk.store.log_views([make_view(3)])
    monkeypatch.setenv("COPYDESK_ANALYTICS_URL", views)
    done = run(tmp_path / "data", "backup", str(copy), url=url)
    assert done.exit_code == 0, done.output
    desk.store.log_views([make_view(4)])
    desk.close()
    assert "Backup is valid" in run(tmp_path / "data", "backup", "--verify", str(copy)).stdout

    url = new_database()
    assert "already" in error_message(run(tmp_path / "new", "restore", str(copy), url=url))
    monkeypatch.setenv("COPYDESK_ANALYTICS_URL", "")
    assert "COPYDESK_ANALYTICS_URL" in error_message(run(tmp_path / "new", "restore", str(copy), url=url))
    assert not (tmp_path / "new").exists()
    views = clickhouse.new_database()
    monkeypatch.setenv("COPYDESK_ANALYTICS_URL", views)
    done = run(tmp_path / "new", "restore", str(copy), url=url)
    assert done.exit_code == 0, done.output
    desk = open_test_desk("new", url)
    assert desk.store.log_views([make_view(1), make_view(3)]).accepted == 0, "they were counted before"
    desk.store.fold()
    assert desk.store.count_visitors_by_page("proj_1").totals.total == 3
    assert [project.name for project in desk.projects.all()] == ["Docs"]
    desk.close()


class BackgroundLoad:
    """Sends jobs and views as fast as they are acknowledged, and records when each was."""

    def __init__(self, url: str, key: str, project: str) -> None:
        self.client = Client(url, key, project)
        self.jobs: list[tuple[float, str]] = []
        self.visitors: list[tuple[float, str]] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=act) for act in (self._send_jobs, self._send_views)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _send_jobs(self) -> None:
        while not self._stopping.is_set():
            job = self.client.create_job("Replace “colour” with “color”.")["id"]
            self.jobs.append((time.time(), job))

    def _send_views(self) -> None:
        number = 0
        while not self._stopping.is_set():
            address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            self.client.send_events([{"path": "/", "userAgent": BROWSERS[0], "ip": address, "eventId": str(number)}])
            self.visitors.append((time.time(), address))
            number += 1


@pytest.fixture
def processes() -> Iterator[list[RunningCommand]]:
    started: list[RunningCommand] = []
    yield started
    for process in started:
        process.close()


@pytest.mark.drill
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_restored_service_has_everything_acknowledged_before_the_backup(
    run: Run, tmp_path: Path, engine: str, processes: list[RunningCommand]
) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    url = "" if engine == "sqlite" else new_database()
    make_repository(tmp_path / "docs.git", {"index.md": b"# Hello\n\nThe colour of things.\n"})
    desk = open_desk(Settings(data=data, database_url=url, secret_key=(KEY,)))
    project = desk.projects.create("Docs", repository=str(tmp_path / "docs.git"), ref="main", actor="ada")
    key = desk.keys.create(project.id, actor="ada")[1]
    desk.secrets.set(project.id, "forge_token", TOKEN, actor="ada")
    desk.close()
    settings = {"data": data, "database_url": url, "secret_key": KEY, "jobs_per_hour": 100_000}

    def start() -> RunningServer:
        port = free_port()
        orders = CommandSpec(["serve", "--port", str(port)], settings_environment(settings), tmp_path / "log")
        service = RunningServer(orders, port)
        processes.append(service)
        service.wait_until_ready()
        return service

    service = start()
    load = BackgroundLoad(service.url, key, project.id)
    deadline = time.monotonic() + 120
    while (len(load.jobs) <= 10 or len(load.visitors) <= 50) and time.monotonic() < deadline:
        time.sleep(0.1)
    began = time.time()
    backing = RunningCommand(
        CommandSpec(["backup", str(copy)], settings_environment(settings), tmp_path / "backup.log")
    )
    processes.append(backing)
    backing.process.join(120)
    assert backing.process.exitcode == 0, backing.output
    time.sleep(1)
    load.stop()
    service.kill()
    shutil.rmtree(data)
    if url:
        url = settings["database_url"] = new_database()
    done = run(data, "restore", str(copy), url=url)
    assert done.exit_code == 0, done.output
    service = start()
    client = Client(service.url, key, project.id)
    jobs = [job for at, job in load.jobs if at < began]
    visitors = [visitor for at, visitor in load.visitors if at < began]
    assert len(jobs) > 10
    assert len(visitors) > 50
    assert {client.get_job(job)["status"] for job in jobs} <= {"active", "completed"}
    assert {client.wait(job)["status"] for job in jobs[-3:]} == {"completed"}, "and work goes on"
    counted = client.visitors()["totals"]["human"]
    assert len(visitors) <= counted <= len(load.visitors) + 1
    seen = [{"path": "/", "userAgent": BROWSERS[0], "ip": visitor} for visitor in visitors]
    client.send_events(seen)
    assert client.visitors()["totals"]["human"] == counted, "readers are recognised"


@pytest.mark.drill
def test_killed_restore_can_be_repeated(
    run: Run, old: Path, tmp_path: Path, database_url: str, processes: list[RunningCommand]
) -> None:
    with sqlite3.connect(old / "copydesk.db") as file:
        [(job,)] = file.execute("select min(id) from jobs")
        many = ((job, n, n, "thought", json.dumps({"text": "x" * 200})) for n in range(1000, 60_000))
        file.executemany("insert into events (job_id, seq, at, kind, data) values (?, ?, ?, ?, ?)", many)
    file.close()
    data, copy, url = tmp_path / "new", tmp_path / "copy", database_url
    assert run(old, "backup", str(copy)).exit_code == 0
    settings = settings_environment({"data": data, "database_url": url, "secret_key": KEY})
    for turn in range(12):
        process = RunningCommand(CommandSpec(["restore", str(copy)], settings, tmp_path / "log"))
        processes.append(process)
        process.process.join(0.2 + 0.25 * turn)
        if process.is_alive:
            process.kill()
        if process.process.exitcode == 0:
            break
    done = run(data, "restore", str(copy), url=url)
    whole = done.exit_code == 0 or "would be lost" in error_message(done)
    assert whole, done.output
    database = Database(url)
    with database.read() as tx:
        assert tx.execute(text("select count(*) from events")).scalar_one() > 59_000
    database.close()
    assert [path.name for path in data.iterdir() if path.name.endswith(".restoring")] == []
    assert os.path.getsize(data / "analytics.duckdb") == os.path.getsize(copy / "analytics.duckdb")
