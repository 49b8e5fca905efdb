"""The pages that give access to single projects, over real HTTP."""

import re
from collections.abc import Iterator

import httpx2 as httpx
import pytest

from copydesk.core.accounts.person import NO_ROLE, Person
from copydesk.core.projects.projects import Project
from copydesk.jobs.publish.forges.local import find_or_open_pull
from copydesk.jobs.service import NewJob
from tests.support.people import PASSWORD, csrf_token_from_html, get_or_add_person, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

LINK_PATTERN = re.compile(r'value="(http://[^"]+/join/\w{32})"')


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("access")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture(scope="module")
def secret_project(service: Service) -> Project:
    return service.another_project("Zebra").project


@pytest.fixture
def admin(service: Service) -> Iterator[httpx.Client]:
    with signed_in_client(service) as browser:
        yield browser


def add_member(service: Service, email: str, role: str) -> Person:
    person = get_or_add_person(service, NO_ROLE, email)
    service.desk.people.project_roles.set_role(person.id, service.project.id, role, actor="test")
    return person


def post_form(browser: httpx.Client, path: str, **form: str) -> httpx.Response:
    return browser.post(path, data={"token": csrf_token_from_html(browser.get("/account").text), **form})


def read_roles(service: Service, person: Person) -> dict[str, str]:
    return service.desk.people.project_roles.load(person)


@pytest.mark.deep
def test_invitation_on_the_page_of_a_project_leads_to_that_project_only(
    service: Service, secret_project: Project, admin: httpx.Client
) -> None:
    page = f"/projects/{service.project.id}/people"
    made = post_form(admin, page, email="New@example.org", role="editor")
    link = LINK_PATTERN.search(made.text)
    assert link
    with httpx.Client(headers={"Accept": "text/html"}, timeout=60, base_url=service.url) as new:
        joining = new.get(link[1]).text
        assert f"editor in {service.project.name}" in joining
        assert secret_project.name not in joining
        assert new.post(link[1], data={"name": "New", "password": PASSWORD}).status_code == 303
        projects = new.get("/projects").text
        assert service.project.id in projects
        assert secret_project.id not in projects
        assert new.get(f"/projects/{secret_project.id}/jobs").status_code == 404
        assert f'editor in <a href="/projects/{service.project.id}"' in new.get("/account").text
        assert "/people" not in projects
        assert "/system" not in projects
    assert "new@example.org" in admin.get(page).text


def test_person_is_invited_to_a_project_on_the_people_page(service: Service, admin: httpx.Client) -> None:
    made = post_form(admin, "/people/invite", email="one@example.org", role="viewer", project=service.project.id)
    assert LINK_PATTERN.search(made.text)
    row = next(part for part in admin.get("/people").text.split("<li") if "one@example.org" in part)
    assert f"viewer in {service.project.name}" in row
    assert post_form(admin, "/people/invite", email="a@b.example", role="viewer", project="proj_0").status_code == 404


def test_person_with_an_account_gets_access_without_a_link(service: Service, admin: httpx.Client) -> None:
    person = get_or_add_person(service, NO_ROLE, "known@example.org")
    page = f"/projects/{service.project.id}/people"
    assert post_form(admin, page, email=" Known@example.org", role="viewer").headers["location"] == page
    assert read_roles(service, person) == {service.project.id: "viewer"}
    again = post_form(admin, page, email="known@example.org", role="editor")
    assert (again.status_code, "has access already" in again.text) == (400, True)
    assert post_form(admin, f"{page}/{person.id}", role="editor").headers["location"] == page
    assert read_roles(service, person) == {service.project.id: "editor"}
    assert post_form(admin, f"{page}/{person.id}", role="owner").status_code == 400
    post_form(admin, f"{page}/{person.id}", role="none")
    assert read_roles(service, person) == {}
    assert post_form(admin, f"{page}/{person.id}", role="viewer").status_code == 404


