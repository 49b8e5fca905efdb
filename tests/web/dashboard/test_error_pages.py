"""Error pages: HTML with navigation for browsers, JSON for programs, and the icon that browsers ask for."""

from collections.abc import Iterator

import httpx2 as httpx
import pytest
from sqlalchemy import text

from tests.support.people import signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("errors")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


def test_unknown_page_is_a_page_with_the_navigation_of_the_person(service: Service) -> None:
    with signed_in_client(service, "viewer") as client:
        page = client.get("/no/such/page", headers=BROWSER)
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert '<a href="/projects"' in page.text
    assert "Sign out" in page.text
    assert page.headers["x-request-id"] in page.text


def test_hidden_project_is_a_page_with_the_navigation_of_the_person(service: Service) -> None:
    with signed_in_client(service, "none") as client:
        page = client.get(f"/projects/{service.project.id}/jobs", headers=BROWSER)
    assert page.status_code == 404
    assert '<a href="/projects"' in page.text
    assert "Sign out" in page.text
    assert service.project.name not in page.text


def test_unknown_page_of_a_stranger_links_to_the_dashboard_and_the_guide(service: Service) -> None:
    page = httpx.get(f"{service.url}/nothing", headers=BROWSER, timeout=30)
    assert page.status_code == 404
    assert '<a href="/">Go to the dashboard</a>' in page.text
    assert '<a href="/docs/guide">Guide</a>' in page.text
    assert "Sign out" not in page.text


def test_page_without_permission_keeps_the_navigation(service: Service) -> None:
    with signed_in_client(service, "viewer") as client:
        page = client.get("/people", headers=BROWSER)
    assert page.status_code == 403
    assert "Your role does not allow this" in page.text
    assert "Sign out" in page.text


def test_wrong_method_says_to_go_back(service: Service) -> None:
    page = httpx.get(f"{service.url}/sign-out", headers=BROWSER, timeout=30)
    assert page.status_code == 405
    assert "can’t be opened directly" in page.text
    posted = httpx.post(f"{service.url}/docs/guide", headers=BROWSER, timeout=30)
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("path", ["/v2/agent/x/jobs", "/v1/nothing", "/webhooks/x/y", "/static/nothing", "/healthz/x"])
def test_paths_of_programs_answer_with_json_also_to_browsers(service: Service, path: str) -> None:
    response = httpx.get(f"{service.url}{path}", headers=BROWSER, timeout=30)
    assert response.status_code in (401, 404)
    if path != "/healthz/x":
        assert response.json()["code"]


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_programs_get_json_for_every_path(service: Service, accept: str) -> None:
    for path in ("/nothing", "/people", "/docs/guide/nothing"):
        response = httpx.get(f"{service.url}{path}", headers={"Accept": accept}, timeout=30)
        assert response.json()["code"] in ("not_found", "sign_in_first")


def test_error_of_the_server_is_a_page_without_details(service: Service) -> None:
    with signed_in_client(service) as client:
        with service.desk.database.write() as tx:
            tx.execute(text("alter table people rename to people_elsewhere"))
        try:
            page = client.get("/projects", headers=BROWSER)
            data = client.get("/projects", headers={"Accept": "application/json"})
        finally:
            with service.desk.database.write() as tx:
                tx.execute(text("alter table people_elsewhere rename to people"))
    assert page.status_code in (500, 503)
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["x-request-id"] in page.text
    assert "people_elsewhere" not in page.text
    assert data.json()["code"] in ("internal_error", "store_down")


def test_icon_is_served_where_browsers_look_for_it(service: Service) -> None:
    icon = httpx.get(f"{service.url}/favicon.ico", timeout=30)
    assert icon.status_code == 200
    assert icon.headers["content-type"] == "image/x-icon"
    assert icon.content[:4] == b"\x00\x00\x01\x00"
    assert 'href="/favicon.ico"' in httpx.get(f"{service.url}/sign-in", headers=BROWSER, timeout=30).text
