"""Automations of files over HTTP: their source, the list of files with its problems, and what is refused."""

from collections.abc import Iterator
from pathlib import Path

import pygit2
import pytest

from tests.support.repositories import commit, make_repository
from tests.support.service import Service, serve

LINKS = ".copydesk/automations/links.md"
BAD = ".copydesk/automations/bad.md"
FILES = {
    "docs/index.md": b"# Hello\n\nThe colour.\n",
    LINKS: b"---\nkind: broken_links\nenabled: true\n---\n",
    BAD: b"---\nkind: typo\n---\n<script>alert(1)</script>\n",
}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    repository = make_repository(tmp_path / "docs.git", FILES)
    with serve(tmp_path / "data", repository=repository, with_worker=False) as running:
        yield running


def switch(service: Service, value: str) -> None:
    service.desk.projects.change(service.project.id, {"automation_files": value}, actor="test")
    service.desk.create_repository_watch().look()


def test_files_are_off_by_default(service: Service) -> None:
    service.desk.create_repository_watch().look()
    assert service.http.get(service.at("/automations/files")).json() == {
        "enabled": False, "branch": None, "commit": None, "readAt": None, "problem": None, "files": [],
    }  # fmt: skip
    assert service.client.list_automations() == []


def test_list_of_files_names_automations_and_problems(service: Service) -> None:
    switch(service, "true")
    [automation] = service.client.list_automations()
    head = str(pygit2.Repository(str(service.repository)).lookup_reference("refs/heads/main").target)
    assert automation["source"] == {"file": LINKS, "commit": head, "problem": None}
    files = service.client.list_automation_files()
    assert (files["enabled"], files["branch"], files["commit"], files["problem"]) == (True, "main", head, None)
    assert files["readAt"]
    bad, good = files["files"]
    assert (good["file"], good["automationId"], good["problems"]) == (LINKS, automation["id"], [])
    assert (bad["file"], bad["automationId"]) == (BAD, None)
    [kind] = [each for each in bad["problems"] if each["message"].startswith("kind: Input should be 'custom'")]
    assert kind["line"] == 2


@pytest.mark.deep
def test_automation_of_a_file_is_read_only_and_can_be_run(service: Service) -> None:
    switch(service, "true")
    [automation] = service.client.list_automations()
    path = service.at(f"/automations/{automation['id']}")
    for response in (service.http.patch(path, json={"enabled": False}), service.http.delete(path)):
        assert response.status_code == 409
        assert response.json()["code"] == "automation_in_file"
        assert f"{LINKS} on the branch main" in response.json()["error"]
    assert service.http.get(path).json() == automation
    assert service.http.post(f"{path}/run").status_code == 201
    trigger = f"/v1/workflow/{service.project.id}/{automation['id']}/trigger"
    assert service.http.post(trigger).status_code == 202
    commit(pygit2.Repository(str(service.repository)), {LINKS: b"---\nkind: broken_links\n---\n"})
    service.desk.create_repository_watch().look()
    assert service.http.post(trigger).json()["code"] == "automation_disabled"


@pytest.mark.parametrize("field", ["source", "file", "id"])
def test_request_cannot_pretend_to_be_a_file(service: Service, field: str) -> None:
    body = {"kind": "broken_links", field: {"file": LINKS, "commit": "x"}}
    assert service.http.post(service.at("/automations"), json=body).status_code == 400


def test_paused_automation_can_be_deleted_after_files_were_switched_off(service: Service) -> None:
    switch(service, "true")
    switch(service, "false")
    [automation] = service.client.list_automations()
    assert (automation["enabled"], automation["nextRun"]) == (False, None)
    assert automation["source"] is not None
    assert "does not read automation files" in (automation["source"]["problem"] or "")
    path = service.at(f"/automations/{automation['id']}")
    assert service.http.patch(path, json={"enabled": True}).status_code == 409
    assert service.http.delete(path).status_code == 204
