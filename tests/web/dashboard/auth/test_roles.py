"""Permissions on the dashboard: every route, every role, every form, and the objects of another project."""

from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from copydesk.core import clock
from copydesk.core.accounts.person import ROLES
from copydesk.core.accounts.sessions import csrf_token
from copydesk.jobs.projects.context_repositories import NewContext
from copydesk.jobs.publish.forges.local import find_or_open_pull
from copydesk.jobs.service import NewJob
from tests.support.dashboard import list_dashboard_routes
from tests.support.people import get_or_add_person, signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

ROLE_TABLE_FILE = Path(__file__).parent / "roles.txt"
PROJECT = "/projects/{project_id}"
ANYBODY = "anybody"
SIGNED_OUT = "nobody"
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
    return {
        "project_id": project.id,
        "job_id": job.id,
        "automation_id": automation.id,
        "key_id": desk.keys.create(project.id, actor="test")[0].id,
        "number": str(pull.number),
        "person_id": get_or_add_person(service, "viewer", "another@example.org").id,
        "secret": desk.people.invite("new@example.org", "viewer", actor="test"),
        "share_id": desk.sharing.links.create(project.id, actor="test").link.id,
        "subscriber_id": desk.sharing.subscriptions.add_address(project.id, "x@example.org", actor="test").id,
        "report": "visitors",
        "folder": "collect",
        "chapter": "nginx",
        "name": context.name,
        "feedback_id": desk.feedback.list_entries(project.id)[0][0].id,
    }


def request_as(
    service: Service, role: str, method: str, path: str, token: str | None = None, **headers: str
) -> httpx.Response:
    if role == SIGNED_OUT:
        client = httpx.Client(base_url=service.url, headers={"Accept": "text/html"}, timeout=30)
    else:
        client = httpx.Client(
            base_url=service.url, cookies=get_session(service, role, path), headers={"Accept": "text/html"}, timeout=30
        )
    secret = next(iter(client.cookies.values()), "")
    form = {"token": csrf_token(secret) if token is None else token}
    with client:
        if method == "POST":
            return client.post(path, data=form, headers=headers)
        with client.stream("GET", path, headers=headers) as answer:  # a live stream would not end
            return answer


def get_session(service: Service, role: str, path: str) -> httpx.Cookies:
    """Returns a session per role; where a route ends a session, a separate one."""
    if path == "/sign-out" or path.startswith("/account/"):
        return signed_in_client(service, role, f"leaving-{role}@example.org").cookies
    if role not in SESSIONS:
        SESSIONS[role] = signed_in_client(service, role).cookies
    return SESSIONS[role]


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
    for role in (SIGNED_OUT, *ROLES):
        answer = request_as(service, role, method, path)
        if least == ANYBODY:
            assert answer.status_code not in (401, 403) or path == "/sign-in", (role, answer.status_code)
        elif role == SIGNED_OUT:
            assert redirects_to_sign_in(answer), answer.status_code
        elif ROLES.index(role) < ROLES.index(least):
            assert answer.status_code == 403, (role, answer.status_code)
        else:
            assert answer.status_code not in (401, 403), (role, answer.status_code)
            assert answer.status_code < 500
            assert not redirects_to_sign_in(answer) or path == "/sign-out"
        if answer.headers.get("content-type", "").startswith("text/html"):
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            caching = (
                "public, max-age=300"
                if answer.status_code == 200 and path.startswith("/docs/")
                else "private, no-store"
            )
            assert answer.headers["cache-control"] == caching


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
