"""Badges: one number as SVG or JSON, safe to embed anywhere, and nothing else behind their link."""

import html
from collections.abc import Iterator
from xml.etree import ElementTree

import httpx2 as httpx
import pytest

from copydesk.web.sharing.badge_svg import measure_text, render_badge
from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.web.dashboard.readership.test_pages import ASSISTANT, HOSTILE, TODAY, log_views, make_view

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("badges")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, share_per_address=1_000_000) as service:
        yield service


@pytest.fixture(scope="module")
def site(running: Service) -> Service:
    site = running.another_project(HOSTILE)
    log_views(
        site,
        *(make_view(site, "/a", visitor) for visitor in range(1, 1201)),
        make_view(site, "/b", 1),
        make_view(site, "/a", 5000, kind=ASSISTANT, agent="Reader"),
        make_view(site, "/a", 6000, TODAY - 40),
    )
    return site


def create_badge(site: Service) -> str:
    return f"/share/{site.desk.sharing.links.create(site.project.id, parts=['badge'], actor='test').token}"


def get(site: Service, path: str, **options: object) -> httpx.Response:
    return httpx.get(site.url + path, timeout=60, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("", 1201),
        ("?metric=views", 1202),
        ("?metric=ai", 1),
        ("?days=60", 1202),
        ("?days=1", 0),
        ("?metric=ai&days=2", 0),
    ],
)
def test_badge_shows_the_number_of_the_api(site: Service, query: str, value: int) -> None:
    link = create_badge(site)
    number = get(site, f"{link}/number.json{query}").json()
    report = {"views": "views"}.get(number["metric"], "visitors")
    address = f"/v1/analytics/{site.project.id}/{report}"
    totals = site.http.get(address, params={"dateFrom": number["dateFrom"], "dateTo": number["dateTo"]}).json()[
        "totals"
    ]
    assert number["value"] == value == totals["ai" if number["metric"] == "ai" else "total"]
    picture = ElementTree.fromstring(get(site, f"{link}/badge.svg{query}").text)
    assert [text.text for text in picture.iter(f"{SVG}text")] == [number["label"], f"{value:,}"]


def test_badge_of_a_hostile_project_name_is_plain_text(site: Service) -> None:
    answer = get(site, f"{create_badge(site)}/badge.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    picture = ElementTree.fromstring(answer.text)
    assert {element.tag.removeprefix(SVG) for element in picture.iter()} == {
        "svg",
        "title",
        "rect",
        "path",
        "g",
        "text",
    }
    assert picture.findtext(f"{SVG}title") == f"{HOSTILE}: 1,201 visitors in 30 days"
    assert picture.get("aria-label") == picture.findtext(f"{SVG}title")
    assert picture.get("role") == "img"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_control_characters_do_not_break_the_picture() -> None:
    picture = ElementTree.fromstring(render_badge("a", "1", "x\x00\x08\ud800\uffff]]>&\u202e"))
    assert "]]>&" in (picture.findtext(f"{SVG}title") or "")


def test_badge_is_as_wide_as_its_texts() -> None:
    for label, number in (("visitors, 30 days", "7"), ("AI visitors, 366 days", "123,456,789")):
        picture = ElementTree.fromstring(render_badge(label, number, "t"))
        texts = list(picture.iter(f"{SVG}text"))
        assert [int(text.get("textLength") or 0) for text in texts] == [measure_text(label), measure_text(number)]
        end = int(texts[1].get("x") or 0) + measure_text(number)
        assert end < int(picture.get("width") or 0) <= end + 10
        assert int(texts[0].get("x") or 0) + measure_text(label) < int(texts[1].get("x") or 0)


def test_badge_link_shows_nothing_else(site: Service) -> None:
    link = create_badge(site)
    for path in ("", "/agents", "/missing", "/searches"):
        assert get(site, link + path).status_code == 404, path


def test_only_the_number_can_be_read_by_scripts_of_other_sites(site: Service) -> None:
    link = create_badge(site)
    origin = {"headers": {"Origin": "https://example.org"}}
    assert get(site, f"{link}/number.json", **origin).headers["access-control-allow-origin"] == "*"
    pages = f"/share/{site.desk.sharing.links.create(site.project.id, actor='test').token}"
    for path in (f"{link}/badge.svg", pages, f"{pages}/agents", "/share/wrong/number.json"):
        assert "access-control-allow-origin" not in get(site, path, **origin).headers, path


def test_badge_is_cached_and_revalidated_but_not_after_it_was_revoked(site: Service) -> None:
    created = site.desk.sharing.links.create(site.project.id, parts=["badge"], actor="test")
    for path in (f"/share/{created.token}/badge.svg", f"/share/{created.token}/number.json"):
        first = get(site, path)
        assert first.headers["cache-control"] == "public, max-age=300"
        again = {"headers": {"If-None-Match": first.headers["etag"]}}
        assert get(site, path, **again).status_code == 304
    site.desk.sharing.links.revoke(site.project.id, created.link.id, actor="test")
    for path in (f"/share/{created.token}/badge.svg", f"/share/{created.token}/number.json"):
        answer = get(site, path, **again)
        assert answer.status_code == 404
        assert "max-age" not in answer.headers.get("cache-control", "")


def test_invalid_parameters_are_refused(site: Service) -> None:
    link = create_badge(site)
    for query in ("metric=jobs", "days=0", "days=367", "days=x", "days=1e2", "metric=", html.escape("metric=<svg>")):
        answer = get(site, f"{link}/badge.svg?{query}")
        assert answer.status_code == 400, query
        assert answer.headers["content-type"] == "application/json"
