"""Every report matches the schema that clients of the original expect, with data and without."""

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema_rs import ValidationError

from tests.support.contract_schemas import SCHEMAS, check_response
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

REPORTS = sorted(SCHEMAS.keys() - {"session", "sessions", "assistant/threads"})
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"
EVENTS = [
    {"path": "/a.md", "visitorId": "ada", "userAgent": "ChatGPT-User/1.0"},
    {"path": "/b", "visitorId": "grace", "userAgent": FIREFOX},
    {"type": "search", "query": "install", "clicked": "/a"},
    {"type": "search", "query": "tea", "results": 0},
    {
        "type": "assistant",
        "threadId": "t",
        "query": "How?",
        "response": "So.",
        "sources": [{"title": "A", "url": "/a"}],
    },
    {
        "type": "assistant",
        "threadId": "t",
        "query": "Why?",
        "response": "",
        "responseType": "clarifying_question",
        "caller": "web",
    },
    {"type": "feedback", "path": "/a", "helpful": True},
    {"type": "feedback", "path": "/a", "comment": "A comment alone."},
    {"type": "feedback", "path": "/a", "code": "x = 1", "lang": "python"},
    {"type": "feedback", "path": "/a", "helpful": False, "contact": "ada@example.org", "source": "agent"},
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("schemas")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as service:
        yield service


@pytest.fixture(scope="module")
def site(running: Service) -> Service:
    """A project with rows in every report."""
    site = running.another_project()
    sent = site.http.post(f"/v1/analytics/{site.project.id}/events", json=EVENTS).json()
    assert sent == {"accepted": len(EVENTS), "duplicates": 0, "dropped": []}
    return site


def get_report(site: Service, report: str) -> Any:
    response = site.http.get(f"/v1/analytics/{site.project.id}/{report}")
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("report", REPORTS)
def test_report_matches_the_schema_of_the_contract(site: Service, running: Service, report: str) -> None:
    body = check_response(report, get_report(site, report))
    rows = next((value for value in body.values() if isinstance(value, list)), [body])
    assert rows, "the schema is checked against rows"
    check_response(report, get_report(running.another_project(), report))


def test_thread_matches_the_schema_of_the_contract(site: Service) -> None:
    assert len(check_response("assistant/threads", get_report(site, "assistant/threads/t"))["messages"]) == 4


def test_views_are_counted_as_the_contract_says(site: Service) -> None:
    visitors = get_report(site, "visitors")
    assert visitors["totals"] == {"human": 1, "ai": 1, "total": 2}
    assert {"path": "/a", "human": 0, "ai": 1, "total": 1} in visitors["visitors"]


def test_schemas_refuse_another_shape() -> None:
    entry = {"id": "fb_1", "path": "/", "comment": None, "createdAt": "2026-03-01T00:00:00.000Z", "status": "pending"}
    rating = {**entry, "source": "contextual", "helpful": None, "contact": None}
    with pytest.raises(ValidationError):
        check_response("feedback", {"feedback": [rating], "nextCursor": None, "hasMore": False})
    check_response("feedback", {"feedback": [{**rating, "helpful": True}], "nextCursor": None, "hasMore": False})
    with pytest.raises(ValidationError):
        check_response("feedback/by-page", {"pages": [], "hasMore": False})
