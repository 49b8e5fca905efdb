"""The lists of searches and questions, over real HTTP, in the shape that clients of the original expect."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2 as httpx
import pytest

from copydesk.analytics.date_ranges import parse_time
from copydesk.analytics.interactions.conversations import Caller, NewQuestion, ResponseType, Source
from copydesk.analytics.interactions.searches import NewSearch
from tests.support.contract_schemas import check_response
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

NOON = parse_time("2026-03-01T12:00:00Z")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("searches")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture(scope="module")
def site(running: Service) -> Service:
    """A project with searches and questions."""
    site = running.another_project()
    new = [NewSearch("install", NOON, 3, "/install"), NewSearch("Install", NOON + 1), NewSearch("=1+1", NOON, 0)]
    site.desk.searches.add_all(site.project.id, new)
    sources = [Source("Keys", "https://docs.example.com/keys")]
    questions = [
        NewQuestion("t-1", "How?", "With a key.", NOON, sources, caller=Caller.WEB, response_type=ResponseType.ANSWER),
        NewQuestion("t-1", "Why?", "", NOON + 1, answered=False, category="keys", page_url="/start"),
        NewQuestion("t-2", "Who?", "Ada.", NOON + 2, caller=Caller.API),
    ]
    site.desk.conversations.add_all(site.project.id, questions)
    return site


def get_response(site: Service, report: str, query: str = "", **headers: str) -> httpx.Response:
    return site.http.get(f"/v1/analytics/{site.project.id}/{report}?{query}", headers=headers)


def get_report(site: Service, report: str, query: str = "") -> Any:
    return check_response(report, get_response(site, report, query).json())


def test_searches_are_listed_by_hits(site: Service) -> None:
    assert get_report(site, "searches") == {
        "searches": [
            {
                "searchQuery": "Install",
                "hits": 2,
                "ctr": 50.0,
                "topClickedPage": "/install",
                "lastSearchedAt": "2026-03-01T12:00:00.001Z",
            },
            {
                "searchQuery": "=1+1",
                "hits": 1,
                "ctr": 0.0,
                "topClickedPage": None,
                "lastSearchedAt": "2026-03-01T12:00:00.000Z",
            },
        ],
        "totalSearches": 3,
        "nextCursor": None,
    }
    first = get_report(site, "searches", "limit=1")
    second = get_report(site, "searches", f"limit=1&cursor={first['nextCursor']}")
    assert (second["searches"][0]["searchQuery"], second["totalSearches"], second["nextCursor"]) == ("=1+1", 3, None)


def test_conversations_are_listed_newest_first(site: Service) -> None:
    report = get_report(site, "assistant")
    assert [row["query"] for row in report["conversations"]] == ["Who?", "Why?", "How?"]
    why, how = report["conversations"][1:]
    assert (why["resolutionStatus"], why["queryCategory"], why["pageUrl"]) == ("unanswered", "keys", "/start")
    assert "responseType" not in why
    assert how["responseType"] == "answer"
    assert how["sources"] == [{"title": "Keys", "url": "https://docs.example.com/keys"}]
    first = get_report(site, "assistant", "limit=2")
    assert first["hasMore"] is True
    rest = get_report(site, "assistant", f"limit=2&cursor={first['nextCursor']}")
    assert ([row["query"] for row in rest["conversations"]], rest["hasMore"]) == (["How?"], False)


def test_callers_are_counted(site: Service) -> None:
    assert get_report(site, "assistant/caller-stats") == {"web": 1, "api": 1, "other": 1, "total": 3}


def test_thread_has_each_question_and_its_answer(site: Service) -> None:
    thread = check_response("assistant/threads", get_response(site, "assistant/threads/t-1").json())
    assert (thread["threadId"], thread["createdAt"]) == ("t-1", "2026-03-01T12:00:00.000Z")
    assert [(message["role"], message["content"]) for message in thread["messages"]] == [
        *(("user", "How?"), ("assistant", "With a key.")),
        *(("user", "Why?"), ("assistant", "")),
    ]


def test_thread_ids_may_contain_any_text(site: Service) -> None:
    thread = "C024/1712.5 ü?#%"
    project = site.another_project()
    project.desk.conversations.add_all(project.project.id, [NewQuestion(thread, "How?", "So.", NOON)])
    path = f"assistant/threads/{quote(thread, safe='')}"
    assert get_response(project, path).json()["threadId"] == thread


def test_unknown_thread_and_another_projects_return_404(site: Service, running: Service) -> None:
    for service, thread in ((site, "t-9"), (site, "%00"), (running.another_project(), "t-1")):
        response = get_response(service, f"assistant/threads/{thread}")
        assert (response.status_code, response.json()["code"]) == (404, "thread_not_found")


@pytest.mark.parametrize(
    ("query", "hits", "queries"),
    [
        ("dateTo=2026-03-01T12:00:00.001Z", 2, ["How?"]),
        ("dateFrom=2026-03-01T12:00:00.001Z", 1, ["Who?", "Why?"]),
        ("dateFrom=20260301&dateTo=20260302", 3, ["Who?", "Why?", "How?"]),
        ("dateTo=2026-03-01", 0, []),
        ("dateFrom=2026-03-02&dateTo=2026-03-01", 0, []),
    ],
)
def test_times_count_to_the_millisecond(site: Service, query: str, hits: int, queries: list[str]) -> None:
    assert get_report(site, "searches", query)["totalSearches"] == hits
    assert [row["query"] for row in get_report(site, "assistant", query)["conversations"]] == queries


@pytest.mark.parametrize(
    ("report", "query", "field"),
    [
        ("searches", "limit=101", "limit"),
        ("searches", "cursor=x", "cursor"),
        ("searches", "dateFrom=x", "dateFrom"),
        ("assistant", "limit=1001", "limit"),
        ("assistant", "limit=0", "limit"),
        ("assistant", "cursor=fb_1", "cursor"),
        ("assistant/caller-stats", "dateTo=x", "dateTo"),
    ],
)
def test_invalid_parameter_is_refused_with_its_name(site: Service, report: str, query: str, field: str) -> None:
    response = get_response(site, report, query)
    body = response.json()
    assert (response.status_code, body["code"], body["details"][0]["field"]) == (400, "invalid_request", field)


def test_lists_are_exported_as_csv(site: Service) -> None:
    lines = get_response(site, "searches", Accept="text/csv").text.splitlines()
    assert lines == [
        "searchQuery,hits,ctr,topClickedPage,lastSearchedAt",
        "Install,2,50.0,/install,2026-03-01T12:00:00.001Z",
        "'=1+1,1,0.0,,2026-03-01T12:00:00.000Z",
    ]
    response = get_response(site, "assistant", "limit=1", Accept="text/csv")
    assert response.text.splitlines()[0].startswith("id,timestamp,query,response,responseType,resolutionStatus")
    assert "cursor=" in response.headers["link"]
    assert "Keys https://docs.example.com/keys" in get_response(site, "assistant", Accept="text/csv").text
