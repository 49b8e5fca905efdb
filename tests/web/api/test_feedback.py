"""The feedback lists, over real HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.analytics.date_ranges import parse_day
from copydesk.core.clock import DAY
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

FIRST = parse_day("2026-03-01") * DAY


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("feedback")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture
def site(running: Service) -> Service:
    """A project with five feedback entries, on five days in March."""
    site = running.another_project()
    for number, (path, helpful, comment) in enumerate(
        [
            ("/", True, None),
            ("/", False, "Where is\nthe rest?"),
            ("/a", True, None),
            ("/b", True, "!"),
            ("/", None, "Hm"),
        ]
    ):
        site.desk.feedback.add(site.project.id, path, helpful, comment, FIRST + number * DAY)
    return site


def get_feedback(site: Service, query: str = "", report: str = "feedback", **headers: str) -> httpx.Response:
    return site.http.get(f"/v1/analytics/{site.project.id}/{report}?{query}", headers=headers)


def test_feedback_is_listed_newest_first(site: Service) -> None:
    told = get_feedback(site).json()
    assert (told["nextCursor"], told["hasMore"]) == (None, False)
    assert [remark["path"] for remark in told["feedback"]] == ["/", "/b", "/a", "/", "/"]
    second = told["feedback"][3]
    assert second.pop("id").startswith("fb_")
    assert second == {
        "path": "/",
        "helpful": False,
        "comment": "Where is\nthe rest?",
        "createdAt": "2026-03-02T00:00:00.000Z",
    }


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 6])
def test_the_cursor_leads_through_all_pages(site: Service, limit: int) -> None:
    found, query = [], f"limit={limit}"
    while True:
        told = get_feedback(site, query).json()
        found += told["feedback"]
        assert told["hasMore"] is (told["nextCursor"] is not None)
        if not told["hasMore"]:
            break
        query = f"limit={limit}&cursor={told['nextCursor']}"
    assert found == get_feedback(site).json()["feedback"]


def test_feedback_is_summed_by_page(site: Service) -> None:
    assert get_feedback(site, report="feedback/by-page").json() == {
        "pages": [
            {"path": "/", "helpful": 1, "unhelpful": 1, "comments": 2, "total": 3},
            {"path": "/a", "helpful": 1, "unhelpful": 0, "comments": 0, "total": 1},
            {"path": "/b", "helpful": 1, "unhelpful": 0, "comments": 1, "total": 1},
        ],
        "hasMore": False,
    }
    more = [get_feedback(site, f"limit=1&offset={n}", "feedback/by-page").json()["hasMore"] for n in range(4)]
    assert more == [True, True, False, False]


def test_date_range_works_as_in_the_reports(site: Service) -> None:
    march = "dateFrom=2026-03-02T22:00:00-05:00&dateTo=2026-03-05"
    assert [remark["path"] for remark in get_feedback(site, march).json()["feedback"]] == ["/b", "/a"]
    assert [page["path"] for page in get_feedback(site, march, "feedback/by-page").json()["pages"]] == ["/a", "/b"]
    assert get_feedback(site, "dateFrom=2026-03-05&dateTo=2026-03-02").json()["feedback"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=101", "limit"), ("dateFrom=x", "dateFrom"), ("cursor=x", "cursor")],
)
def test_invalid_parameter_is_refused_with_its_name(site: Service, query: str, field: str) -> None:
    answer = get_feedback(site, query)
    told: dict[str, Any] = answer.json()
    assert (answer.status_code, told["code"], told["details"][0]["field"]) == (400, "invalid_request", field)


def test_feedback_of_another_project_is_not_listed(site: Service, running: Service) -> None:
    other = running.another_project()
    assert get_feedback(other).json() == {"feedback": [], "nextCursor": None, "hasMore": False}
    newest = get_feedback(site).json()["feedback"][0]["id"]
    assert get_feedback(other, f"cursor={newest}").json()["feedback"] == []


def test_unchanged_list_returns_304(site: Service) -> None:
    tag = get_feedback(site).headers["etag"]
    assert get_feedback(site, **{"If-None-Match": tag}).status_code == 304
    site.desk.feedback.add(site.project.id, "/", True, None, FIRST)
    assert get_feedback(site, **{"If-None-Match": tag}).status_code == 200
