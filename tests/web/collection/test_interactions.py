"""Searches, questions and feedback: from a project's server as events by type, and from the beacon."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.analytics.date_ranges import parse_time
from copydesk.analytics.ingest.visitor_ids import Rotation, VisitorHasher
from copydesk.analytics.interactions.conversations import NewQuestion
from copydesk.analytics.interactions.searches import NewSearch
from copydesk.core.clock import now
from copydesk.core.errors import ProjectNotFound
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

DOCS = "https://docs.example.com"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"
QUESTION = {"type": "assistant", "threadId": "t-1", "query": "How do I sign in?", "response": "With a key."}
NO_LIMIT: dict[str, Any] = dict.fromkeys(
    ("collect_per_minute", "collect_per_address", "feedback_per_address"), 1_000_000
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("interactions")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, **NO_LIMIT) as running:
        yield running


@pytest.fixture
def site(service: Service) -> Service:
    return service.another_project()


def send_events(site: Service, *events: Any) -> dict[str, Any]:
    response = site.http.post(f"/v1/analytics/{site.project.id}/events", json=list(events))
    assert response.status_code == 202, response.text
    result: dict[str, Any] = response.json()
    return result


def send_beacon(site: Service, body: dict[str, Any], **headers: str) -> httpx.Response:
    sent = {"User-Agent": FIREFOX, "Content-Type": "text/plain", "Origin": DOCS, **headers}
    url = f"{site.url}/v1/collect/{site.project.site_id}"
    return httpx.post(url, content=json.dumps(body), headers=sent, timeout=30)


def get_report(site: Service, report: str, **params: str) -> Any:
    response = site.http.get(f"/v1/analytics/{site.project.id}/{report}", params=params)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.deep
def test_views_and_interactions_are_sent_together(site: Service) -> None:
    sent = send_events(
        site,
        {"path": "/a", "visitorId": "ada"},
        {"type": "view", "path": "/b", "visitorId": "ada"},
        {"type": "search", "query": "install", "results": 3, "unknown": 1},
        QUESTION,
        {"type": "feedback", "url": f"{DOCS}/guide/", "helpful": False, "comment": "Stale.", "source": "agent"},
    )
    assert sent == {"accepted": 5, "duplicates": 0, "dropped": []}
    assert get_report(site, "views")["totals"]["total"] == 2
    assert get_report(site, "searches")["searches"][0]["searchQuery"] == "install"
    assert get_report(site, "assistant")["conversations"][0]["query"] == "How do I sign in?"
    [entry] = get_report(site, "feedback")["feedback"]
    assert (entry["path"], entry["source"], entry["helpful"]) == ("/guide", "agent", False)


@pytest.mark.deep
def test_lines_carry_interactions_too(site: Service) -> None:
    lines = "\n".join(json.dumps(event) for event in ({"path": "/a"}, QUESTION, {"type": "search", "query": "a"}))
    url = f"/v1/analytics/{site.project.id}/events"
    response = site.http.post(url, content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert response.json() == {"accepted": 3, "duplicates": 0, "dropped": []}


def test_repeated_events_are_counted_once(site: Service) -> None:
    events = [
        {"path": "/a", "eventId": "1"},
        {"type": "search", "query": "a", "eventId": "2"},
        {**QUESTION, "eventId": "3"},
        {"type": "feedback", "path": "/a", "helpful": True, "eventId": "4"},
    ]
    assert send_events(site, *events) == {"accepted": 4, "duplicates": 0, "dropped": []}
    assert send_events(site, *events) == {"accepted": 0, "duplicates": 4, "dropped": []}
    assert get_report(site, "searches")["totalSearches"] == 1


@pytest.mark.parametrize(
    ("event", "reason", "field"),
    [
        ({"type": "sale"}, "bad_field", "type"),
        ({"type": 7}, "bad_field", "type"),
        ({"type": "search"}, "bad_field", "query"),
        ({"type": "search", "query": " \x00"}, "bad_field", "query"),
        ({"type": "search", "query": "a" * 501}, "bad_field", "query"),
        ({"type": "search", "query": "a", "results": -1}, "bad_field", "results"),
        ({"type": "search", "query": "a", "timestamp": "soon"}, "bad_timestamp", "timestamp"),
        ({"type": "search", "query": "a", "clicked": "ftp://a/b"}, "not_http", "clicked"),
        ({"type": "assistant", "query": "a", "response": "b"}, "bad_field", "threadId"),
        ({**QUESTION, "query": ""}, "bad_field", "query"),
        ({**QUESTION, "sources": [{"title": 1}]}, "bad_field", "sources"),
        ({"type": "feedback", "helpful": True}, "no_path", None),
        ({"type": "feedback", "path": "/a"}, "bad_field", "helpful"),
        ({"type": "feedback", "path": "/a", "helpful": "yes"}, "bad_field", "helpful"),
    ],
)
def test_invalid_interaction_is_dropped_with_its_reason(
    site: Service, event: dict[str, Any], reason: str, field: str | None
) -> None:
    sent = send_events(site, event, {"type": "search", "query": "valid"})
    assert sent["accepted"] == 1
    [dropped] = sent["dropped"]
    assert (dropped["index"], dropped["reason"], dropped.get("field")) == (0, reason, field)


def test_question_defaults_follow_from_the_answer(site: Service) -> None:
    send_events(
        site,
        {**QUESTION, "timestamp": "2026-03-01T09:00:00Z"},
        {**QUESTION, "response": "", "caller": "web", "timestamp": "2026-03-01T09:01:00Z"},
        {**QUESTION, "answered": False, "caller": "api", "timestamp": "2026-03-01T09:02:00Z"},
    )
    rows = get_report(site, "assistant")["conversations"]
    assert [row["resolutionStatus"] for row in rows] == ["unanswered", "unanswered", "answered"]
    assert rows[0]["timestamp"] == "2026-03-01T09:02:00.000Z"
    assert get_report(site, "assistant/caller-stats") == {"web": 1, "api": 1, "other": 1, "total": 3}


def test_beacon_reports_a_search_and_its_click(site: Service) -> None:
    search = {"k": "search", "u": f"{DOCS}/guide", "q": "Sign in", "n": 2}
    assert send_beacon(site, search).json() == {"accepted": 1, "duplicates": 0, "dropped": []}
    assert send_beacon(site, {**search, "t": f"{DOCS}/keys.html?x=1", "e": "1"}).json()["accepted"] == 1
    [row] = get_report(site, "searches")["searches"]
    assert (row["searchQuery"], row["hits"], row["ctr"], row["topClickedPage"]) == ("Sign in", 1, 100.0, "/keys.html")
    assert send_beacon(site, {**search, "t": f"{DOCS}/keys.html", "e": "1"}).json()["duplicates"] == 1


def test_search_of_a_reader_who_refuses_tracking_is_dropped(site: Service) -> None:
    site.desk.projects.change(site.project.id, {"do_not_track": "true"}, actor="test")
    search = {"k": "search", "u": f"{DOCS}/guide", "q": "Sign in"}
    assert send_beacon(site, search, DNT="1").json()["dropped"][0]["reason"] == "do_not_track"
    assert send_beacon(site, search).json()["accepted"] == 1


@pytest.mark.parametrize(
    ("body", "source"),
    [
        ({"h": True}, "thumbs_only"),
        ({"c": "A comment alone."}, "contextual"),
        ({"h": None, "c": "A comment alone."}, "contextual"),
        ({"h": False, "c": "Old.", "contact": "ada@example.org"}, "contextual"),
        ({"c": "Wrong.", "code": "x = 1", "filename": "a.py", "lang": "python"}, "code_snippet"),
        ({"h": False, "c": "Stale.", "agent": True}, "agent"),
    ],
)
def test_beacon_accepts_every_kind_of_feedback(site: Service, body: dict[str, Any], source: str) -> None:
    sent = send_beacon(site, {"k": "feedback", "u": f"{DOCS}/guide", **body})
    assert (sent.status_code, sent.json()["accepted"]) == (202, 1)
    [entry] = get_report(site, "feedback")["feedback"]
    assert entry["source"] == source
    for name in ("contact", "code", "filename", "lang"):
        assert entry.get(name) == body.get(name)


def test_visitors_are_stored_as_the_same_hash_as_for_views(site: Service) -> None:
    at = "2026-03-01T09:00:00Z"
    send_events(site, {"type": "search", "query": "a", "visitorId": "ada", "timestamp": at})
    secret = bytes.fromhex(site.desk.secrets.get_or_create(site.project.id, "visitor_key"))
    hasher = VisitorHasher(site.project.id, secret, Rotation.LASTING)
    visitor = hasher.hash_visitor(parse_time(at), "ada", None, None)
    assert visitor is not None
    assert site.desk.searches.delete_visitors(site.project.id, {visitor}) == 1


@pytest.mark.deep
def test_full_project_refuses_searches_with_429(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("full")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, search_entries=2) as site:
        search = {"k": "search", "u": f"{DOCS}/guide", "q": "a"}
        statuses = [send_beacon(site, {**search, "v": str(number)}).status_code for number in range(3)]
        assert statuses == [202, 202, 429]
        assert send_beacon(site, search).json()["code"] == "searches_full"
        assert "COPYDESK_SEARCH_ENTRIES" in send_beacon(site, search).json()["error"]
        assert get_report(site, "searches")["totalSearches"] == 2
        sent = send_events(site, {"type": "search", "query": "a"}, {"path": "/a"}, QUESTION)
        assert (sent["accepted"], sent["duplicates"]) == (2, 0), "what is within the limits is stored"
        assert [(drop["index"], drop["reason"]) for drop in sent["dropped"]] == [(0, "limit_reached")]
        assert site.desk.delete_interactions(site.project.id) == 3
        assert get_report(site, "searches")["totalSearches"] == len(get_report(site, "assistant")["conversations"]) == 0
        assert send_events(site, {"type": "search", "query": "a"})["accepted"] == 1, "deleting frees the quota"


def test_deleting_a_project_deletes_its_interactions(site: Service) -> None:
    other = site.another_project()
    events = {"type": "search", "query": "a"}, QUESTION, {"type": "feedback", "path": "/a", "helpful": True}
    for service in (site, other):
        assert send_events(service, *events)["accepted"] == 3
    assert site.desk.delete_project(site.project, actor="test")
    assert site.desk.delete_interactions(site.project.id) == 0, "nothing is left"
    assert site.desk.delete_interactions(other.project.id) == 3
    with pytest.raises(ProjectNotFound):
        site.desk.searches.add_all(site.project.id, [NewSearch("a", now())])
    with pytest.raises(ProjectNotFound):
        site.desk.conversations.add_all(site.project.id, [NewQuestion("t", "a", "b", now())])


@pytest.mark.deep
def test_feedback_beyond_the_daily_limit_does_not_keep_views_from_being_stored(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("daily")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, feedback_per_day=1) as site:
        feedback = {"type": "feedback", "path": "/a", "helpful": True}
        assert send_events(site, feedback)["accepted"] == 1
        sent = send_events(site, {"path": "/a"}, feedback)
        assert (sent["accepted"], sent["dropped"][0]["reason"]) == (1, "limit_reached")
        refused = send_beacon(site, {"k": "feedback", "u": f"{DOCS}/a", "h": True})
        assert (refused.status_code, "COPYDESK_FEEDBACK_PER_DAY" in refused.json()["error"]) == (429, True)
