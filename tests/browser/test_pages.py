"""Every page of the dashboard in both themes and on a phone: accessible, small, usable without scripts, no errors."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Response

from copydesk.prompts.template import build_template
from copydesk.web.dashboard.auth.cookies import cookie_name
from tests.support.drills import mark_drills
from tests.support.filled_service import FILES, UNBROKEN_NAME, add_unusual_names, fill_service
from tests.support.people import get_or_add_person
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.web.dashboard.auth.test_roles import add_webhook, read_role_table

pytestmark = pytest.mark.deep

PAGES = {
    "projects": "/projects",
    "found projects": "/projects?search=d",
    "new project": "/projects/new",
    "readership": "/projects/{project}/readership",
    "readership of all time": "/projects/{project}/readership?range=all",
    "readership of today": "/projects/{project}/readership?range=today",
    "readership of a week": "/projects/{project}/readership?range=7d&search=un&sort=path",
    "agents": "/projects/{project}/readership/agents",
    "sections": "/projects/{project}/readership/sections?range=all",
    "sections below one": "/projects/{project}/readership/sections?range=all&prefix=/guides",
    "sources": "/projects/{project}/readership/sources?range=all",
    "page detail": "/projects/{project}/readership/page?range=all&path={page}",
    "history": "/projects/{project}/readership/history?range=all",
    "missing pages": "/projects/{project}/readership/missing?range=all",
    "stale pages": "/projects/{project}/readership/stale",
    "feedback": "/projects/{project}/readership/feedback",
    "searches": "/projects/{project}/readership/searches",
    "questions": "/projects/{project}/readership/questions",
    "jobs": "/projects/{project}/jobs",
    "job": "/projects/{project}/jobs/{job}",
    "job, side by side": "/projects/{project}/jobs/{job}?view=split",
    "job, rendered": "/projects/{project}/jobs/{job}?view=rendered",
    "failed job": "/projects/{project}/jobs/{failed}",
    "automations": "/projects/{project}/automations",
    "new automation": "/projects/{project}/automations/new?kind=update_from_code",
    "automation": "/projects/{project}/automations/{automation}",
    "edit automation": "/projects/{project}/automations/{automation}/edit",
    "delete automation": "/projects/{project}/automations/{automation}/delete",
    "pull request": "/projects/{project}/pulls/1",
    "keys": "/projects/{project}/keys",
    "revoke key": "/projects/{project}/keys/{key}/revoke",
    "sharing": "/projects/{project}/sharing",
    "weekly summary": "/projects/{project}/summary",
    "context repositories": "/projects/{project}/context",
    "repository": "/projects/{project}/repository",
    "delete project": "/projects/{project}/delete",
    "settings": "/projects/{project}/settings",
    "audit": "/projects/{project}/audit",
    "start": "/projects/{project}/start?stay=true",
    "prompt templates": "/projects/{project}/prompts",
    "prompt template": "/projects/{project}/prompts/{builtin}",
    "edit prompt template": "/projects/{project}/prompts/{template}/edit",
    "delete prompt template": "/projects/{project}/prompts/{template}/delete",
    "webhooks": "/projects/{project}/webhooks",
    "webhook": "/projects/{project}/webhooks/{webhook}",
    "delivery": "/projects/{project}/webhooks/{webhook}/deliveries/{delivery}",
    "review queue": "/queue",
    "new prompt template": "/projects/{project}/prompts/new?copy=translate-page",
    "people with access": "/projects/{project}/people",
    "people": "/people",
    "projects of a person": "/people/{person}/access",
    "remove person": "/people/{person}/remove",
    "account": "/account",
    "system": "/system",
    "system audit": "/system/audit",
    "not there": "/projects/{project}/jobs/job_0",
}
ANALYTICS_PAGES = tuple(
    name
    for name, path in PAGES.items()
    if "/readership" in path or name in ("projects", "found projects", "start", "sharing", "weekly summary")
)
NO_PAGES = {
    "/": "redirects",
    "/projects/{project_id}": "redirects",
    "/docs/guide/{folder}/{chapter}": "a chapter like the others",
    "/projects/{project_id}/audit.csv": "a download",
    "/projects/{project_id}/readership/{report}.csv": "a download",
    "/system/audit.csv": "a download",
    "/projects/{project_id}/jobs/live": "a part of the page of jobs",
    "/queue/live": "a part of the review queue",
    "/projects/{project_id}/jobs/{job_id}/events": "a stream",
    "/projects/{project_id}/start.json": "data for the start page",
    "/projects/{project_id}/summary/preview": "the mail itself, in which no script runs, so that axe cannot either",
    "/sign-in/oidc": "redirects to the identity provider",
    "/sign-in/oidc/back": "redirects",
}
"""Routes of the dashboard that show no page of their own, and why."""
OUTSIDE = {
    "sign in": "/sign-in",
    "join": "/join/{invitation}",
    "forgot password": "/sign-in/forgot",
    "guide": "/docs/guide",
    "guide chapter": "/docs/guide/{chapter}",
    "guide search": "/docs/guide?search=mail",
}
TELLING = (
    "projects",
    "readership",
    "missing pages",
    "feedback",
    "jobs",
    "job",
    "job, rendered",
    "automations",
    "edit automation",
    "keys",
    "settings",
    "context repositories",
    "delete project",
    "people",
    "people with access",
    "projects of a person",
    "prompt template",
    "new prompt template",
    "not there",
    "sign in",
    "guide chapter",
)
LARGEST = 150_000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("pages")
    with serve(folder / "data", repository=make_repository(folder / "docs.git", FILES)) as running:
        yield running


@pytest.fixture(scope="module")
def places(service: Service) -> dict[str, str]:
    jobs = fill_service(service)
    service.desk.jobs.archive(service.project.id, jobs[1], pull_state="merged")
    service.another_project("Another handbook")
    fields = {"kind": "broken_links", "prompt": "Leave the changelog alone.", "reviewers": ["authors"]}
    automation = service.desk.automations.create(service.project, fields, actor="test")
    service.desk.automations.run_now(service.project, automation.id, actor="Ada")
    member = get_or_add_person(service, "none", "member@example.org")
    service.desk.people.project_roles.set_role(member.id, service.project.id, "editor", actor="test")
    template = build_template("own", "Own", "", "Fix {{page}}.")
    webhook_id, delivery_id = add_webhook(service)
    return {
        "chapter": "settings",
        "builtin": "document-endpoint",
        "template": service.desk.prompts.create(service.project.id, template, actor="test").name,
        "webhook": webhook_id,
        "delivery": delivery_id,
        "person": member.id,
        "project": service.project.id,
        "job": jobs[0],
        "failed": jobs[-1],
        "automation": automation.id,
        "page": "/guides/themes",
        "key": next(key.id for key in service.desk.keys.list_for_project(service.project.id) if key.is_active),
        "invitation": service.desk.people.invite("lin@example.org", "viewer", actor="test"),
    }


def new_context(browser: Browser, service: Service, signed_in: bool = True, **options: object) -> BrowserContext:
    context = browser.new_context(**options)  # type: ignore[arg-type]
    if signed_in:
        secret = service.desk.people.sessions.create(get_or_add_person(service), "127.0.0.1", "a test")
        context.add_cookies([{"name": cookie_name(service.desk.settings), "value": secret, "url": service.url}])
    return context


class WatchedPage:
    """A page, with its requests and its errors."""

    def __init__(self, page: Page) -> None:
        self.page, self.faults, self.answers = page, list[str](), list[Response]()
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda said: self.faults.append(said.text) if said.type == "error" else None)
        page.on("response", lambda answer: self.answers.append(answer))

    def count_transferred_bytes(self) -> int:
        return sum(
            sizes["responseBodySize"] + sizes["responseHeadersSize"]
            for sizes in (
                answer.request.sizes() for answer in self.answers if "event-stream" not in str(answer.headers)
            )
        )


def test_every_page_of_the_dashboard_is_opened_in_the_browser() -> None:
    """The list of roles has every route of the dashboard, which another test holds."""
    routes = [path for method, path, _ in read_role_table() if method == "GET"]
    opened = [path.partition("?")[0] for path in (*PAGES.values(), *OUTSIDE.values())]
    unopened = [route for route in routes if not any(matches_route(route, path) for path in opened)]
    assert sorted(unopened) == sorted(NO_PAGES)


def matches_route(route: str, path: str) -> bool:
    """Returns whether a path of the tests, with places to fill in, is one of the route."""
    pattern = re.sub(r"\\{\w+\\}", r"(?:\\{\\w+\\}|\\d+)", re.escape(route))
    return re.fullmatch(pattern, path) is not None


def find_accessibility_problems(page: Page, **options: object) -> list[str]:
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("name", mark_drills([*PAGES, *OUTSIDE], default=TELLING))
def test_page_is_accessible_small_and_logs_no_errors(
    browser: Browser, service: Service, places: dict[str, str], name: str
) -> None:
    path = (PAGES | OUTSIDE)[name].format(**places)
    with new_context(browser, service, name in PAGES, color_scheme="light") as context:
        watched = WatchedPage(context.new_page())
        page, answer = watched.page, watched.page.goto(service.url + path, wait_until="load")
        assert answer is not None
        if name == "not there":
            assert answer.status == 404
            watched.faults = [fault for fault in watched.faults if "404" not in fault]
        else:
            assert answer.status == 200
        assert find_accessibility_problems(page) == []
        page.set_viewport_size({"width": 360, "height": 780})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, "it does not fit a phone"
        assert page.locator("h1").count() == 1
        assert watched.faults == []
        assert {urlsplit(each.url).netloc for each in watched.answers} == {urlsplit(service.url).netloc}
        assert watched.count_transferred_bytes() < LARGEST


@pytest.mark.parametrize("name", mark_drills([*PAGES, *OUTSIDE], default=["readership", "job", "keys", "sign in"]))
def test_page_has_enough_contrast_in_dark_mode(
    browser: Browser, service: Service, places: dict[str, str], name: str
) -> None:
    with new_context(browser, service, name in PAGES, color_scheme="dark") as context:
        page = context.new_page()
        page.goto(service.url + (PAGES | OUTSIDE)[name].format(**places))
        assert find_accessibility_problems(page, runOnly=["color-contrast"]) == []


@pytest.mark.parametrize(
    "name", mark_drills([name for name in PAGES if name != "not there"], default=["job", "readership"])
)
def test_page_has_the_same_text_without_scripts(
    browser: Browser, service: Service, places: dict[str, str], name: str
) -> None:
    path = service.url + PAGES[name].format(**places)
    said = []
    for scripts in (True, False):
        with new_context(browser, service, java_script_enabled=scripts) as context:
            page = context.new_page()
            page.goto(path)
            said.append(re.sub(r"\s+", " ", page.locator("h1").inner_text()))
            assert page.locator("main a, main button, main input, main table").count() > 0
    assert said[0] == said[1]


def test_chart_is_usable_by_keyboard(browser: Browser, service: Service, places: dict[str, str]) -> None:
    with new_context(browser, service) as context:
        page = context.new_page()
        page.goto(service.url + PAGES["readership"].format(**places))
        page.locator(".point").first.focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        said = page.locator(".tip").inner_text()
        assert "Human" in said
        assert "AI" in said
        page.keyboard.press("ArrowLeft")
        assert page.locator(".tip").inner_text() != said
        page.keyboard.press("Escape")
        assert page.locator(".tip").is_hidden()


LIST_UNREACHED = """() =>
    [...document.querySelectorAll("main :is(a[href], button, input, select, summary, [tabindex])")]
    .filter((each) => each.tabIndex >= 0 && each.type !== "hidden" && each.checkVisibility() && !each.dataset.reached)
    .filter((each) => each.type !== "radio"
        || ![...document.getElementsByName(each.name)].some((button) => button.dataset.reached))
    .map((each) => each.outerHTML.slice(0, 120))"""
DESCRIBE_FOCUS = """() => {
    const focused = document.activeElement, box = focused.getBoundingClientRect();
    focused.dataset.reached = "yes";
    const style = getComputedStyle(focused), card = focused.closest(".projects .card");
    const shown = style.outlineStyle !== "none" || focused.matches(".point")
        || (card && getComputedStyle(card).outlineStyle !== "none");
    return {inMain: Boolean(focused.closest("main")) && focused.tagName !== "MAIN", shown,
            seen: box.bottom > 0 && box.top < innerHeight, html: focused.outerHTML.slice(0, 120)};
}"""
MAX_TAB_STOPS = 150
PATHS_WITHOUT_DIRECTION = "main .path:not([dir]):not(:has([dir])), main .text:not([dir]):not(pre)"


@pytest.fixture(scope="module")
def unusual_places(service: Service, places: dict[str, str]) -> Iterator[dict[str, str]]:
    name = service.desk.projects.get(service.project.id).name
    add_unusual_names(service)
    yield {**places, "page": f"/{UNBROKEN_NAME}"}
    service.desk.projects.change(service.project.id, {"name": name}, actor="test")


@pytest.mark.parametrize("name", ANALYTICS_PAGES)
def test_analytics_page_fits_a_dark_phone_and_is_reached_by_keyboard(
    browser: Browser, service: Service, unusual_places: dict[str, str], name: str
) -> None:
    """Opens the page with long unbroken names and Arabic text in every list."""
    phone = {"width": 360, "height": 780}
    with new_context(browser, service, color_scheme="dark", viewport=phone) as context:
        watched = WatchedPage(context.new_page())
        page = watched.page
        page.goto(service.url + PAGES[name].format(**unusual_places))
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, "it scrolls sideways"
        assert page.locator("h1").bounding_box()["width"] <= 360  # type: ignore[index]
        assert find_accessibility_problems(page) == []
        assert page.locator(PATHS_WITHOUT_DIRECTION).all_inner_texts() == []
        page.locator("main").focus()
        for _ in range(MAX_TAB_STOPS):
            page.keyboard.press("Tab")
            focus = page.evaluate(DESCRIBE_FOCUS)
            if not focus["inMain"]:
                break
            assert focus["shown"], f"no focus ring: {focus['html']}"
            assert focus["seen"], f"out of view: {focus['html']}"
        assert page.evaluate(LIST_UNREACHED) == []
        assert watched.faults == []


def test_unfinished_day_is_dashed_and_changes_link_to_their_jobs(
    browser: Browser, service: Service, unusual_places: dict[str, str]
) -> None:
    with new_context(browser, service) as context:
        page = context.new_page()
        page.goto(service.url + PAGES["readership"].format(**unusual_places))
        for kind in ("human", "ai"):
            dashes = page.locator(f".series .{kind}.unfinished").evaluate(
                "each => getComputedStyle(each).strokeDasharray"
            )
            assert dashes == "2px, 4px"
        assert page.locator(".point").last.get_attribute("aria-label").count("so far") == 1  # type: ignore[union-attr]
        assert page.locator(".point .change").count() == 1
        page.locator(".changes a").click()
        assert "/jobs/job_" in page.url
