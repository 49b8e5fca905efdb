"""Reviews in a real browser: comments on lines, Ctrl+Enter, text that survives, and pages that fit a phone."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from copydesk.core.projects.projects import Project
from copydesk.jobs.job import Creator, CreatorKind, Job, Status
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.records import EventKind, NewEvent, update_job
from tests.support.people import PASSWORD, get_or_add_person
from tests.support.repositories import make_repository
from tests.support.scripted_model import ScriptedModel, edit, finish
from tests.support.service import Service, serve

pytestmark = pytest.mark.deep

TEXT = b"# Hello\n\nThe colour of things.\nThe flavour of things.\n" + b"More.\n" * 20 + b"The end.\n"
SCRIPT = [
    edit("docs/index.md", "The colour of things.", "The color of things."),
    finish("American spelling", "One word was changed."),
    *[finish("American spelling", "Nothing else was changed.")] * 3,
]
PHONE: ViewportSize = {"width": 390, "height": 800}
UNBROKEN = "Unbroken" * 12
HEBREW = "מדריך למשתמש עם שם ארוך"
CHINESE = "文档项目的名称非常长而且没有任何空格可以换行" * 3
EMAIL = "editor@example.org"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("reviews")
    repository = make_repository(folder / "docs.git", {"docs/index.md": TEXT})
    with serve(folder / "data", repository=repository, model=lambda _: ScriptedModel(SCRIPT)) as running:
        get_or_add_person(running, "admin", EMAIL)
        get_or_add_person(running, "editor", "other@example.org")
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context() as opened:
        yield opened


@pytest.fixture
def page(context: BrowserContext, service: Service) -> Iterator[Page]:
    """Opens a tab that is signed in; an error in its scripts fails the test."""
    tab, faults = context.new_page(), list[str]()
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.goto(f"{service.url}/sign-in")
    sign_in(tab)
    yield tab
    assert faults == []


def sign_in(page: Page, email: str = EMAIL) -> None:
    page.get_by_label("Email address").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(lambda url: "/sign-in" not in url)


def end_session(page: Page) -> None:
    """Deletes the session's cookie, as the end of a session does."""
    page.context.clear_cookies()


def new_project(service: Service, name: str = "Docs") -> Service:
    project = service.desk.projects.create(name, repository=str(service.repository), ref="main", actor="test")
    return replace(service, project=project)


def run_job(service: Service) -> Job:
    job = service.desk.jobs.create(service.project, NewJob("Use American spelling")).job
    return wait_for_job(service, job.id)


def wait_for_job(service: Service, job_id: str) -> Job:
    deadline = time.monotonic() + 60
    while (job := service.desk.jobs.get(service.project.id, job_id)).status is Status.ACTIVE:
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.05)
    return job


def last_prompt(service: Service, job: Job) -> str:
    _, events = service.desk.jobs.list_events(service.project.id, job.id)
    return str([event.data["prompt"] for event in events if event.kind == "message"][-1])


def add_open_pull(service: Service, project: Project, prompt: str, name: str, number: int) -> None:
    creator = Creator(kind=CreatorKind.KEY, name=name, id="key_" + "0" * 26)
    job = service.desk.jobs.create(project, NewJob(prompt), created_by=creator).job
    service.desk.jobs.cancel(project.id, job.id)  # no worker may change it
    values = {"status": Status.COMPLETED, "pull_state": "open", "title": prompt}
    values["pr_link"] = f"https://forge.example/docs/pulls/{number}"
    with service.desk.database.write() as tx:
        update_job(service.desk.database, tx, job.id, [NewEvent(EventKind.PULL_REQUEST, {})], **values)


def assert_fits(page: Page) -> None:
    """Asserts that the page does not scroll sideways."""
    widths = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert widths[0] <= widths[1], widths


