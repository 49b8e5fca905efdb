"""Deleting a project: nothing of it is left, running jobs stop, and other projects are unchanged."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import inspect, select, text, update
from typer.testing import CliRunner

from copydesk.analytics.history import HistoryCounts, HistorySource, ImportedHistory
from copydesk.analytics.interactions.conversations import NewQuestion
from copydesk.analytics.interactions.searches import NewSearch
from copydesk.analytics.page_view import PageView, VisitorClass
from copydesk.analytics.stores.shared.server import DUCKDB_FILE
from copydesk.analytics.tables import view_classes
from copydesk.automations.automation import TriggerEvent
from copydesk.automations.records import insert_run
from copydesk.automations.tables import automation_files, automation_sources, look_requests, page_comparisons
from copydesk.cli import app
from copydesk.core import audit_log, clock
from copydesk.core.db.tables import audit
from copydesk.core.errors import ProjectNotFound
from copydesk.core.projects.event_tables import delivery_attempts, event_deliveries, webhook_endpoints
from copydesk.desk import Desk
from copydesk.jobs.agent.conversation import Conversation, Model, Reply
from copydesk.jobs.execution.attempt import Attempt
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.projects.project_deletion import SETTLING_MS, list_pending_purges
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.tables import comment_marks, pending_events, review_waits, webhook_deliveries
from copydesk.jobs.workflow.maintenance import delete_orphaned_mirrors
from copydesk.jobs.workspace.workspace import Workspace
from copydesk.mail.outbox import NewMail
from copydesk.prompts.template import build_template
from copydesk.webhooks import dispatcher
from copydesk.webhooks.endpoints import Endpoints
from copydesk_client import ApiError
from tests.conftest import DATABASES
from tests.support import migrated_databases
from tests.support.people import csrf_token_from_html, get_or_add_person, signed_in_client
from tests.support.repositories import list_branches, make_repository
from tests.support.scripted_model import ScriptedModel, calls, finish
from tests.support.service import Service, serve

ServeModel = Callable[[Model], AbstractContextManager[Service]]

MIN_PROJECT_TABLES = 15
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
    """Gives a project a row in every table that can have one."""
    desk, project_id = service.desk, service.project.id
    job = service.client.wait(service.client.create_job("Replace colour with color.", idempotency_key="once")["id"])
    service.client.send_events([VIEW, {"path": "/style.css"}])
    desk.uncounted.flush()
    desk.feedback.add(project_id, "/a", True, "Good.", clock.now())
    desk.searches.add_all(project_id, [NewSearch("install", clock.now())])
    desk.conversations.add_all(project_id, [NewQuestion("thread", "How?", "So.", clock.now())])
    counts = HistoryCounts(1, 2)
    desk.history.replace(project_id, ImportedHistory(HistorySource.UMAMI, {20_000: counts}, {(20_000, "/a"): counts}))
    desk.sharing.links.create(project_id, actor="test")
    desk.prompts.create(project_id, build_template("own", "Own", "", "Fix it."), actor="test")
    member = get_or_add_person(service, "none", "member@example.org")
    desk.people.project_roles.set_role(member.id, project_id, "viewer", actor="test")
    add_webhook(desk, project_id)
    subscriber = desk.sharing.subscriptions.add_address(project_id, "ada@example.org", actor="test")
    mail = NewMail(f"x{project_id}", project_id, subscriber.id, subscriber.email, "x", "x", "x", {})
    desk.secrets.set(project_id, "forge_token", "token", actor="test")
    desk.contexts.add(service.project, NewContext("code", str(service.repository)), actor="test")
    automation = service.client.create_automation(name="A", prompt="Fix the broken links.", trigger={"type": "api"})
    with desk.database.write() as tx:
        source = {"name": "", "address": "x", "seen": {}, "fired": {}}
        tx.execute(automation_sources.insert().values(automation_id=automation["id"], **source))
        tx.execute(automation_files.insert().values(project_id=project_id, key="x", files=[]))
        insert_run(tx, automation["id"], TriggerEvent("x", "x"), desk.jobs.get(project_id, job["id"]), "msg_x", True)
        tx.execute(webhook_deliveries.insert().values(project_id=project_id, id="comment", at=clock.now()))
        event = {"event": {}, "received_at": 0, "attempts": 0, "next_attempt_at": 2**53}
        tx.execute(pending_events.insert().values(project_id=project_id, id="event", **event))
        tx.execute(look_requests.insert().values(project_id=project_id, name="", request_id="look_x"))
        tx.execute(page_comparisons.insert().values(project_id=project_id, attempts=0))
        tx.execute(comment_marks.insert().values(job_id=job["id"], seen_until=0))
        tx.execute(review_waits.insert().values(job_id=job["id"], waiting_since=0))
        desk.sharing.outbox.enqueue(tx, mail, "desk@example.org")
        tx.execute(view_classes.insert().values(project_id=project_id, ai=1))
    assert service.client.visitors()["totals"]["total"] == 1
    return service


def add_webhook(desk: Desk, project_id: str) -> None:
    """Adds a webhook with a delivery that has failed once and waits for the next attempt."""
    endpoints = Endpoints(desk.database, desk.secrets, allow_private=True)
    endpoint_id = endpoints.add(project_id, "http://127.0.0.1:1/", actor="test").endpoint.id
    with desk.database.write() as tx:  # so that the worker sends nothing
        tx.execute(update(webhook_endpoints).where(webhook_endpoints.c.id == endpoint_id).values(hold_until=2**53))
    desk.feedback.add(project_id, "/b", True, None, clock.now())
    with desk.database.write() as tx:
        own = event_deliveries.c.endpoint_id == endpoint_id
        delivery_id = tx.execute(select(event_deliveries.c.id).where(own)).scalars().first()
        row = {"delivery_id": delivery_id, "number": 1, "at": 0, "duration_ms": 0, "excerpt": ""}
        tx.execute(delivery_attempts.insert().values(row))


def count_rows(desk: Desk, project_id: str) -> dict[str, int]:
    """Returns how many rows of each table belong to the project, by the columns and foreign keys of the database.

    The audit log is left out, because it is kept.
    """
    found = inspect(desk.database.engine)
    parents = {"projects": "id"}
    columns = {name: [column["name"] for column in found.get_columns(name)] for name in found.get_table_names()}

    def build_condition(name: str) -> str | None:
        if name == "limits":
            return "bucket like '%:' || :project"
        if name in parents or "project_id" in columns[name]:
            return f"{parents.get(name, 'project_id')} = :project"
        for key in found.get_foreign_keys(name):
            condition = build_condition(key["referred_table"])
            if condition is not None:
                [column], [referred_column] = key["constrained_columns"], key["referred_columns"]
                return f"{column} in (select {referred_column} from {key['referred_table']} where {condition})"
        return None

    conditions = {name: build_condition(name) for name in columns if name != "audit"}
    with desk.database.read() as tx:
        return {
            name: tx.execute(
                text(f"select count(*) from {name} where {condition}"),
                {"project": project_id},
            ).scalar_one()
            for name, condition in conditions.items()
            if condition is not None
        }


def count_orphans(desk: Desk) -> int:
    """Returns how many rows of tables below jobs and runs belong to no job or run."""
    found = inspect(desk.database.engine)
    orphans = 0
    with desk.database.read() as tx:
        for name in found.get_table_names():
            for key in found.get_foreign_keys(name):
                [column], [referred_column] = key["constrained_columns"], key["referred_columns"]
                owners = f"select {referred_column} from {key['referred_table']}"
                orphans += tx.execute(
                    text(f"select count(*) from {name} where {column} not in ({owners})")
                ).scalar_one()
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
    filled = count_rows(desk, project.id)
    assert len(filled) >= MIN_PROJECT_TABLES
    assert [name for name, rows in filled.items() if not rows] == [], "extend fill() for a new table"
    assert desk.delete_project(project, actor="ada@example.org")
    assert set(count_rows(desk, project.id).values()) == {0}
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
    [newest, *older] = audit_log.list_entries(desk.database, project.id)
    assert newest["action"] == "project.deleted"
    assert older, "the audit log is kept"


def make_view(project_id: str) -> PageView:
    return PageView(project_id, "/a", clock.now(), VisitorClass.HUMAN, "Browser", "", "test", "1", 1, "", "", 200, None)


@pytest.mark.deep
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


def list_problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns all warnings, without those of webhook deliveries, which servers of earlier tests may log late."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name != dispatcher.__name__
    ]


@pytest.fixture(params=DATABASES)
def serve_model(request: pytest.FixtureRequest, tmp_path: Path) -> ServeModel:
    """Returns a function that serves Copydesk with a worker and this model, on each database in turn."""
    pages = {"docs/index.md": b"# Hello\n", "docs/a.md": b"# A\n\nThe colour of things.\n"}
    repository = make_repository(tmp_path / "docs.git", pages)
    url = "" if request.param == "sqlite" else migrated_databases.new_database(request.param, tmp_path)

    def start(model: Model) -> AbstractContextManager[Service]:
        return serve(tmp_path / "data", repository=repository, database_url=url, model=lambda _: model)

    return start


def wait_for_runs() -> None:
    """Waits until no thread of this process executes a run."""
    for thread in threading.enumerate():
        if thread.name.startswith("run_"):
            thread.join(60)
            assert not thread.is_alive()


def test_running_job_of_a_deleted_project_stops(serve_model: ServeModel, caplog: pytest.LogCaptureFixture) -> None:
    model = EndlessModel()
    with serve_model(model) as service:
        service.client.create_job("Any")
        assert model.begun.wait(60)
        service.desk.delete_project(service.project, actor="test")
        assert model.ended.wait(60)
        wait_for_runs()
        assert set(count_rows(service.desk, service.project.id).values()) == {0}
        assert list_branches(service.repository).keys() == {"main"}
    assert list_problems(caplog) == []


def test_job_in_the_middle_of_a_step_ends_quietly_when_its_project_is_deleted(
    serve_model: ServeModel, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows and the clone disappear while the job reads and writes them."""
    deleted = threading.Event()
    services: list[Service] = []

    def delete_project(_conversation: Conversation, _workspace: Workspace) -> Reply:
        [running] = services
        running.desk.delete_project(running.project, actor="test")
        deleted.set()
        return calls(("read", {"path": "docs/a.md"}))

    with serve_model(ScriptedModel([delete_project, finish()])) as service:
        services.append(service)
        service.client.create_job("Any")
        assert deleted.wait(60)
        wait_for_runs()
        assert set(count_rows(service.desk, service.project.id).values()) == {0}
        assert list_branches(service.repository).keys() == {"main"}
    assert list_problems(caplog) == []


