"""Automations of files on the dashboard: where they are defined, what is wrong, and no way to edit them."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pygit2
import pytest

from tests.support.people import csrf_token_from_html, signed_in_client
from tests.support.repositories import commit, make_repository
from tests.support.service import Service, serve

LINKS = ".copydesk/automations/links.md"
HOSTILE = b'---\nkind: typos\n"<script>alert(1)</script>": 1\n---\n'


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    files = {"index.md": b"# Hi\n", LINKS: b"---\nkind: broken_links\nenabled: true\n---\n"}
    repository = make_repository(tmp_path / "docs.git", {**files, ".copydesk/automations/bad.md": HOSTILE})
    with serve(tmp_path / "data", repository=repository, with_worker=False) as running:
        yield running


def read_files(service: Service) -> str:
    """Switches the files on and reads them. Returns the path of the automation's page."""
    service.desk.projects.change(service.project.id, {"automation_files": "true"}, actor="test")
    service.desk.create_repository_watch().look()
    [listed] = service.desk.automations.list_for_project(service.project.id)
    return f"/projects/{service.project.id}/automations/{listed.automation.id}"


def test_list_shows_the_file_of_an_automation_and_what_is_wrong_with_others(service: Service) -> None:
    editor = signed_in_client(service, "editor")
    base = f"/projects/{service.project.id}/automations"
    assert "Automation files" not in editor.get(base).text
    path = read_files(service)
    page = editor.get(base).text
    assert f"defined in {LINKS}" in page
    assert f"{path}/switch" not in page
    assert "<script>alert" not in page
    text = unescape(page)
    assert "1 of them is not valid" in text
    assert ".copydesk/automations/bad.md</code>, line 3: <script>alert(1)</script> is not a field." in text


def test_page_of_an_automation_names_its_file_and_has_no_form_but_run(service: Service) -> None:
    editor = signed_in_client(service, "editor")
    path = read_files(service)
    page = editor.get(path).text
    assert f"<dt>Defined in</dt><dd><code>{LINKS}</code> on the branch main" in page
    for action in ("switch", "edit", "delete"):
        assert f"{path}/{action}" not in page
    token = csrf_token_from_html(page)
    for action in ("edit", "delete"):
        refused = editor.get(f"{path}/{action}")
        assert refused.status_code == 409
        assert LINKS in refused.text
    for action in ("switch", "edit", "delete"):
        answer = editor.post(f"{path}/{action}", data={"token": token, "enabled": "false", "name": "Mine"})
        assert "Change the file instead." in unescape(answer.text), action
    [listed] = service.desk.automations.list_for_project(service.project.id)
    assert listed.automation.definition.enabled
    assert editor.post(f"{path}/run", data={"token": token}).status_code in (200, 303)
    assert len(service.desk.jobs.list_newest(service.project.id, 0, 10)) == 1


def test_paused_automation_says_why(service: Service) -> None:
    editor = signed_in_client(service, "editor")
    path = read_files(service)
    commit(pygit2.Repository(str(service.repository)), {LINKS: b"---\nkind: broken_links\nmode: force\n---\n"})
    service.desk.create_repository_watch().look()
    for page in (editor.get(path).text, editor.get(f"/projects/{service.project.id}/automations").text):
        assert "<strong>Paused:</strong>" in page
        assert "Line 3: mode: Input should be 'pull_request' or 'merge'." in unescape(page)


def test_only_an_administrator_switches_files_on(service: Service) -> None:
    settings = f"/projects/{service.project.id}/settings"
    for role, is_on in (("editor", False), ("admin", True)):
        client = signed_in_client(service, role)
        page = client.get(settings).text
        assert "Read automations from files" in page
        form = {"token": csrf_token_from_html(page), "group": "automations", "automation_files": "true"}
        client.post(settings, data={**form, "was_automation_files": "false"})
        assert service.desk.projects.get(service.project.id).policy.automation_files is is_on
