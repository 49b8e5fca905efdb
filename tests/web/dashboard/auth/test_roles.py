"""Permissions on the dashboard: every route, every role, every form, and the objects of another project."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpx2 as httpx
import pytest

from copydesk.core import clock
from copydesk.core.accounts.person import GLOBAL_ROLES, NO_ROLE, ROLES
from copydesk.core.accounts.sessions import csrf_token
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.publish.forges.local import find_or_open_pull
from copydesk.jobs.service import NewJob
from copydesk.prompts.template import build_template
from copydesk.webhooks.endpoints import Endpoints
from tests.support.dashboard import list_dashboard_routes
from tests.support.people import get_or_add_person, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

ROLE_TABLE_FILE = Path(__file__).parent / "roles.txt"
PROJECT = "/projects/{project_id}"
ANYBODY = "anybody"
SIGNED_OUT = "nobody"
LEAST_ROLES = {"account": NO_ROLE, "global-admin": "admin"}
OUTSIDER = "outsider"
"""An administrator of another project, without a role in all projects."""
OTHER_NAME = "Another handbook"
SESSIONS: dict[str, httpx.Cookies] = {}


def read_role_table() -> list[tuple[str, str, str]]:
    """Reads method, path and minimum role from the table."""
    lines = [
        line.split() for line in ROLE_TABLE_FILE.read_text("utf-8").splitlines() if line and not line.startswith("#")
    ]
    return [(method, path, role) for role, method, path in lines]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("roles")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def objects(service: Service) -> dict[str, str]:
    """Creates one object of each kind that a path may name, all of one project."""
    desk, project = service.desk, service.project
    desk.feedback.add(project.id, "/", True, None, clock.now())
    job = desk.jobs.create(project, NewJob("Mend the typo.")).job
    context = desk.contexts.add(project, NewContext("code", str(service.repository)), actor="test")
    fields = {"name": "Nightly", "prompt": "Mend the typo.", "trigger": {"type": "api"}}
    automation = desk.automations.create(project, fields, actor="test")
    with desk.database.write() as tx:
        pull = find_or_open_pull(desk.database, tx, job, "Mend the typo", "", "0" * 40, draft=False)
    member = get_or_add_person(service, "viewer", "another@example.org")
    desk.people.project_roles.set_role(member.id, project.id, "viewer", actor="test")
    template = desk.prompts.create(project.id, build_template("own", "Own", "", "Fix it."), actor="test")
    webhook_id, delivery_id = add_webhook(service)
    return {
        "project_id": project.id,
        "webhook_id": webhook_id,
        "delivery_id": delivery_id,
        "job_id": job.id,
        "automation_id": automation.id,
        "key_id": desk.keys.create(project.id, actor="test")[0].id,
        "number": str(pull.number),
        "person_id": member.id,
        "secret": desk.people.invite("new@example.org", "viewer", actor="test"),
        "share_id": desk.sharing.links.create(project.id, actor="test").link.id,
        "subscriber_id": desk.sharing.subscriptions.add_address(project.id, "x@example.org", actor="test").id,
        "report": "visitors",
        "template_name": template.name,
        "folder": "collect",
        "chapter": "nginx",
        "name": context.name,
        "feedback_id": desk.feedback.list_entries(project.id)[0][0].id,
    }


def add_webhook(service: Service) -> tuple[str, str]:
    """Adds a webhook to which nothing can be sent, and a delivery. Returns their IDs."""
    desk, project_id = service.desk, service.project.id
    endpoints = Endpoints(desk.database, desk.secrets, allow_private=True)
    webhook_id = endpoints.add(project_id, "http://127.0.0.1:1/", actor="test").endpoint.id
    return webhook_id, desk.webhooks.log.send_test(project_id, webhook_id, actor="test").id


def request_as(
    service: Service, role: str, method: str, path: str, token: str | None = None, **headers: str
) -> httpx.Response:
    session = httpx.Cookies() if role == SIGNED_OUT else get_session(service, role, path)
    client = get_client(service.url)
    client.cookies = httpx.Cookies(session)  # a copy, which keeps what the answer sets from the next request
    secret = next(iter(session.values()), "")
    form = {"token": csrf_token(secret) if token is None else token}
    if method == "POST":
        return client.post(path, data=form, headers=headers)
    with client.stream("GET", path, headers=headers) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):  # a live stream does not end
            answer.read()
        return answer


@cache
def get_client(url: str) -> httpx.Client:
    """Returns the client of all requests, whose connections are used again."""
    return httpx.Client(base_url=url, headers={"Accept": "text/html"}, timeout=30)


def get_session(service: Service, role: str, path: str) -> httpx.Cookies:
    """Returns a session per role; where a route ends a session, a separate one."""
    if path == "/sign-out" or path.startswith("/account/"):
        return sign_in(service, role, f"leaving-{role}@example.org").cookies
    if role not in SESSIONS:
        SESSIONS[role] = sign_in(service, role, f"{role}@example.org").cookies
    return SESSIONS[role]


def sign_in(service: Service, role: str, email: str) -> httpx.Client:
    """Signs a person in who has this role in all projects, in the service's project, or only in another project."""
    if role in GLOBAL_ROLES:
        return signed_in_client(service, role, email)
    person = get_or_add_person(service, NO_ROLE, email)
    if role == OUTSIDER:
        project_id, project_role = find_other_project(service), "admin"
    else:
        project_id, project_role = service.project.id, role.removesuffix("-of-the-project")
    service.desk.people.project_roles.set_role(person.id, project_id, project_role, actor="test")
    return signed_in_client(service, NO_ROLE, email)