def test_claimed_job_ends_quietly_when_its_project_was_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as service:
        worker = service.desk.create_worker()
        service.client.create_job("Any")
        claim = worker.queue.claim(worker.id)
        assert claim is not None
        service.desk.delete_project(service.project, actor="test")
        worker.executor.execute(Attempt(claim, 60))
        worker.executor.close()
    assert list_problems(caplog) == []


def test_writes_for_a_deleted_project_find_no_project(service: Service) -> None:
    """A request may have loaded the project right before its deletion."""
    desk, project = service.desk, service.project
    desk.delete_project(project, actor="test")
    for write in (
        lambda: desk.jobs.create(project, NewJob(prompt="Any")),
        lambda: desk.jobs.create(project, NewJob(prompt="Any"), idempotency_key="once"),
        lambda: desk.keys.create(project.id, actor="test"),
        lambda: desk.secrets.set(project.id, "forge_token", "token", actor="test"),
        lambda: desk.secrets.get_or_create(project.id, "visitors"),
        lambda: desk.feedback.add(project.id, "/a", True, "Good.", clock.now()),
        lambda: desk.projects.change(project.id, {"name": "New"}, actor="test"),
        lambda: desk.delete_project(project, actor="test"),
    ):
        with pytest.raises(ProjectNotFound):
            write()
    assert set(count_rows(desk, project.id).values()) == {0}


