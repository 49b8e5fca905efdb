"""Deleting a project: nothing of it is left, running jobs stop, and other projects are unchanged."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import func, select, update
from typer.testing import CliRunner

from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.shared.server import DUCKDB_FILE
from copydesk.cli import app
from copydesk.client import ApiError
from copydesk.core import audit_log, clock
from copydesk.core.db.tables import audit, metadata
from copydesk.desk import Desk
from copydesk.jobs.agent.conversation import Conversation, Reply
from copydesk.jobs.projects.project_deletion import SETTLING_MS, list_pending_purges
from copydesk.jobs.workflow.maintenance import delete_orphaned_mirrors
from copydesk.jobs.workspace.workspace import Workspace
from tests.conftest import DATABASES
from tests.support import migrated_databases
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import list_branches, make_repository
from tests.support.service import Service, serve

VIEW = {
    "path": "/a",
    "ip": "192.0.2.7",
    "userAgent": "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0",
}


@pytest.fixture(params=DATABASES)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """Serves Copydesk with a worker, on each database in turn."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    url = "" if request.param == "sqlite" else migrated_databases.new_database(request.param, tmp_path)
    with serve(tmp_path / "data", repository=repository, database_url=url) as running:
        yield running


def fill(service: Service) -> Service:
    """Gives a project something of every kind."""
    service.client.wait(service.client.create_job("Replace colour with color.", idempotency_key="once")["id"])
    service.client.send_events([VIEW])
    service.desk.feedback.add(service.project.id, "/a", True, "Good.", clock.now())
    service.desk.secrets.set(service.project.id, "forge_token", "token", actor="test")
    assert service.client.visitors()["totals"]["total"] == 1
    return service


def count_rows(desk: Desk, project_id: str) -> dict[str, int]:
    """Returns how many rows of each table belong to the project. The audit log is left out: it is kept."""
    counts = {}
    with desk.database.read() as tx:
        for table in metadata.sorted_tables:
            if "project_id" in table.c and table is not audit:
                query = select(func.count()).select_from(table).where(table.c.project_id == project_id)
                counts[table.name] = tx.execute(query).scalar_one()
    return {name: count for name, count in counts.items() if count}


def count_orphans(desk: Desk) -> int:
    """Returns how many rows of the tables of jobs and runs belong to no job or run."""
    tables = metadata.tables
    orphans = 0
    with desk.database.read() as tx:
        for name, column, owner in (
            ("events", "job_id", "jobs"),
            ("messages", "job_id", "jobs"),
            ("job_files", "job_id", "jobs"),
            ("steps", "run_id", "runs"),
        ):
            query = select(func.count()).select_from(tables[name])
            query = query.where(tables[name].c[column].not_in(select(tables[owner].c.id)))
            orphans += tx.execute(query).scalar_one()
    return orphans


def count_views(desk: Desk, project_id: str) -> int:
    desk.store.fold()
    return desk.store.count_views_by_page(project_id).totals.total


def test_deleted_project_leaves_nothing_and_others_are_unchanged(service: Service) -> None:
    desk, project = service.desk, service.project
    other = fill(service.another_project())
    before = count_rows(desk, other.project.id)
    fill(service)
    mirror = desk.settings.mirrors_folder / f"{project.id}.git"
    assert mirror.exists()
    assert count_rows(desk, project.id).keys() >= {"jobs", "keys", "secrets", "feedback", "pulls", "runs"}
    assert desk.delete_project(project, actor="ada@example.org")
    assert count_rows(desk, project.id) == {}
    assert count_orphans(desk) == 0
    assert count_views(desk, project.id) == 0
    assert not mirror.exists()
    with pytest.raises(ApiError) as refusal:
        service.client.list_jobs()
    assert refusal.value.status == 401
    assert count_rows(desk, other.project.id) == before
    assert other.client.visitors()["totals"]["total"] == 1
    assert len(list_branches(service.repository)) == 3, "the branches of both jobs are kept"
    [entry] = audit_log.list_entries(desk.database, audit_log.NO_PROJECT, action="project.deleted")
    assert (entry["actor"], entry["subject"], entry["details"]["name"]) == ("ada@example.org", project.id, "Docs")
    assert audit_log.list_entries(desk.database, project.id), "the audit log is kept"


