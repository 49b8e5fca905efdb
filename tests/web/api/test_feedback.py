"""The feedback lists, over real HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.analytics.date_ranges import parse_day
from copydesk.analytics.interactions.feedback import FeedbackDetails, FeedbackSource
from copydesk.core.clock import DAY
from tests.support.contract_schemas import check_response
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
    check_response("feedback", told)
    second = told["feedback"][3]
    assert second.pop("id").startswith("fb_")
    assert second == {
        "path": "/",
        "helpful": False,
        "rated": True,
        "comment": "Where is\nthe rest?",
        "contact": None,
        "source": "contextual",
        "status": "pending",
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
        "feedback": [
            {"path": "/", "thumbsUp": 1, "thumbsDown": 1, "code": 0, "total": 3},
            {"path": "/a", "thumbsUp": 1, "thumbsDown": 0, "code": 0, "total": 1},
            {"path": "/b", "thumbsUp": 1, "thumbsDown": 0, "code": 0, "total": 1},
        ],
        "hasMore": False,
    }
    more = [get_feedback(site, f"limit=1&offset={n}", "feedback/by-page").json()["hasMore"] for n in range(4)]
    assert more == [True, True, False, False]


def test_date_range_works_as_in_the_reports(site: Service) -> None:
    march = "dateFrom=2026-03-02T19:00:00-05:00&dateTo=2026-03-05"
    assert [remark["path"] for remark in get_feedback(site, march).json()["feedback"]] == ["/b", "/a"]
    assert [page["path"] for page in get_feedback(site, march, "feedback/by-page").json()["feedback"]] == ["/a", "/b"]
    assert get_feedback(site, "dateFrom=2026-03-05&dateTo=2026-03-02").json()["feedback"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(("limit=0", "limit"), ("limit=101", "limit"), ("dateFrom=x", "dateFrom"), ("cursor=x", "cursor")),
        *(("source=thumbs", "source"), ("status=open", "status"), ("status=pending,open", "status")),
    ],
)
def test_invalid_parameter_is_refused_with_its_name(site: Service, query: str, field: str) -> None:
    answer = get_feedback(site, query)
    told: dict[str, Any] = answer.json()
    assert (answer.status_code, told["code"], told["details"][0]["field"]) == (400, "invalid_request", field)


def test_feedback_of_another_project_is_not_listed(site: Service, running: Service) -> None:
    other = running.another_project()
    assert get_feedback(other).json() == {"feedback": [], "nextCursor": None, "hasMore": False}
    cursor = get_feedback(site, "limit=1").json()["nextCursor"]
    assert get_feedback(other, f"cursor={cursor}").json()["feedback"] == []


def test_unchanged_list_returns_304(site: Service) -> None:
    tag = get_feedback(site).headers["etag"]
    assert get_feedback(site, **{"If-None-Match": tag}).status_code == 304
    site.desk.feedback.add(site.project.id, "/", True, None, FIRST)
    assert get_feedback(site, **{"If-None-Match": tag}).status_code == 200


@pytest.fixture
def varied(site: Service) -> Service:
    """A project with feedback of every source."""
    snippet = FeedbackDetails(code="print(1)", filename="a.py", lang="python")
    site.desk.feedback.add(site.project.id, "/code", None, "=Wrong", FIRST, snippet)
    agent = FeedbackDetails(source=FeedbackSource.AGENT, contact="agent@example.org")
    site.desk.feedback.add(site.project.id, "/agent", False, "Stale.", FIRST, agent)
    return site


def test_every_kind_of_entry_has_the_fields_of_the_contract(varied: Service) -> None:
    entries = {row["path"]: row for row in check_response("feedback", get_feedback(varied).json())["feedback"]}
    assert entries["/code"]["source"] == "code_snippet"
    assert (entries["/code"]["code"], entries["/code"]["filename"], entries["/code"]["lang"]) == (
        *("print(1)", "a.py"),
        "python",
    )
    assert "helpful" not in entries["/code"]
    assert (entries["/agent"]["source"], entries["/agent"]["contact"]) == ("agent", "agent@example.org")
    by_page = check_response("feedback/by-page", get_feedback(varied, report="feedback/by-page").json())
    assert {"path": "/code", "thumbsUp": 0, "thumbsDown": 0, "code": 1, "total": 1} in by_page["feedback"]


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("source=agent", ["/agent"]),
        ("source=code_snippet", ["/code"]),
        ("source=thumbs_only", ["/a", "/"]),
        ("status=resolved", []),
        ("status=pending,resolved&source=agent", ["/agent"]),
        ("source=&status=", ["/", "/b", "/a", "/", "/agent", "/code", "/"]),
    ],
)
def test_entries_are_filtered_by_source_and_status(varied: Service, query: str, paths: list[str]) -> None:
    assert [row["path"] for row in get_feedback(varied, query).json()["feedback"]] == paths
    pages = get_feedback(varied, query, "feedback/by-page").json()["feedback"]
    assert {row["path"] for row in pages} >= set(paths)


def test_by_page_returns_ten_pages_by_default(site: Service) -> None:
    for number in range(12):
        site.desk.feedback.add(site.project.id, f"/page/{number}", True, None, FIRST)
    told = get_feedback(site, report="feedback/by-page").json()
    assert (len(told["feedback"]), told["hasMore"]) == (10, True)


def test_status_is_changed(varied: Service) -> None:
    entry = get_feedback(varied, "source=agent").json()["feedback"][0]
    at = f"/v1/analytics/{varied.project.id}/feedback/{entry['id']}"
    answer = varied.http.patch(at, json={"status": "in_progress", "assignee": "ada"})
    assert (answer.status_code, answer.json()) == (200, {**entry, "status": "in_progress"})
    assert get_feedback(varied, "status=in_progress,resolved").json()["feedback"] == [answer.json()]


@pytest.mark.parametrize("body", [{}, {"status": "open"}, {"status": None}, {"status": 1}, []])
def test_invalid_status_is_refused(varied: Service, body: Any) -> None:
    entry = get_feedback(varied).json()["feedback"][0]
    answer = varied.http.patch(f"/v1/analytics/{varied.project.id}/feedback/{entry['id']}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_status_of_an_unknown_entry_or_another_projects_returns_404(varied: Service, running: Service) -> None:
    entry = get_feedback(varied).json()["feedback"][0]
    other = running.another_project()
    for entry_id in (entry["id"], "fb_00000000000000000000000000", "x"):
        at = f"/v1/analytics/{other.project.id}/feedback/{entry_id}"
        answer = other.http.patch(at, json={"status": "resolved"})
        assert (answer.status_code, answer.json()["code"]) == (404, "feedback_not_found")
    assert get_feedback(varied).json()["feedback"][0] == entry


def test_feedback_is_exported_as_csv(varied: Service) -> None:
    answer = get_feedback(varied, "source=code_snippet", Accept="text/csv")
    assert answer.headers["content-type"].startswith("text/csv")
    head, row = answer.text.splitlines()
    assert head == "id,createdAt,path,source,status,helpful,rated,comment,contact,code,filename,lang"
    assert row.endswith("/code,code_snippet,pending,,,'=Wrong,,print(1),a.py,python")
    answer = get_feedback(varied, "limit=1&source=thumbs_only", Accept="text/csv")
    assert answer.headers["link"].startswith("<?limit=1&source=thumbs_only&cursor=")
    by_page = get_feedback(varied, "limit=1", "feedback/by-page", Accept="text/csv")
    assert by_page.text.splitlines() == ["path,thumbsUp,thumbsDown,code,total", "/,1,1,0,3"]
