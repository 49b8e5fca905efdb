"""What is counted, from an event to a view."""

from typing import Any

import pytest
from msgspec import convert

from copydesk.analytics.ingest.event_schema import Event
from copydesk.analytics.ingest.pipeline import STAGES, accept
from copydesk.analytics.ingest.raw_view import Raw, Site, read
from copydesk.analytics.ingest.visitor_ids import Key
from copydesk.analytics.page_view import Class, Dropped, Reason, View

NOW = 1_794_700_800_000
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36"
)
HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def outcome(site: Site, purpose: str | None = None, **event: Any) -> View | Dropped:
    raw = read(convert({"path": "/a", "userAgent": CHROME, "ip": "203.0.113.9"} | event, Event), site, NOW)
    assert isinstance(raw, Raw), raw
    raw.purpose = purpose
    return accept(raw)


def test_a_view_keeps_what_explains_it_and_nothing_that_names_a_person(site: Site) -> None:
    view = outcome(
        site,
        url="https://docs.example.com/guide/index.html?session=secret#top",
        referrer="https://search.example.com/?q=private",
        visitorId="ada@example.com",
        eventId="e-1",
        path=None,
    )
    assert isinstance(view, View)
    assert (view.project, view.path, view.at, view.status) == ("prj_1", "/guide", NOW, 200)
    assert (view.kind, view.agent, view.rule, view.table) == (
        Class.HUMAN,
        "Browser",
        "browser",
        site.classifier.version,
    )
    assert (view.host, view.referrer) == ("docs.example.com", "search.example.com")
    assert view.event == site.key.event("e-1")
    assert not any(secret in repr(view) for secret in ("203.0.113", "ada", "secret", "private", "Chrome"))


@pytest.mark.parametrize("status", [200, 203, 206, 299, 304])
def test_a_successful_get_of_a_page_counts(status: int, site: Site) -> None:
    assert isinstance(outcome(site, status=status, accept=HTML), View)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"method": "HEAD"}, Reason.NOT_GET),
        ({"method": "POST"}, Reason.NOT_GET),
        ({"status": 301}, Reason.NOT_SUCCESSFUL),
        ({"status": 302}, Reason.NOT_SUCCESSFUL),
        ({"status": 404}, Reason.NOT_SUCCESSFUL),
        ({"status": 500}, Reason.NOT_SUCCESSFUL),
        ({"status": 101}, Reason.NOT_SUCCESSFUL),
        ({"purpose": "prefetch"}, Reason.PREFETCH),
        ({"purpose": "prefetch;prerender"}, Reason.PREFETCH),
        ({"accept": "image/avif,image/webp"}, Reason.NOT_A_PAGE),
        ({"accept": "application/json"}, Reason.NOT_A_PAGE),
        ({"accept": "text/x-component"}, Reason.NOT_A_PAGE),
        ({"path": "/app.js"}, Reason.NOT_A_PAGE),
        ({"path": "/a%00"}, Reason.PATH_NOT_TEXT),
    ],
)
def test_what_is_no_view_says_why(event: dict[str, Any], reason: Reason, site: Site) -> None:
    assert outcome(site, **event) == Dropped(reason)


def test_the_markdown_twin_is_a_view_of_its_page(site: Site) -> None:
    twin = outcome(site, path="/a.md", userAgent="curl/8.7.1")
    asked = outcome(site, path="/a", userAgent="curl/8.7.1", accept="text/markdown")
    assert isinstance(twin, View)
    assert isinstance(asked, View)
    assert (twin.path, twin.kind) == (asked.path, asked.kind) == ("/a", Class.ASSISTANT)


def test_llms_txt_is_an_ai_view_of_itself(site: Site) -> None:
    view = outcome(site, path="/llms.txt")
    assert isinstance(view, View)
    assert (view.path, view.kind) == ("/llms.txt", Class.ASSISTANT)


def test_a_visitor_is_the_same_by_beacon_and_by_server(site: Site) -> None:
    by_server, again = outcome(site, path="/a"), outcome(site, path="/b", ip="::ffff:203.0.113.9")
    assert isinstance(by_server, View)
    assert isinstance(again, View)
    assert by_server.visitor == again.visitor is not None


def test_without_id_and_address_a_view_is_nobodys(site: Site) -> None:
    view = outcome(site, ip=None)
    assert isinstance(view, View)
    assert view.visitor is None


def test_a_projects_base_and_parameters_are_its_own(site: Site) -> None:
    docs = Site("prj_1", site.classifier, Key("prj_1", b"x"), base="/docs", keep=frozenset({"v"}))
    inside, outside = outcome(docs, path="/docs/a?v=2&x=3"), outcome(docs, path="/blog")
    assert isinstance(inside, View)
    assert inside.path == "/a?v=2"
    assert outside == Dropped(Reason.OUTSIDE_BASE)


def test_the_stages_are_those_of_the_flow() -> None:
    assert [stage.__name__ for stage in STAGES] == ["only_pages", "clean_path", "recognise", "kept"]
