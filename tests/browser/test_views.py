"""The beacon in a real browser: which visits count as views, and which data is sent."""

import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.chromium import FLAGS
from tests.browser.conftest import host_resolver_rules
from tests.browser.site import DOCS, ROUTER, BeaconSite

pytestmark = pytest.mark.deep

WITHOUT = "Object.defineProperty({}, '{}', {{value: undefined}})"
SPECULATION = '<script type="speculationrules">{"prerender": [{"urls": ["/guide"], "eagerness": "immediate"}]}</script>'


def follow_link(page: Page, link: str) -> None:
    with page.expect_event("load"):
        page.click(f"text={link}")


def test_every_page_counts_once_with_its_referrer(page: Page, site: BeaconSite) -> None:
    page.goto(f"{DOCS}/")
    follow_link(page, "Guide")
    follow_link(page, "Setup")
    assert site.pages(3) == ["/", "/guide", "/guide/setup?from=nav"]
    assert site.referrers == {"/": "", "/guide": "/", "/guide/setup?from=nav": "/guide"}
    assert len({arrival.body["e"] for arrival in site.arrivals}) == 3


def test_view_is_sent_as_plain_text_without_cookie_and_preflight(page: Page, site: BeaconSite) -> None:
    page.goto(f"{DOCS}/")
    site.pages(1)
    follow_link(page, "Guide")
    site.pages(2)
    sent = site.arrivals[1]
    assert sent.path == "/v1/collect/site_1"
    assert sent.headers["content-type"] == "text/plain;charset=UTF-8"
    assert sent.headers["origin"] == DOCS
    assert sent.headers["cookie"] is None
    assert set(sent.body) == {"u", "r", "e"}
    assert site.preflight_requests == 0


def test_views_are_sent_to_the_origin_of_the_script(page: Page, site: BeaconSite) -> None:
    site.collector = f"{DOCS}/desk"
    page.goto(f"{DOCS}/guide")
    assert site.pages(1) == ["/guide"]
    assert site.arrivals[0].path == "/desk/v1/collect/site_1"


def test_the_beacon_leaves_nothing_in_the_browser(page: Page, site: BeaconSite) -> None:
    page.goto(f"{DOCS}/")
    site.pages(1)
    page.evaluate("document.cookie = 'unwanted=; max-age=0'")  # a cookie of the site itself
    assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == ["", 0, 0]


@pytest.mark.parametrize("without", ["nothing", "navigation"])
def test_single_page_application_counts_each_page_once(page: Page, site: BeaconSite, without: str) -> None:
    page.add_init_script(WITHOUT.format("window", without))
    site.head = ROUTER
    page.goto(f"{DOCS}/")
    page.click("text=Guide")
    page.click("text=Setup")
    page.go_back()
    page.evaluate("history.replaceState({}, '', '/elsewhere')")
    assert site.pages(5) == ["/", "/elsewhere", "/guide", "/guide", "/guide/setup?from=nav"]
    assert site.referrers["/guide/setup?from=nav"] == site.referrers["/elsewhere"] == "/guide"


@pytest.mark.parametrize("without", ["nothing", "navigation"])
def test_history_change_on_the_same_page_is_not_a_view(page: Page, site: BeaconSite, without: str) -> None:
    page.add_init_script(WITHOUT.format("window", without))
    page.goto(f"{DOCS}/guide")
    for change in ("'#part'", "'?tab=2'", "'/guide/'", "'/guide'", "''"):
        page.evaluate(f"history.pushState({{}}, '', {change}); history.replaceState({{}}, '', {change})")
    page.evaluate("location.hash = 'other'")
    assert site.pages(1) == ["/guide"]


def test_data_query_counts_each_query_as_a_page(page: Page, site: BeaconSite) -> None:
    site.options = "data-query"
    page.goto(f"{DOCS}/search?q=a")
    page.evaluate("history.pushState({}, '', '?q=b')")
    assert site.pages(2) == ["/search?q=a", "/search?q=b"]


