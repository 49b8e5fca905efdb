"""The API of context repositories: who may add which repositories, and what the answers reveal."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from copydesk.jobs.projects.context_repositories import NewContext, validate_context
from tests.support.git_http import GitHttpServer
from tests.support.repositories import make_repository
from tests.support.service import Service, serve


@pytest.fixture
def git(tmp_path: Path) -> Iterator[GitHttpServer]:
    make_repository(tmp_path / "git" / "docs.git", {"index.md": b"# Hi\n"})
    make_repository(tmp_path / "git" / "code.git", {"cli.py": b"x = 1\n"}, branch="trunk")
    with GitHttpServer(tmp_path / "git") as server:
        yield server


@pytest.fixture
def service(tmp_path: Path, git: GitHttpServer) -> Iterator[Service]:
    """Serves a project whose repository is on the same host as the repository `code`."""
    with serve(tmp_path / "data", repository=tmp_path / "git" / "docs.git", with_worker=False) as running:
        project = running.desk.projects.create("Remote", repository=git.url("docs.git"), ref="main", actor="test")
        key = running.desk.keys.create(project.id, actor="test")[1]
        yield replace(running, project=project, key=key)


@pytest.mark.deep
def test_repository_is_added_listed_and_removed(service: Service, git: GitHttpServer) -> None:
    body = {"name": "code", "repository": git.url("code.git")}
    added = service.http.post(service.at("/context"), json=body)
    assert added.status_code == 201, added.text
    expected = {"name": "code", "repository": git.url("code.git"), "ref": "trunk", "forge": "local", "hasToken": False}
    assert added.json() == {**expected, "createdAt": added.json()["createdAt"]}
    assert service.http.get(service.at("/context")).json() == {"context": [added.json()]}
    again = service.http.post(service.at("/context"), json=body)
    assert (again.status_code, again.json()["code"]) == (409, "context_exists")
    assert service.http.delete(service.at("/context/code")).status_code == 204
    missing = service.http.delete(service.at("/context/code"))
    assert (missing.status_code, missing.json()["code"]) == (404, "context_not_found")
    assert service.http.get(service.at("/context")).json() == {"context": []}


@pytest.mark.deep
def test_token_is_never_shown(service: Service, git: GitHttpServer) -> None:
    git.token = "own-token-of-code"
    body = {"name": "code", "repository": git.url("code.git")}
    refused = service.http.post(service.at("/context"), json=body)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    added = service.http.post(service.at("/context"), json={**body, "token": git.token})
    assert added.status_code == 201, added.text
    assert added.json()["hasToken"] is True
    for answer in (refused, added, service.http.get(service.at("/context"))):
        assert git.token not in answer.text


@pytest.mark.parametrize("address", ["/etc", "file:///etc", "../docs.git", "git@example.org:a/b", "ext::sh -c id"])
def test_path_of_the_server_is_refused(service: Service, address: str) -> None:
    answer = service.http.post(service.at("/context"), json={"name": "code", "repository": address})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_other_private_host_is_refused_but_not_the_one_of_the_project(service: Service, tmp_path: Path) -> None:
    make_repository(tmp_path / "other" / "code.git", {"a.py": b""})
    with GitHttpServer(tmp_path / "other") as other:
        body = {"name": "code", "repository": other.url("code.git")}
        answer = service.http.post(service.at("/context"), json=body)
        assert answer.status_code == 400
        assert "private address" in answer.json()["error"]
        assert other.requests == []
        by_admin = validate_context(service.project, NewContext("code", other.url("code.git")))
        assert by_admin.allow_private is True


def test_read_key_lists_and_cannot_change(service: Service, git: GitHttpServer) -> None:
    key = service.new_key(scopes=["read"])
    headers = {"Authorization": f"Bearer {key}"}
    assert service.http.get(service.at("/context"), headers=headers).status_code == 200
    body = {"name": "code", "repository": git.url("code.git")}
    assert service.http.post(service.at("/context"), headers=headers, json=body).status_code == 403
    assert service.http.delete(service.at("/context/code"), headers=headers).status_code == 403


def test_unknown_field_is_refused(service: Service) -> None:
    body = {"name": "code", "repository": "https://example.org/a.git", "branch": "main"}
    answer = service.http.post(service.at("/context"), json=body)
    assert answer.status_code == 400
    assert "branch" in answer.text
