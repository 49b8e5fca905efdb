"""The API of referrers, sections and single pages."""

from collections.abc import Iterator

import pytest

from tests.support.repositories import make_repository
from tests.support.service import Service, serve
from tests.web.api.test_analytics import get_report, get_report_data, log_views, make_view


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("audience")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture
def site(running: Service) -> Service:
    return running.another_project()


@pytest.mark.deep
def test_referrers_have_kinds_and_totals(site: Service) -> None:
    log_views(
        site, make_view(site, "/", 1)._replace(referrer="www.google.de"),
        make_view(site, "/", 1)._replace(referrer="bing.com"), make_view(site, "/", 2)._replace(referrer="claude.ai"),
        make_view(site, "/", 3)._replace(referrer="=cmd.example.org"), make_view(site, "/", 4),
    )  # fmt: skip
    report = get_report_data(site, "referrers", "limit=2")
    assert report["totals"] == {"ai": 1, "search": 1, "social": 0, "site": 1, "direct": 1}
    assert report["hasMore"]
    assert report["referrers"] == [
        {"referrer": None, "kind": "direct", "visitors": 1, "views": 1},
        {"referrer": "=cmd.example.org", "kind": "site", "visitors": 1, "views": 1},
    ]
    csv = get_report(site, "referrers", accept="text/csv").text
    assert csv.startswith("referrer,kind,visitors,views\r\n,direct,1,1\r\n'=cmd.example.org,site,1,1\r\n")


def test_sections_are_those_below_the_prefix(site: Service) -> None:
    log_views(site, make_view(site, "/ja/a", 1), make_view(site, "/ja/b/c", 2), make_view(site, "/en", 2))
    assert [row["section"] for row in get_report_data(site, "sections")["sections"]] == ["/ja", "/en"]
    below = get_report_data(site, "sections", "prefix=/ja/")
    assert below["totals"] == {"human": 2, "ai": 0, "total": 2, "views": 2}
    assert [row["section"] for row in below["sections"]] == ["/ja/a", "/ja/b"]
    deep = get_report_data(site, "sections", "prefix=/ja&depth=3.0")
    assert deep["sections"] == [{"section": "/ja/b/c", "human": 1, "ai": 0, "total": 1, "views": 1}]
    assert get_report(site, "sections", accept="text/csv").text.startswith("section,human,ai,total,views\r\n/ja,")


@pytest.mark.parametrize("query", ["depth=0", "depth=11", "prefix=ja", "prefix=/a/b&depth=2", "depth=1.5"])
def test_sections_that_cannot_exist_are_refused(site: Service, query: str) -> None:
    assert get_report(site, "sections", query).status_code == 400


@pytest.mark.parametrize(
    ("path", "address"),
    [("/", ""), ("/", "%2F"), ("/guide/start", "guide/start"), ("/é b", "%C3%A9%20b"), ("/a?v=2", "a%3Fv=2")],
)
def test_page_is_found_by_its_path(site: Service, path: str, address: str) -> None:
    log_views(site, make_view(site, path, 1)._replace(referrer="t.co"), make_view(site, "/other", 2))
    report = get_report_data(site, f"pages/{address}")
    assert report["path"] == path
    assert report["totals"] == {"human": 1, "ai": 0, "total": 1, "views": 1}
    assert report["referrers"] == [{"referrer": "t.co", "kind": "social", "visitors": 1, "views": 1}]
    assert [point["total"] for point in report["timeseries"]] == [1]
    assert [row["class"] for row in report["agents"]] == ["human"]


def test_page_never_seen_returns_404(site: Service) -> None:
    log_views(site, make_view(site, "/gone", 1)._replace(status=404))
    for path in ("gone", "never"):
        answer = get_report(site, f"pages/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "page_not_found")