@pytest.mark.parametrize("without", ["nothing", "navigation"])
def test_data_hash_counts_each_fragment_as_a_page(page: Page, site: BeaconSite, without: str) -> None:
    page.add_init_script(WITHOUT.format("window", without))
    site.options = "data-hash"
    page.goto(f"{DOCS}/docs#/guide")
    page.evaluate("location.hash = '#/guide?id=part'")
    page.evaluate("location.hash = '#!/setup'")
    assert site.pages(2) == ["/docs/guide", "/docs/setup"]


def test_page_restored_from_bfcache_counts_again(page: Page, site: BeaconSite) -> None:
    page.goto(f"{DOCS}/")
    follow_link(page, "Guide")
    page.go_back(wait_until="commit")
    assert site.pages(3) == ["/", "/", "/guide"]


def test_prerendered_page_counts_when_shown(program: str, site: BeaconSite, tmp_path: Path) -> None:
    """Simulates prerendering in the page itself, because Playwright disables it."""
    ahead = "document.prerendering || location.pathname != '/' || setTimeout(function () {location = '/guide'}, 3000)"
    site.head = f"{SPECULATION}<script>{ahead}</script>"
    options = ["--headless", *FLAGS, host_resolver_rules(site), f"--user-data-dir={tmp_path}", f"{DOCS}/"]
    with subprocess.Popen([program, *options], stderr=subprocess.DEVNULL) as browser:
        try:
            assert site.pages(1) == ["/"]
            assert site.prerender_requests == ["/guide"]
            assert site.pages(2) == ["/", "/guide"]
            assert site.arrivals[1].headers["sec-purpose"] is None
        finally:
            browser.terminate()


def test_view_sent_while_leaving_the_page_arrives(page: Page, site: BeaconSite) -> None:
    """Checks `keepalive`, which lets a request outlive the page. On this machine requests are fast even without it."""
    page.add_init_script("fetch = (send => (to, how) => send(to, how, self.keepalive = how.keepalive))(fetch)")
    site.options = "data-manual"
    site.head = "<script>addEventListener('pagehide', function () {copydesk.feedback(true)})</script>"
    page.goto(f"{DOCS}/guide")
    page.evaluate("copydesk.feedback(true)")
    assert page.evaluate("self.keepalive") is True
    page.close(run_before_unload=True)
    assert site.pages(2) == ["/guide", "/guide"]


@pytest.mark.parametrize("wish", ["{value: '1'}", "{value: null}"])
def test_data_do_not_track_attribute_honors_do_not_track(page: Page, site: BeaconSite, wish: str) -> None:
    page.add_init_script(f"Object.defineProperty(navigator, 'doNotTrack', {wish})")
    site.options = "data-do-not-track"
    page.goto(f"{DOCS}/guide")
    counted = [] if "1" in wish else ["/guide"]
    assert site.pages(len(counted)) == counted
    page.evaluate("copydesk.feedback(true)")
    assert site.pages(len(counted) + 1) == [*counted, "/guide"]


def test_global_privacy_control_is_honored_like_do_not_track(page: Page, site: BeaconSite) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'globalPrivacyControl', {value: true})")
    site.options = "data-do-not-track"
    page.goto(f"{DOCS}/")
    assert site.pages(0) == []


def test_script_tag_includes_pages_by_pattern(page: Page, site: BeaconSite) -> None:
    site.options = 'data-include="/guide, /guide/*" data-exclude="*/draft.html"'
    for path in ("/", "/guide", "/guide/a/b", "/guide/draft.html", "/guide/draft-html", "/guided"):
        page.goto(f"{DOCS}{path}")
    assert site.pages(3) == ["/guide", "/guide/a/b", "/guide/draft-html"]


