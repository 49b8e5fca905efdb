"""The pipeline from an event to a view: which events count."""

from typing import Any

import pytest
from msgspec import convert

from copydesk.analytics.ingest.event_schema import Event
from copydesk.analytics.ingest.pipeline import STAGES, run_pipeline
from copydesk.analytics.ingest.raw_view import RawView, SiteConfig, raw_view_from_event
from copydesk.analytics.ingest.visitor_ids import VisitorHasher
from copydesk.analytics.page_view import Dropped, DropReason, PageView, VisitorClass

NOW = 1_794_700_800_000
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36"
)
HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def run_on_event(site: SiteConfig, purpose: str | None = None, **event: Any) -> PageView | Dropped:
    raw = raw_view_from_event(
        convert({"path": "/a", "userAgent": CHROME, "ip": "203.0.113.9"} | event, Event), site, NOW
    )
    assert isinstance(raw, RawView), raw
    raw.purpose = purpose
    return run_pipeline(raw)


def test_view_stores_no_personal_data(site: SiteConfig) -> None:
    view = run_on_event(
        site,
        url="https://docs.example.com/guide/index.html?session=secret#top",
        referrer="https://search.example.com/?q=private",
        visitorId="ada@example.com",
        eventId="e-1",
        path=None,
    )
    assert isinstance(view, PageView)
    assert (view.project, view.path, view.at, view.status) == ("prj_1", "/guide", NOW, 200)
    assert (view.kind, view.agent, view.rule, view.agent_table_version) == (
        VisitorClass.HUMAN,
        "Browser",
        "browser",
        site.classifier.version,
    )
    assert (view.host, view.referrer) == ("docs.example.com", "search.example.com")
    assert view.event == site.hasher.hash_event("e-1")
    assert not any(secret in repr(view) for secret in ("203.0.113", "ada", "secret", "private", "Chrome"))


@pytest.mark.parametrize("status", [200, 203, 206, 299, 304])
def test_a_successful_get_of_a_page_counts(status: int, site: SiteConfig) -> None:
    assert isinstance(run_on_event(site, status=status, accept=HTML), PageView)


@pytest.mark.parametrize("status", [404, 410])
def test_request_for_a_missing_page_is_kept_with_its_status(status: int, site: SiteConfig) -> None:
    view = run_on_event(site, path="/old/guide.html?x=1", status=status, accept=HTML)
    assert isinstance(view, PageView)
    assert (view.path, view.status, view.is_missing, view.kind) == ("/old/guide.html", status, True, "human")


@pytest.mark.parametrize(
    ("url", "referrer", "stored"),
    [
        ("https://docs.example.com/gone", "https://docs.example.com/guide/?q=secret", "/guide"),
        ("https://docs.example.com/gone", "https://docs.example.com/gone", ""),
        ("https://docs.example.com/gone", "https://example.org/private?q=1", "example.org"),
        ("https://docs.example.com/gone", "https://docs.example.com/logo.svg", "docs.example.com"),
        ("/gone", "https://docs.example.com/guide", "docs.example.com"),
        ("/gone", None, ""),
    ],
)
def test_missing_page_stores_the_page_with_the_broken_link(
    url: str, referrer: str | None, stored: str, site: SiteConfig
) -> None:
    view = run_on_event(site, url=url, referrer=referrer, status=404)
    assert isinstance(view, PageView)
    assert view.referrer == stored


