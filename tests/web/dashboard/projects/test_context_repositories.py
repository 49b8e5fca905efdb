"""An administrator adds and removes context repositories; other people see the list."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from copydesk.jobs.projects.context_repositories import NewContext
from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    make_repository(tmp_path / "code.git", {"cli.py": b"x = 1\n"}, branch="trunk")
    with serve(tmp_path / "data", repository=repository, with_worker=False) as running:
        yield running


def test_administrator_adds_and_removes_a_repository(service: Service, tmp_path: Path) -> None:
    admin = signed_in_client(service)
    page = f"/projects/{service.project.id}/context"
    assert f'href="{page}"' in admin.get(f"/projects/{service.project.id}/settings").text
    empty = admin.get(page).text
    assert "This project has no context repository. Add the repository of your product’s code below" in empty
    token = csrf_token_from_html(empty)
    form = {"token": token, "name": "code", "repository": str(tmp_path / "code.git"), "ref": "", "forge": ""}
    added = admin.post(page, data={**form, "secret": ""})
    assert (added.status_code, added.headers["location"]) == (303, page)
    shown = admin.get(page).text
    assert "Added code. Jobs read its branch trunk from now on." in shown
    assert str(tmp_path / "code.git") in shown
    assert "Remove code" not in signed_in_client(service, "viewer").get(page).text
    removed = admin.post(f"{page}/code/remove", data={"token": token})
    assert (removed.status_code, removed.headers["location"]) == (303, page)
    assert service.desk.contexts.list(service.project.id) == []


def test_typed_values_survive_an_error_and_the_token_is_not_shown(service: Service, tmp_path: Path) -> None:
    admin = signed_in_client(service)
    page = f"/projects/{service.project.id}/context"
    form = {"token": csrf_token_from_html(admin.get(page).text), "name": "code", "ref": "main", "forge": "local"}
    address = str(tmp_path / "<missing>.git")
    refused = admin.post(page, data={**form, "repository": address, "secret": "s3cret-value"})
    assert refused.status_code == 400
    assert "The context repository code cannot be read." in refused.text
    assert f'value="{address}"'.replace("<", "&lt;").replace(">", "&gt;") in refused.text
    assert "s3cret-value" not in refused.text
    assert service.desk.contexts.list(service.project.id) == []


def test_repository_that_an_automation_watches_stays_and_the_page_names_the_automation(
    service: Service, tmp_path: Path
) -> None:
    service.desk.contexts.add(service.project, NewContext("code", str(tmp_path / "code.git")), actor="test")
    trigger = {"type": "code_change", "repositories": ["code"]}
    follow = {"name": "Follow", "prompt": "Replace a with b.", "trigger": trigger}
    service.desk.automations.create(service.project, follow, actor="test")
    admin = signed_in_client(service)
    page = f"/projects/{service.project.id}/context"
    refused = admin.post(f"{page}/code/remove", data={"token": csrf_token_from_html(admin.get(page).text)})
    assert refused.status_code == 409
    assert "The automation “Follow” watches code. Change its trigger or delete it" in refused.text
    assert [each.name for each in service.desk.contexts.list(service.project.id)] == ["code"]