def test_administrator_of_a_project_gives_access_but_creates_no_accounts(service: Service) -> None:
    add_member(service, "lead@example.org", "admin")
    person = get_or_add_person(service, NO_ROLE, "colleague@example.org")
    page = f"/projects/{service.project.id}/people"
    with signed_in_client(service, NO_ROLE, "lead@example.org") as lead:
        assert post_form(lead, page, email=person.email, role="editor").status_code == 303
        refused = post_form(lead, page, email="stranger@example.org", role="viewer")
        assert (refused.status_code, "There is no account" in refused.text) == (400, True)
        assert "stranger@example.org" in refused.text, "the form keeps the address"
        assert not LINK_PATTERN.search(refused.text)
        assert post_form(lead, page, email="lead@example.org", role="viewer").status_code == 409
    assert read_roles(service, person) == {service.project.id: "editor"}
    assert "stranger@example.org" not in [each.email for each in service.desk.people.list_invitations()]


@pytest.mark.deep
def test_administrator_of_a_project_cannot_reach_beyond_it(service: Service) -> None:
    add_member(service, "lead@example.org", "admin")
    project = f"/projects/{service.project.id}"
    with signed_in_client(service, NO_ROLE, "lead@example.org") as lead:
        page = lead.get(f"{project}/settings").text
        assert f"{project}/repository" not in page
        assert f"{project}/delete" not in page
        command = post_form(lead, f"{project}/settings", group="checks", check_command="make", check_minutes="5")
        assert (command.status_code, "Only an administrator of all projects" in command.text) == (400, True)
        path = post_form(lead, f"{project}/context", name="code", repository=str(service.repository))
        assert (path.status_code, "https:// URL" in path.text) == (400, True)
        own = post_form(lead, f"{project}/settings", group="automations", automation_files="on")
        assert own.status_code == 303
    policy = service.desk.projects.get(service.project.id).policy
    assert (policy.check_command, policy.automation_files) == (None, True)


def test_projects_of_a_person_are_changed_on_the_people_page(
    service: Service, secret_project: Project, admin: httpx.Client
) -> None:
    person = get_or_add_person(service, NO_ROLE, "several@example.org")
    page = f"/people/{person.id}/access"
    for project in (service.project, secret_project):
        assert post_form(admin, page, project=project.id, role="viewer").headers["location"] == page
    shown = admin.get(page).text
    assert service.project.name in shown
    assert secret_project.name in shown
    assert post_form(admin, page, project="proj_0", role="viewer").status_code == 404
    post_form(admin, page, project=secret_project.id, role="none")
    assert read_roles(service, person) == {service.project.id: "viewer"}


def test_keys_of_who_was_administrator_of_a_project_are_asked_about(service: Service, admin: httpx.Client) -> None:
    person = add_member(service, "keyholder@example.org", "admin")
    key, _ = service.desk.keys.create(service.project.id, name="Theirs", actor=person.email)
    path = f"/projects/{service.project.id}/people/{person.id}"
    asked = post_form(admin, path, role="viewer")
    assert (asked.status_code, "Theirs" in asked.text) == (200, True)
    assert read_roles(service, person) == {service.project.id: "admin"}
    assert post_form(admin, path, role="viewer", keys="revoke").status_code == 303
    assert not service.desk.keys.get(service.project.id, key.id).is_active


def test_review_link_leads_to_the_dashboard_only_for_people_who_see_the_project(
    service: Service, secret_project: Project
) -> None:
    desk = service.desk
    job = desk.jobs.create(secret_project, NewJob("Fix the typo.")).job
    with desk.database.write() as tx:
        pull = find_or_open_pull(desk.database, tx, job, "Fix the typo", "", "0" * 40, draft=False)
    add_member(service, "lead@example.org", "admin")
    path = f"/review/{pull.token}/pulls/{pull.number}"
    with signed_in_client(service) as boss, signed_in_client(service, NO_ROLE, "lead@example.org") as lead:
        assert secret_project.id in boss.get(path).text
        assert f"/projects/{secret_project.id}" not in lead.get(path).text


def test_person_without_a_project_is_told_whom_to_ask(service: Service) -> None:
    with signed_in_client(service, NO_ROLE, "nothing@example.org") as browser:
        assert "You have no access to a project yet" in browser.get("/projects").text
        assert "no access to a project yet" in browser.get("/account").text
