"""The dashboard in a real browser: from the first link to a merged change, and from a page view to its figure."""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.site import DOCS, ROUTER, BeaconSite
from tests.support.programs import curl_command
from tests.support.repositories import make_repository, read_file
from tests.support.service import Service, serve

pytestmark = pytest.mark.deep

PERSON = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
PASSWORD = "correct horse battery"
REFUSED = "responded with a status of 4"
"""Chromium's message when a form is shown again with errors."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serves Copydesk without any accounts, with an existing repository."""
    folder = tmp_path_factory.mktemp("dashboard")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n\nThe colour of things.\n"})
    with serve(folder / "data", repository=repository) as running:
        yield running


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(user_agent=PERSON) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(context: BrowserContext, service: Service) -> Iterator[Page]:
    """Opens one tab for the complete walk. An error in its scripts or a request to another host fails the test."""
    tab, faults = context.new_page(), list[str]()
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on(
        "console", lambda said: faults.append(said.text) if said.type == "error" and REFUSED not in said.text else None
    )
    tab.on("request", lambda asked: faults.append(asked.url) if not asked.url.startswith(service.url) else None)
    yield tab
    assert faults == []


def run_curl(*arguments: str) -> dict[str, object]:
    command = [*curl_command(), "-sS", "--fail-with-body", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def post_json(url: str, key: str, body: object) -> dict[str, object]:
    return run_curl(url, "-H", f"Authorization: Bearer {key}", "--json", json.dumps(body))


class WalkState:
    """Results of earlier steps for the later ones."""

    project = key = site = ""


@pytest.fixture(scope="module")
def walk() -> WalkState:
    return WalkState()


def test_first_link_creates_the_administrator(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/join/{service.desk.people.create_first_admin_link()}")
    page.get_by_label("Email address").fill("ada@example.org")
    page.get_by_label("Name").fill("Ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Projects")
    assert service.desk.people.create_first_admin_link() is None


def test_project_is_created_once_its_repository_is_found(page: Page, service: Service, walk: WalkState) -> None:
    page.goto(f"{service.url}/projects/new")
    page.get_by_label("Name").fill("Handbook")
    page.get_by_label("Repository", exact=False).first.fill(str(service.repository.parent / "missing.git"))
    page.get_by_role("button", name="Check and create").click()
    expect(page.get_by_role("alert").or_(page.locator(".fault")).first).to_be_visible()
    page.get_by_label("Repository", exact=False).first.fill(str(service.repository))
    page.get_by_role("button", name="Check and create").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Handbook")
    walk.project = re.findall(r"proj_\w+", page.url)[0]


def test_a_key_is_shown_once(page: Page, service: Service, walk: WalkState) -> None:
    page.goto(f"{service.url}/projects/{walk.project}/keys")
    assert page.locator("#project-id").inner_text() == walk.project
    walk.site = page.locator("#site-id").inner_text()
    page.get_by_label("Name").fill("From the terminal")
    page.get_by_role("button", name="Create key").click()
    walk.key = page.locator("#key").input_value()
    assert walk.key.startswith("desk_")
    page.goto(f"{service.url}/projects/{walk.project}/keys")
    assert walk.key not in page.content()
    expect(page.get_by_role("rowheader", name="From the terminal")).to_be_visible()


def test_a_job_is_followed_live_to_its_pull_request_and_merged(page: Page, service: Service, walk: WalkState) -> None:
    prompt = "Replace colour with color on every page."
    job = post_json(f"{service.url}/v2/agent/{walk.project}/job", walk.key, {"prompt": prompt})
    page.goto(f"{service.url}/projects/{walk.project}/jobs")
    page.get_by_role("link", name=prompt).click()
    expect(page).to_have_url(f"{service.url}/projects/{walk.project}/jobs/{job['id']}")
    expect(page.locator("#state .state")).to_have_text("completed")
    expect(page.locator(".steps li").first).to_be_attached()
    expect(page.locator("#changes")).to_contain_text("The color of things.")
    page.get_by_role("link", name="Review the pull request").click()
    page.get_by_role("button", name="Merge").click()
    expect(page.locator(".state").first).to_have_text("merged")
    assert read_file(service.repository, "main", "index.md") == b"# Hello\n\nThe color of things.\n"


def test_running_job_updates_its_page_live(page: Page, service: Service, walk: WalkState) -> None:
    page.goto(f"{service.url}/projects/{walk.project}/jobs")
    page.get_by_label("What should be done?").fill("Replace things with matters on every page.")
    page.get_by_role("button", name="Start job").click()
    page.evaluate("window.stayed = true")
    expect(page.locator("#state .state")).to_have_text("completed")
    expect(page.locator("#changes")).to_contain_text("The color of matters.")


def test_dashboard_shows_the_same_counts_as_the_api(
    page: Page, context: BrowserContext, service: Service, site: BeaconSite, walk: WalkState
) -> None:
    site.collector, site.site_id, site.head = service.url, walk.site, ROUTER
    reader = context.new_page()
    with reader.expect_response("**/v1/collect/*"):
        reader.goto(f"{DOCS}/")
    for name in ("Guide", "Setup"):
        with reader.expect_response("**/v1/collect/*"):
            reader.get_by_role("link", name=name).click()
    reader.close()
    events = f"{service.url}/v1/analytics/{walk.project}/events"
    for path in ("/guide", "/faq"):
        told = {"path": path, "userAgent": "Mozilla/5.0 (compatible; ChatGPT-User/1.0)", "ip": "192.0.2.9"}
        assert post_json(events, walk.key, told)["accepted"] == 1
    exported = run_curl(
        f"{service.url}/v1/analytics/{walk.project}/visitors", "-H", f"Authorization: Bearer {walk.key}"
    )
    assert exported["totals"] == {"human": 1, "ai": 1, "total": 2}
    page.goto(f"{service.url}/projects/{walk.project}/readership")
    rows = page.locator("table.pages tbody tr")
    shown = [[cell.strip() for cell in row.locator("th, td.figure").all_inner_texts()] for row in rows.all()]
    listed = exported["visitors"]
    assert isinstance(listed, list)
    assert shown == [[each["path"], str(each["human"]), str(each["ai"]), str(each["total"])] for each in listed]


def test_signing_out_and_in_works_by_keyboard_alone(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/projects")
    page.get_by_role("button", name="Sign out").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{service.url}/sign-in")
    for typed in ("ada@example.org", PASSWORD):
        while page.evaluate("document.activeElement.tagName") != "INPUT":
            page.keyboard.press("Tab")
        page.keyboard.type(typed)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Projects")