def make_view(project_id: str) -> PageView:
    return PageView(project_id, "/a", clock.now(), VisitorClass.HUMAN, "Browser", "", "test", "1", 1, "", "", 200, None)


def test_views_that_arrive_after_the_deletion_are_deleted_later(service: Service) -> None:
    desk, project = fill(service).desk, service.project
    desk.delete_project(project, actor="test")
    desk.store.log_views([make_view(project.id)])  # by a server that has cached the site
    assert count_views(desk, project.id) == 1
    assert [pending.project_id for pending in list_pending_purges(desk.database)] == [project.id]
    with desk.database.write() as tx:
        earlier = clock.now() - SETTLING_MS
        tx.execute(update(audit).where(audit.c.action == "project.deleted").values(at=earlier))
    desk.purge_deleted_projects()
    assert count_views(desk, project.id) == 0
    assert list_pending_purges(desk.database) == []
    [entry] = audit_log.list_entries(desk.database, audit_log.NO_PROJECT, action="project.purged")
    assert entry["subject"] == project.id


class EndlessModel:
    """A model that answers only when it is stopped."""

    name = "endless"

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    async def reply(self, _conversation: Conversation, _workspace: Workspace) -> Reply:
        self.begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            self.ended.set()
        return Reply()


def test_running_job_of_a_deleted_project_stops(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    model = EndlessModel()
    with serve(tmp_path / "data", repository=repository, model=lambda _: model, lease_seconds=1) as service:
        service.client.create_job("Any")
        assert model.begun.wait(60)
        service.desk.delete_project(service.project, actor="test")
        assert model.ended.wait(60)
        assert count_rows(service.desk, service.project.id) == {}
    assert list_branches(repository).keys() == {"main"}


def test_mirror_that_another_machine_left_is_deleted(service: Service) -> None:
    desk, other = service.desk, fill(service.another_project())
    orphan = desk.settings.mirrors_folder / "proj_01m7ejdwk9m7fcjvqdk3jx1ct8.git"
    (orphan / "objects").mkdir(parents=True)
    delete_orphaned_mirrors(desk.database, desk.settings)
    assert not orphan.exists()
    assert (desk.settings.mirrors_folder / f"{other.project.id}.git").exists()


def post_form(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return client.post(path, data={"token": csrf_token_from_html(client.get(path).text), **fields})


def test_administrator_confirms_the_deletion_with_the_name(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as service:
        admin = signed_in_client(service)
        service.client.create_job("Any")
        path = f"/projects/{service.project.id}/delete"
        assert f'href="{path}"' in admin.get(f"/projects/{service.project.id}/settings").text
        shown = admin.get(path).text
        assert "<strong>1 running job stops</strong>" in shown
        assert "<strong>1 active API key</strong>" in shown
        refused = post_form(admin, path, name="Dogs")
        assert (refused.status_code, "Nothing was deleted." in refused.text) == (400, True)
        done = post_form(admin, path, name="Docs")
        assert (done.status_code, done.headers["location"]) == (303, "/projects")
        assert "Deleted the project Docs." in admin.get("/projects").text
        assert admin.get(f"/projects/{service.project.id}/settings").status_code == 404
        assert "deleted the project Docs" in admin.get("/system/audit").text


def run_command(*arguments: str, **options: Any) -> Any:
    return CliRunner().invoke(app, ("project", *arguments), **options)


def test_project_is_deleted_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path / "data"))
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    project = run_command("create", "Docs", "--repo", str(repository), "--quiet").stdout.strip()
    assert run_command("delete", "Docs", input="n\n").exit_code == 1
    assert json.loads(run_command("list", "--json").stdout) != []
    deleted = run_command("delete", "Docs", "--yes", "--json")
    assert json.loads(deleted.stdout) == {"projectId": project, "viewsDeleted": True}
    assert json.loads(run_command("list", "--json").stdout) == []
    assert "project.created" in run_command("audit", project).stdout
    assert run_command("delete", project, "--yes").exit_code == 1
    assert not (tmp_path / "data" / DUCKDB_FILE).exists(), "a store without views is not created"