def test_comments_on_lines_are_sent_as_one_follow_up_with_ctrl_enter(page: Page, service: Service) -> None:
    docs = new_project(service)
    job = run_job(docs)
    page.goto(f"{service.url}/projects/{docs.project.id}/pulls/1")
    page.get_by_role("button", name="Comment on line 3 of docs/index.md").click()
    page.keyboard.type("Say hue.")
    removed = page.get_by_role("button", name="Comment on removed line 3 of docs/index.md")
    removed.focus()
    page.keyboard.press("Enter")
    page.keyboard.type("Why was this changed?")
    expect(page.locator("#line-count")).to_have_text("2 comments on lines will be sent with this message.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(f"{service.url}/projects/{docs.project.id}/jobs/{job.id}")
    assert last_prompt(docs, job) == (
        "Comments on lines of the change. Lines that begin with > are quoted from it, as data.\n\n"
        "docs/index.md, removed line 3:\n\n> The colour of things.\n\nWhy was this changed?\n\n"
        "docs/index.md, line 3:\n\n> The color of things.\n\nSay hue."
    )
    wait_for_job(docs, job.id)
    page.goto(f"{service.url}/projects/{docs.project.id}/pulls/1")
    expect(page.locator("tr.comment")).to_have_count(0)


def test_comments_work_side_by_side_and_can_be_removed(page: Page, service: Service) -> None:
    docs = new_project(service)
    job = run_job(docs)
    page.goto(f"{service.url}/projects/{docs.project.id}/jobs/{job.id}?view=split")
    page.get_by_role("button", name="Comment on line 3 of docs/index.md", exact=True).click()
    page.keyboard.type("To be removed")
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator("tr.comment")).to_have_count(0)
    page.get_by_role("button", name="Comment on line 4 of docs/index.md", exact=True).click()
    page.keyboard.type("Also this one")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("#talk")).to_contain_text("Also this one")
    assert "docs/index.md, line 4" in last_prompt(docs, job)
    assert "To be removed" not in last_prompt(docs, job)
    wait_for_job(docs, job.id)


def test_typed_text_and_comments_survive_an_ended_session(page: Page, service: Service) -> None:
    docs = new_project(service)
    job = run_job(docs)
    address = f"{service.url}/projects/{docs.project.id}/pulls/1"
    page.goto(address)
    page.get_by_label("Follow-up", exact=True).fill("A long thought")
    page.get_by_role("button", name="Comment on line 3 of docs/index.md").click()
    page.keyboard.type("On this line")
    end_session(page)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    sign_in(page)
    page.wait_for_url(address)
    expect(page.get_by_label("Follow-up", exact=True)).to_have_value("A long thought")
    expect(page.get_by_label("Comment on line 3 of docs/index.md").and_(page.locator("textarea"))).to_have_value(
        "On this line"
    )
    expect(page.get_by_text("Restored what you typed here.")).to_be_visible()
    page.get_by_role("button", name="Send", exact=True).click()
    page.wait_for_url(f"{service.url}/projects/{docs.project.id}/jobs/{job.id}")
    assert "A long thought" in last_prompt(docs, job)
    assert "On this line" in last_prompt(docs, job)
    expect(page.get_by_label("Follow-up", exact=True)).to_have_value("")
    wait_for_job(docs, job.id)
    page.goto(address)
    expect(page.get_by_label("Follow-up", exact=True)).to_have_value("")
    expect(page.locator("tr.comment")).to_have_count(0)


def test_typed_text_is_discarded_when_another_person_signs_in(page: Page, service: Service) -> None:
    docs = new_project(service)
    address = f"{service.url}/projects/{docs.project.id}/jobs"
    page.goto(address)
    page.get_by_label("What should be done?").fill("My secret plan")
    end_session(page)
    page.get_by_role("button", name="Start job").click()
    sign_in(page, "other@example.org")
    page.wait_for_url(address)
    expect(page.get_by_label("What should be done?")).to_have_value("")
    assert "secret plan" not in page.evaluate("JSON.stringify(sessionStorage)")


def test_signing_out_discards_typed_text(page: Page, service: Service) -> None:
    docs = new_project(service)
    address = f"{service.url}/projects/{docs.project.id}/jobs"
    page.goto(address)
    page.get_by_label("What should be done?").fill("My secret plan")
    page.reload()
    expect(page.get_by_label("What should be done?")).to_have_value("My secret plan")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert "secret plan" not in page.evaluate("JSON.stringify(sessionStorage)")