def find_other_project(service: Service) -> str:
    """Returns the project of the outsider; creates it if it does not exist."""
    known = next((project for project in service.desk.projects.all() if project.name == OTHER_NAME), None)
    place = {"repository": "https://git.example.org/handbook", "ref": "main"}
    return (known or service.desk.projects.create(OTHER_NAME, **place, actor="test")).id


def assert_is_allowed(answer: httpx.Response, path: str) -> None:
    assert answer.status_code not in (401, 403), answer.status_code
    assert answer.status_code < 500
    assert not redirects_to_sign_in(answer) or path == "/sign-out"


def redirects_to_sign_in(answer: httpx.Response) -> bool:
    return answer.status_code == 303 and answer.headers["location"].startswith("/sign-in")


def test_role_table_has_every_route_of_the_dashboard() -> None:
    assert {(method, route.path) for route in list_dashboard_routes() for method in route.methods or ()} == {
        row[:2] for row in read_role_table()
    }


@pytest.mark.parametrize(("method", "path", "least"), read_role_table())
def test_role_permissions_match_the_table(
    service: Service, objects: dict[str, str], method: str, path: str, least: str
) -> None:
    path = path.format(**objects)
    for role in (SIGNED_OUT, *GLOBAL_ROLES):
        answer = request_as(service, role, method, path)
        if least == ANYBODY:
            assert answer.status_code not in (401, 403) or path == "/sign-in", (role, answer.status_code)
        elif role == SIGNED_OUT:
            assert redirects_to_sign_in(answer), answer.status_code
        elif role == NO_ROLE and f"/projects/{objects['project_id']}" in path:
            assert answer.status_code == 404, (role, answer.status_code)
        elif GLOBAL_ROLES.index(role) < GLOBAL_ROLES.index(LEAST_ROLES.get(least, least)):
            assert answer.status_code == 403, (role, answer.status_code)
        else:
            assert_is_allowed(answer, path)
        if answer.headers.get("content-type", "").startswith("text/html"):
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            caching = (
                "public, max-age=300"
                if answer.status_code == 200 and path.startswith("/docs/")
                else "private, no-store"
            )
            assert answer.headers["cache-control"] == caching


@pytest.mark.parametrize(("method", "path", "least"), [row for row in read_role_table() if row[1].startswith(PROJECT)])
def test_role_in_the_project_counts_as_a_role_in_all_projects(
    service: Service, objects: dict[str, str], method: str, path: str, least: str
) -> None:
    path = path.format(**objects)
    for role in ROLES:
        answer = request_as(service, f"{role}-of-the-project", method, path)
        if least == "global-admin" or ROLES.index(role) < ROLES.index(least):
            assert answer.status_code == 403, (role, answer.status_code)
        else:
            assert_is_allowed(answer, path)


@pytest.mark.parametrize(("method", "path"), [row[:2] for row in read_role_table() if row[1].startswith(PROJECT)])
def test_project_of_others_looks_like_an_unknown_one(
    service: Service, objects: dict[str, str], method: str, path: str
) -> None:
    """A person with a role in another project only gets the same answer, whether the project exists or not."""
    answers = [
        request_as(service, OUTSIDER, method, path.format(**objects | {"project_id": project_id}))
        for project_id in (objects["project_id"], "proj_" + "0" * (len(objects["project_id"]) - len("proj_")))
    ]
    bodies = [answer.content.replace(answer.headers["x-request-id"].encode(), b"") for answer in answers]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert bodies[0] == bodies[1]
    varying = {"date", "x-request-id"}
    assert len({tuple(item for item in each.headers.items() if item[0] not in varying) for each in answers}) == 1


@pytest.mark.parametrize(
    ("method", "path", "least"), [row for row in read_role_table() if not row[1].startswith(PROJECT)]
)
def test_other_pages_do_not_mention_projects_of_others(
    service: Service, objects: dict[str, str], method: str, path: str, least: str
) -> None:
    answer = request_as(service, OUTSIDER, method, path.format(**objects))
    if least not in (ANYBODY, "account"):
        assert answer.status_code == 403
    text = answer.text + str(answer.headers)
    assert service.project.id not in text
    assert service.project.name not in text
    assert str(service.repository) not in text


def test_search_finds_only_projects_that_the_person_sees(service: Service, objects: dict[str, str]) -> None:
    with httpx.Client(base_url=service.url, cookies=get_session(service, OUTSIDER, ""), timeout=30) as client:
        for search in ("", service.project.name, str(service.repository)):
            page = client.get("/projects", params={"search": search}, headers={"Accept": "text/html"}).text
            assert service.project.id not in page
        assert OTHER_NAME in client.get("/projects", headers={"Accept": "text/html"}).text


@pytest.mark.parametrize("path", sorted({path for _, path, _ in read_role_table() if path.startswith(PROJECT)}))
def test_objects_of_another_project_return_404(service: Service, objects: dict[str, str], path: str) -> None:
    other = service.another_project().project.id
    methods = [method for method, known, _ in read_role_table() if known == path]
    for method in methods:
        assert (
            request_as(service, "admin", method, path.format(**objects | {"project_id": "proj_0"})).status_code == 404
        )
        if path.replace("{report}", "").count("{") > 1:
            assert (
                request_as(service, "admin", method, path.format(**objects | {"project_id": other})).status_code == 404
            )


@pytest.mark.parametrize("path", [path for method, path, _ in read_role_table() if method == "POST"])
def test_cross_site_form_is_refused(service: Service, objects: dict[str, str], path: str) -> None:
    path = path.format(**objects)
    is_open = path in ("/sign-in", "/sign-in/forgot") or path.startswith("/join/")
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://example.org"},
    ):
        assert request_as(service, "admin", "POST", path, **headers).status_code == 403, headers
    if not is_open:
        for token in ("", "0" * 64, csrf_token("another session's secret")):
            assert request_as(service, "admin", "POST", path, token=token).status_code == 403
