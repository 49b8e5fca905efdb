"""copydesk project set repository=…: a project follows its repository, and never gets another one."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from copydesk.cli import app
from copydesk.core.audit_log import list_entries
from copydesk.core.errors import Conflict, InvalidRequest
from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.service import NewJob
from tests.jobs.publish.forges.conftest import TOKEN
from tests.jobs.publish.forges.stage import REPOSITORY, fake_forge
from tests.support.repositories import list_branches, make_repository
from tests.support.service import Service, serve

Run = Callable[..., Result]
PAGE = {"docs/index.md": b"# Hello\n\nThe colour of things.\n"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    repository = make_repository(tmp_path / "docs.git", PAGE)
    with serve(tmp_path / "data", repository=repository) as running:
        yield running


@pytest.fixture
def run(service: Service, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs copydesk project set on the service's project."""
    monkeypatch.setenv("COPYDESK_DATA", str(service.desk.settings.data))
    if service.desk.settings.database_url:
        monkeypatch.setenv("COPYDESK_DATABASE_URL", service.desk.settings.database_url)
    return lambda *values, **options: CliRunner().invoke(  # type: ignore[return-value]
        app, ("project", "set", "--project", service.project.id, *values), **options
    )


def run_job(service: Service) -> dict[str, object]:
    return dict(service.client.wait(service.client.create_job("Replace colour with color.")["id"]))


@pytest.mark.deep
def test_project_follows_its_repository_also_when_the_old_one_is_gone(
    run: Run, service: Service, tmp_path: Path
) -> None:
    assert run_job(service)["status"] == "completed"
    service.repository.rename(tmp_path / "moved.git")
    moved = run(f"repository={tmp_path / 'moved.git'}", "draft=true", "--json")
    assert moved.exit_code == 0, moved.output
    assert json.loads(moved.stdout)["repository"] == str(tmp_path / "moved.git")
    job = run_job(service)
    assert (job["status"], job["source"]) == (
        "completed",
        {"repository": str(tmp_path / "moved.git"), "ref": "main"},
    ), job["message"]
    assert job["branch"] in list_branches(tmp_path / "moved.git")
    [entry] = list_entries(service.desk.database, service.project.id, action="project.moved")
    assert entry["details"] == {"before": str(service.repository), "after": str(tmp_path / "moved.git")}


@pytest.mark.deep
@pytest.mark.parametrize("is_gone", [False, True])
def test_repository_with_another_history_is_refused(run: Run, service: Service, tmp_path: Path, is_gone: bool) -> None:
    run_job(service)
    if is_gone:
        shutil.rmtree(service.repository)
    other = make_repository(tmp_path / "other.git", {"docs/index.md": b"# Another\n"})
    refused = run(f"repository={other}")
    assert isinstance(refused.exception, RepositoryFailed)
    assert "has another history" in str(refused.exception)
    assert service.desk.projects.get(service.project.id) == service.project


@pytest.mark.deep
def test_unusable_repository_and_lone_forge_are_refused(run: Run, service: Service, tmp_path: Path) -> None:
    assert "does not appear to be a git repository" in str(run(f"repository={tmp_path / 'nowhere'}").exception)
    assert isinstance(run("forge=github").exception, InvalidRequest)
    assert isinstance(run("repository=git@example.org:a/b").exception, InvalidRequest)
    assert service.desk.projects.get(service.project.id) == service.project


def test_project_with_a_running_job_is_not_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "docs.git", PAGE)
    copy = shutil.copytree(repository, tmp_path / "copy.git")
    with serve(tmp_path / "data", repository=repository, with_worker=False) as service:
        service.desk.jobs.create(service.project, NewJob("Any"))
        monkeypatch.setenv("COPYDESK_DATA", str(service.desk.settings.data))
        if service.desk.settings.database_url:
            monkeypatch.setenv("COPYDESK_DATABASE_URL", service.desk.settings.database_url)
        refused = CliRunner().invoke(app, ("project", "set", "--project", service.project.id, f"repository={copy}"))
        assert isinstance(refused.exception, Conflict)
        assert str(refused.exception).startswith("1 job is running.")
        assert service.desk.projects.get(service.project.id) == service.project


@pytest.mark.deep
def test_secrets_of_the_old_host_are_deleted_and_never_sent_to_the_new_one(
    run: Run, service: Service, tmp_path: Path
) -> None:
    desk, project = service.desk, service.project
    desk.secrets.set(project.id, "forge_token", "the-token-of-the-old-host", actor="test")
    desk.secrets.set(project.id, "webhook_secret", "the-secret-of-the-old-host", actor="test")
    with fake_forge("gitea", tmp_path / "forge", dict(PAGE)) as fake:
        shutil.rmtree(fake.repository.folder)
        shutil.copytree(service.repository, fake.repository.folder)
        address = f"repository={fake.repository_url(REPOSITORY)}"
        refused = run(address, "forge=gitea")
        assert "needs a token" in str(refused.exception)
        assert desk.secrets.get(project.id, "forge_token") == "the-token-of-the-old-host"
        moved = run(address, "forge=gitea", "--token-stdin", "--json", input=f"{TOKEN}\n")
        assert moved.exit_code == 0, moved.output
        assert json.loads(moved.stdout)["forge"] == "gitea"
        stored = desk.secrets.all(project.id)
        assert stored["forge_token"] == TOKEN
        assert "webhook_secret" not in stored