def test_data_manual_counts_only_explicit_calls(page: Page, site: BeaconSite) -> None:
    site.options = "data-manual"
    page.goto(f"{DOCS}/guide")
    page.evaluate("history.pushState({}, '', '/setup')")
    assert site.pages(0) == []
    page.evaluate("copydesk.view()")
    assert site.pages(1) == ["/setup"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_localhost_counts_only_with_data_local(page: Page, site: BeaconSite, host: str) -> None:
    page.goto(f"http://{host}:{site.port}/")
    page.evaluate("copydesk.feedback(false)")
    assert site.pages(0) == []
    site.options = "data-local"
    page.goto(f"http://{host}:{site.port}/")
    assert site.pages(1) == [f"http://{host}:{site.port}/"]


def test_feedback_says_whether_the_page_helped_and_why(page: Page, site: BeaconSite) -> None:
    site.options = 'data-visitor="reader-7"'
    page.goto(f"{DOCS}/guide")
    site.pages(1)
    page.evaluate("copydesk.feedback(false, 'Which “port”?')")
    site.pages(2)
    view, feedback = (arrival.body for arrival in site.arrivals)
    assert feedback | {"e": ""} == {
        "k": "feedback",
        "u": f"{DOCS}/guide",
        "h": False,
        "c": "Which “port”?",
        "v": "reader-7",
        "e": "",
    }
    assert view["v"] == "reader-7"
    assert view["e"] != feedback["e"]


def test_duplicate_script_tag_counts_once(page: Page, site: BeaconSite) -> None:
    site.head = site.tag
    page.goto(f"{DOCS}/")
    assert site.pages(1) == ["/"]


def test_page_whose_csp_blocks_the_beacon_still_works(page: Page, site: BeaconSite) -> None:
    site.policy = "connect-src 'none'"
    page.goto(f"{DOCS}/")
    page.evaluate("copydesk.feedback(true)")
    assert site.pages(0) == []


def test_browser_without_fetch_sends_views(page: Page, site: BeaconSite) -> None:
    page.add_init_script(WITHOUT.format("window", "fetch"))
    page.goto(f"{DOCS}/")
    assert site.pages(1) == ["/"]
    assert site.arrivals[0].headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "missing",
    [[("window", "fetch"), ("navigator", "sendBeacon")], [("document", "currentScript")]],
)
def test_unsupported_browser_shows_the_page_unchanged(
    page: Page, site: BeaconSite, missing: list[tuple[str, str]]
) -> None:
    for owner, name in missing:
        page.add_init_script(WITHOUT.format(owner, name))
    page.goto(f"{DOCS}/")
    page.evaluate("history.pushState({}, '', '/guide')")
    assert site.pages(0) == []


CALL_MISSING = "<script>addEventListener('DOMContentLoaded', function () {copydesk.missing()})</script>"


@pytest.mark.parametrize(("path", "head"), [("/missing", ""), ("/missing", CALL_MISSING), ("/gone", CALL_MISSING)])
def test_missing_page_counts_once_and_is_no_view(page: Page, site: BeaconSite, path: str, head: str) -> None:
    page.goto(f"{DOCS}/guide")
    assert site.pages(1) == ["/guide"]
    site.head = head
    page.evaluate(f"location = '{path}'")
    assert site.pages(2) == sorted([path, "/guide"])
    assert [(arrival.body.get("k"), arrival.body["r"]) for arrival in site.arrivals] == [
        (None, ""),
        ("missing", f"{DOCS}/guide"),
    ]


def test_application_turns_a_view_into_a_missing_page(page: Page, site: BeaconSite) -> None:
    page.goto(f"{DOCS}/")
    assert site.pages(1) == ["/"]
    page.evaluate("history.pushState({}, '', '/gone'); copydesk.missing()")
    page.evaluate("history.pushState({}, '', '/guide')")
    assert site.pages(3) == ["/", "/gone", "/guide"]
    assert {arrival.page: arrival.body.get("k") for arrival in site.arrivals} == {
        "/": None,
        "/gone": "missing",
        "/guide": None,
    }


def test_view_of_a_reader_who_leaves_at_once_is_sent(page: Page, site: BeaconSite) -> None:
    page.goto(f"{DOCS}/guide")
    page.close(run_before_unload=True)
    assert site.pages(1) == ["/guide"]
