"""From a browser to the exported number: the real beacon, the real service."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.site import DOCS, BeaconSite
from tests.support.service import Service

pytestmark = pytest.mark.deep


@pytest.fixture
def page(browser: Browser, site: BeaconSite, service: Service) -> Iterator[Page]:
    """Opens a page whose beacon comes from the service.

    Hides that the browser is headless, so that it counts as a person.
    """
    site.collector, site.site_id = service.url, service.project.site_id
    agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
    with browser.new_context(user_agent=agent) as context:
        yield context.new_page()


def open_page(page: Page, path: str) -> int:
    with page.expect_response("**/v1/collect/*") as answer:
        page.goto(f"{DOCS}{path}")
    return answer.value.status


def test_browser_views_are_exported_as_human_visitors(page: Page, service: Service) -> None:
    assert [open_page(page, path) for path in ("/", "/guide/", "/guide/index.html", "/")] == [202] * 4
    found = service.http.get(f"/v1/analytics/{service.project.id}/visitors").json()
    one = {"human": 1, "ai": 0, "total": 1}
    assert found == {"totals": one, "visitors": [{"path": "/", **one}, {"path": "/guide", **one}], "hasMore": False}
    views = service.http.get(f"/v1/analytics/{service.project.id}/views").json()
    assert views["totals"] == {"human": 4, "ai": 0, "total": 4}


def test_missing_page_in_a_browser_is_listed_with_where_it_came_from(page: Page, service: Service) -> None:
    assert open_page(page, "/guide") == 202
    with page.expect_response("**/v1/collect/*") as answer:
        page.evaluate("location = '/missing/page'")
    assert answer.value.status == 202
    [row] = service.http.get(f"/v1/analytics/{service.project.id}/missing").json()["missing"]
    assert (row["path"], row["human"], row["referrers"]) == (
        "/missing/page",
        1,
        [{"referrer": "/guide", "requests": 1}],
    )
    views = service.http.get(f"/v1/analytics/{service.project.id}/views").json()["views"]
    assert "/missing/page" not in {view["path"] for view in views}


def test_feedback_given_in_a_browser_is_listed(page: Page, service: Service) -> None:
    open_page(page, "/guide")
    with page.expect_response("**/v1/collect/*") as answer:
        page.evaluate("copydesk.feedback(false, 'Which port?')")
    assert answer.value.status == 202
    listed = service.http.get(f"/v1/analytics/{service.project.id}/feedback").json()["feedback"]
    assert [(each["path"], each["helpful"], each["comment"]) for each in listed] == [("/guide", False, "Which port?")]


def test_search_in_a_browser_is_listed_with_its_click(page: Page, service: Service) -> None:
    open_page(page, "/guide")
    for call in ("copydesk.search('ports', {results: 2})", "copydesk.search('ports', {clicked: '/install'})"):
        with page.expect_response("**/v1/collect/*") as answer:
            page.evaluate(call)
        assert answer.value.status == 202
    [row] = service.http.get(f"/v1/analytics/{service.project.id}/searches").json()["searches"]
    assert (row["searchQuery"], row["hits"], row["ctr"], row["topClickedPage"]) == ("ports", 1, 100.0, "/install")


def test_feedback_in_a_browser_may_be_a_comment_alone_or_an_object(page: Page, service: Service) -> None:
    open_page(page, "/guide")
    for call in ("copydesk.feedback(null, 'Alone.')", "copydesk.feedback({helpful: 1, contact: 'ada@example.org'})"):
        with page.expect_response("**/v1/collect/*") as answer:
            page.evaluate(call)
        assert answer.value.status == 202
    listed = service.http.get(f"/v1/analytics/{service.project.id}/feedback").json()["feedback"]
    assert [(each["rated"], each["helpful"], each["comment"], each["contact"]) for each in listed[:2]] == [
        (True, True, None, "ada@example.org"),
        (False, False, "Alone.", None),
    ]