@pytest.mark.parametrize(
    "path",
    ["/wp-login.php", "/blog/wp-admin/setup", "/.git/config", "/a/.env.local/x", "/xmlrpc.php", "/cgi-bin/luci",
     "/PhpMyAdmin/", "/vendor/phpunit/x.php"],
)  # fmt: skip
def test_missing_path_of_scanners_is_dropped_and_a_page_of_that_name_counts(path: str, site: SiteConfig) -> None:
    dropped = run_on_event(site, path=path, status=404)
    assert isinstance(dropped, Dropped)
    assert dropped.reason in (DropReason.SCAN, DropReason.NOT_A_PAGE)
    assert run_on_event(site, path="/wp-login.php", status=404) == Dropped(DropReason.SCAN)
    assert isinstance(run_on_event(site, path="/wp-login.php"), PageView)
    assert isinstance(run_on_event(site, path="/guides/phpmyadmin", status=404), PageView)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"method": "HEAD"}, DropReason.NOT_GET),
        ({"path": "/logo.svg"}, DropReason.NOT_A_PAGE),
        ({"accept": "image/avif,image/*"}, DropReason.NOT_A_PAGE),
        ({"purpose": "prefetch"}, DropReason.PREFETCH),
    ],
)
def test_missing_pages_follow_the_rules_of_views(event: dict[str, Any], reason: DropReason, site: SiteConfig) -> None:
    assert run_on_event(site, **event, status=404) == Dropped(reason)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"method": "HEAD"}, DropReason.NOT_GET),
        ({"method": "POST"}, DropReason.NOT_GET),
        ({"status": 301}, DropReason.NOT_SUCCESSFUL),
        ({"status": 302}, DropReason.NOT_SUCCESSFUL),
        ({"status": 403}, DropReason.NOT_SUCCESSFUL),
        ({"status": 500}, DropReason.NOT_SUCCESSFUL),
        ({"status": 101}, DropReason.NOT_SUCCESSFUL),
        ({"purpose": "prefetch"}, DropReason.PREFETCH),
        ({"purpose": "prefetch;prerender"}, DropReason.PREFETCH),
        ({"accept": "image/avif,image/webp"}, DropReason.NOT_A_PAGE),
        ({"accept": "application/json"}, DropReason.NOT_A_PAGE),
        ({"accept": "text/x-component"}, DropReason.NOT_A_PAGE),
        ({"path": "/app.js"}, DropReason.NOT_A_PAGE),
        ({"path": "/a%00"}, DropReason.PATH_NOT_TEXT),
    ],
)
def test_dropped_request_has_a_reason(event: dict[str, Any], reason: DropReason, site: SiteConfig) -> None:
    assert run_on_event(site, **event) == Dropped(reason)


def test_markdown_version_counts_as_its_page(site: SiteConfig) -> None:
    twin = run_on_event(site, path="/a.md", userAgent="curl/8.7.1")
    asked = run_on_event(site, path="/a", userAgent="curl/8.7.1", accept="text/markdown")
    assert isinstance(twin, PageView)
    assert isinstance(asked, PageView)
    assert (twin.path, twin.kind) == (asked.path, asked.kind) == ("/a", VisitorClass.ASSISTANT)


def test_llms_txt_counts_as_an_ai_view(site: SiteConfig) -> None:
    view = run_on_event(site, path="/llms.txt")
    assert isinstance(view, PageView)
    assert (view.path, view.kind) == ("/llms.txt", VisitorClass.ASSISTANT)


def test_visitor_is_the_same_from_beacon_and_server(site: SiteConfig) -> None:
    by_server, again = run_on_event(site, path="/a"), run_on_event(site, path="/b", ip="::ffff:203.0.113.9")
    assert isinstance(by_server, PageView)
    assert isinstance(again, PageView)
    assert by_server.visitor == again.visitor is not None


def test_view_without_id_and_address_has_no_visitor(site: SiteConfig) -> None:
    view = run_on_event(site, ip=None)
    assert isinstance(view, PageView)
    assert view.visitor is None


def test_base_path_and_query_parameters_of_the_project_apply(site: SiteConfig) -> None:
    docs = SiteConfig(
        "prj_1", site.classifier, VisitorHasher("prj_1", b"x"), base_path="/docs", kept_params=frozenset({"v"})
    )
    inside, outside = run_on_event(docs, path="/docs/a?v=2&x=3"), run_on_event(docs, path="/blog")
    assert isinstance(inside, PageView)
    assert inside.path == "/a?v=2"
    assert outside == Dropped(DropReason.OUTSIDE_BASE)


def test_pipeline_has_the_documented_stages() -> None:
    assert [stage.__name__ for stage in STAGES] == [
        "drop_non_pages",
        "normalize_path",
        "classify_and_identify",
        "build_view",
    ]