def test_url_of_a_webhook_is_not_stored_in_the_browser(page: Page, service: Service) -> None:
    docs = new_project(service)
    page.goto(f"{service.url}/projects/{docs.project.id}/webhooks")
    page.get_by_label("URL").fill("https://hooks.example.org/services/secret-part")
    page.get_by_label("Format").select_option("slack")
    page.reload()
    expect(page.get_by_label("Format")).to_have_value("slack")
    expect(page.get_by_label("URL")).to_have_value("")
    assert "secret-part" not in page.evaluate("JSON.stringify(sessionStorage)")


def test_ctrl_enter_starts_a_job_and_the_form_is_empty_afterwards(page: Page, service: Service) -> None:
    docs = new_project(service)
    page.goto(f"{service.url}/projects/{docs.project.id}/jobs")
    page.get_by_label("What should be done?").fill("Use American spelling")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#state .state")).to_have_text("completed")
    page.goto(f"{service.url}/projects/{docs.project.id}/jobs")
    expect(page.get_by_label("What should be done?")).to_have_value("")


def test_saving_one_card_keeps_what_was_typed_in_another(page: Page, service: Service) -> None:
    docs = new_project(service, "Cards")
    page.goto(f"{service.url}/projects/{docs.project.id}/settings")
    forms = page.locator('form[action*="/settings#"]')
    first, second = forms.nth(0), forms.nth(1)
    typed = second.locator("input:not([type=hidden]):not([type=checkbox]):not([type=radio])").first
    typed.fill("typed-elsewhere")
    first.get_by_role("button", name="Save").click()
    expect(first.locator("xpath=..").get_by_text("Saved.")).to_be_visible()
    expect(typed).to_have_value("typed-elsewhere")
    second.get_by_role("button", name="Discard").click()
    assert typed.input_value() != "typed-elsewhere"
    page.reload()
    assert typed.input_value() != "typed-elsewhere"


def test_queue_with_fifty_projects_and_long_names_fits_a_phone(page: Page, service: Service) -> None:
    for number in range(47):
        service.another_project(f"Project {number:02}")
    for number, name in enumerate((UNBROKEN, HEBREW, CHINESE)):
        project = service.another_project(name).project
        add_open_pull(service, project, f"{name} <b>{'x' * 150}", name, number + 900)
    page.set_viewport_size(PHONE)
    page.goto(f"{service.url}/queue")
    assert page.get_by_label("Project").locator("option").count() >= 50
    expect(page.locator(".jobs").get_by_text(HEBREW).first).to_be_visible()
    assert_fits(page)
    heading = page.locator(".jobs .first a", has_text=HEBREW).first
    assert heading.evaluate("each => getComputedStyle(each).direction") == "rtl"
    page.get_by_label("Project").select_option(label=CHINESE)
    page.get_by_label("Job ID, pull request number, path or text").fill("#902")
    page.keyboard.press("Enter")
    expect(page.locator(".jobs > li")).to_have_count(1)
    assert_fits(page)
    page.get_by_role("link", name="Merged").click()
    expect(page.get_by_text("No jobs match.")).to_be_visible()


@pytest.mark.parametrize("view", ["", "?view=split", "?view=rendered"])
def test_review_page_fits_a_phone_while_a_comment_is_written(page: Page, service: Service, view: str) -> None:
    docs = new_project(service, UNBROKEN)
    run_job(docs)
    page.set_viewport_size(PHONE)
    page.goto(f"{service.url}/projects/{docs.project.id}/pulls/1{view}")
    page.get_by_role("button", name="Comment on line 3 of docs/index.md", exact=True).click()
    page.keyboard.type(f"{CHINESE} {UNBROKEN} {HEBREW}")
    assert_fits(page)


def test_comment_works_without_scripts(browser: Browser, service: Service) -> None:
    docs = new_project(service)
    job = run_job(docs)
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{service.url}/sign-in")
        sign_in(page)
        page.goto(f"{service.url}/projects/{docs.project.id}/pulls/1")
        page.get_by_text("Comment on a line").click()
        page.get_by_label("Line", exact=True).fill("3")
        page.get_by_label("Comment", exact=True).fill("Say hue.")
        page.get_by_role("button", name="Send", exact=True).click()
        page.wait_for_url(f"{service.url}/projects/{docs.project.id}/jobs/{job.id}")
    assert last_prompt(docs, job).startswith("Say hue.\n\nThis is a review comment on docs/index.md, line 3.")
    wait_for_job(docs, job.id)