@pytest.mark.deep
def test_jobs_that_are_created_during_the_deletion_are_deleted_or_refused(service: Service) -> None:
    desk, project = service.desk, service.project
    begun = threading.Barrier(5)

    def create_jobs(number: int) -> Exception:
        begun.wait(60)
        for attempt in range(10_000):
            try:
                desk.jobs.create(project, NewJob(prompt="Any"), f"{number}-{attempt}" if number % 2 else None)
            except Exception as error:
                return error
        raise AssertionError

    with ThreadPoolExecutor(4) as pool:
        outcomes = [pool.submit(create_jobs, number) for number in range(4)]
        begun.wait(60)
        time.sleep(0.5)
        desk.delete_project(project, actor="test")
        errors = [outcome.result(60) for outcome in outcomes]
    assert [type(error) for error in errors] == [ProjectNotFound] * 4, errors
    wait_for_runs()
    desk.purge_deleted_projects()
    assert set(count_rows(desk, project.id).values()) == {0}


@pytest.mark.deep
def test_mirror_that_another_machine_left_is_deleted(service: Service) -> None:
    desk, other = service.desk, fill(service.another_project())
    orphan = desk.settings.mirrors_folder / "proj_01m7ejdwk9m7fcjvqdk3jx1ct8.git"
    (orphan / "objects").mkdir(parents=True)
    delete_orphaned_mirrors(desk.database, desk.settings)
    assert not orphan.exists()
    assert (desk.settings.mirrors_folder / f"{other.project.id}.git").exists()


def post_form(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return client.post(path, data={"token": csrf_token_from_html(client.get(path).text), **fields})


@pytest.mark.deep
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


@pytest.mark.deep
def test_project_is_deleted_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_DATA", str(tmp_path / "data"))
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    project = run_command("create", "Docs", "--repo", str(repository), "--quiet").stdout.strip()
    assert run_command("delete", "--project", "Docs", input="n\n").exit_code == 1
    assert json.loads(run_command("list", "--json").stdout) != []
    deleted = run_command("delete", "--project", "Docs", "--yes", "--json")
    assert json.loads(deleted.stdout) == {"projectId": project, "viewsDeleted": True}
    assert json.loads(run_command("list", "--json").stdout) == []
    assert "project.created" in run_command("audit", "--project", project).stdout
    assert run_command("delete", "--project", project, "--yes").exit_code == 1
    assert not (tmp_path / "data" / DUCKDB_FILE).exists(), "a store without views is not created"
