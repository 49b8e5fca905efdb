"""An administrator changes the address of a repository; another repository is refused."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from copydesk.core.audit_log import list_entries
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as running:
        yield running


def change_repository(client: httpx.Client, service: Service, repository: Path | str) -> httpx.Response:
    path = f"/projects/{service.project.id}/repository"
    token = csrf_token_from_html(client.get(path).text)
    return client.post(path, data={"token": token, "repository": str(repository)})


def test_administrator_changes_the_address_of_a_moved_repository(service: Service, tmp_path: Path) -> None:
    admin = signed_in_client(service)
    settings = f"/projects/{service.project.id}/settings"
    assert f'href="/projects/{service.project.id}/repository"' in admin.get(settings).text
    moved = tmp_path / "handbook.git"
    shutil.copytree(tmp_path / "docs.git", moved)
    done = change_repository(admin, service, moved)
    assert (done.status_code, done.headers["location"]) == (303, settings)
    assert f"The repository is {moved} now." in admin.get(settings).text
    assert service.desk.projects.get(service.project.id).repository == str(moved)
    [entry] = list_entries(service.desk.database, service.project.id, action="project.moved")
    assert entry["actor"] == "admin@example.org"


@pytest.mark.parametrize(("name", "words"), [("other.git", "another history"), ("missing.git", "missing.git")])
def test_other_repository_is_refused(service: Service, tmp_path: Path, name: str, words: str) -> None:
    make_repository(tmp_path / "other.git", {"other.md": b"# Other\n"})
    refused = change_repository(signed_in_client(service), service, tmp_path / name)
    assert refused.status_code in (400, 422)
    assert words in refused.text
    assert "Nothing was changed." in refused.text
    assert f'value="{tmp_path / name}"' in refused.text
    assert service.desk.projects.get(service.project.id).repository == str(tmp_path / "docs.git")


def test_repository_is_not_changed_while_a_job_runs(service: Service, tmp_path: Path) -> None:
    service.client.create_job("Any")
    shutil.copytree(tmp_path / "docs.git", tmp_path / "handbook.git")
    refused = change_repository(signed_in_client(service), service, tmp_path / "handbook.git")
    assert (refused.status_code, "1 job is running" in refused.text) == (409, True)
