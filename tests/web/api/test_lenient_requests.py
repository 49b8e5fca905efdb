"""Requests that generated clients send: floats, empty parameters, HEAD, JSON without a media type, unknown fields."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from copydesk.analytics.date_ranges import parse_time
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("lenient")
    repository = make_repository(folder / "docs.git", {"docs/index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False) as running:
        yield running


def at(service: Service, report: str) -> str:
    return f"/v1/analytics/{service.project.id}/{report}"


def send_without_media_type(service: Service, method: str, path: str, body: bytes) -> httpx.Response:
    request = service.http.build_request(method, path, content=body)
    request.headers.pop("content-type", None)
    return service.http.send(request)


ROWS = {
    "visitors": "visitors",
    "views": "views",
    "agents": "agents",
    "feedback": "feedback",
    "feedback/by-page": "feedback",
    "searches": "searches",
    "assistant": "conversations",
}
"""The fields with the rows of the reports that have a limit."""


@pytest.fixture(scope="module")
def filled(service: Service) -> Service:
    """A project with three rows in each report, and three jobs."""
    site = service.another_project()
    agents = (FIREFOX, "GPTBot/1.2", "ClaudeBot/1.0")
    events: list[dict[str, Any]] = [
        event
        for number, agent in enumerate(agents)
        for event in (
            {"path": f"/{number}", "userAgent": agent, "ip": "192.0.2.1"},
            {"path": f"/{number}", "userAgent": FIREFOX, "ip": "192.0.2.1"},
            {"type": "search", "query": f"term {number}"},
            {"type": "assistant", "threadId": f"thread {number}", "query": "Why?", "response": "So."},
        )
    ]
    assert site.client.send_events(events)["accepted"] == len(events)
    for number in range(3):
        site.desk.feedback.add(site.project.id, f"/{number}", True, None, parse_time("2026-03-01"))
        site.client.create_job(f"Replace {number} with some.")
    return site


def load(service: Service, path: str) -> Any:
    response = service.http.get(path)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("report", ROWS)
def test_integral_decimals_are_whole_numbers(filled: Service, report: str) -> None:
    for limit, number in (("1.0", 1), ("2.", 2), ("2", 2), ("50.000", 3)):
        assert len(load(filled, at(filled, f"{report}?limit={limit}"))[ROWS[report]]) == number, limit
    for wrong in ("1.5", "0.9", ".5", "1e1"):
        assert filled.http.get(at(filled, f"{report}?limit={wrong}")).status_code == 400, wrong


def test_integral_decimals_are_whole_numbers_for_jobs(filled: Service) -> None:
    old_path = f"/v1/agent/{filled.project.id}/jobs"
    assert len(load(filled, filled.at("/jobs?limit=2.0"))["jobs"]) == 2
    assert len(load(filled, f"{old_path}?take=2.0")["allSessions"]) == 2
    assert len(load(filled, f"{old_path}?skip=2.0&take=12.0")["allSessions"]) == 1
    for wrong in (filled.at("/jobs?limit=2.5"), f"{old_path}?take=1.5"):
        assert filled.http.get(wrong).status_code == 400, wrong


@pytest.mark.parametrize("report", [*ROWS, "timeseries"])
def test_empty_parameters_are_absent(filled: Service, report: str) -> None:
    query = "?dateFrom=&dateTo=&limit=&offset=&cursor=&interval=&source=&status="
    plain = load(filled, at(filled, report))
    assert len(plain[ROWS.get(report, report)]) > 0
    assert load(filled, at(filled, report + query)) == plain


def test_empty_parameters_are_absent_for_jobs(filled: Service) -> None:
    for path, query in (
        (filled.at("/jobs"), "?status=&limit=&cursor="),
        (f"/v1/agent/{filled.project.id}/jobs", "?skip=&take="),
    ):
        assert load(filled, path + query) == load(filled, path)


@pytest.mark.parametrize("date", ["20260131", "20260131T093000Z", "20260131T0930+0100", "2026-01-31T09:30:00"])
def test_dates_in_basic_and_extended_form_are_accepted(service: Service, date: str) -> None:
    for report in ("visitors", "timeseries", "feedback", "searches", "assistant", "assistant/caller-stats"):
        params = {"dateFrom": date, "dateTo": date}
        assert service.http.get(at(service, report), params=params).status_code == 200


def test_head_answers_as_get_without_a_body(service: Service) -> None:
    job = service.client.create_job("Any")
    paths = [at(service, "visitors"), service.at("/jobs"), service.at(f"/job/{job['id']}"), "/healthz", "/beacon.js"]
    for path in paths:
        head, get = service.http.head(path), service.http.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"") == (200, b""), path
        assert head.headers["content-type"] == get.headers["content-type"]
        assert int(head.headers["content-length"]) == len(get.content), path
    assert service.http.head(service.at("/job")).status_code == 405, "there is no GET"


def test_head_of_a_live_stream_ends_at_once(service: Service) -> None:
    job = service.client.create_job("Any")
    response = service.http.head(service.at(f"/job/{job['id']}/events"), headers={"Accept": "text/event-stream"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")


def test_head_of_a_pixel_counts_no_view(service: Service) -> None:
    site = service.another_project()
    response = site.http.head(f"/v1/collect/{site.project.site_id}/pixel.gif?u=https://a.example/b")
    assert (response.status_code, response.headers["content-type"]) == (200, "image/gif")
    assert site.http.get(at(site, "agents")).json()["agents"] == []
    assert site.http.head(f"/v1/collect/{site.project.site_id}").status_code == 405, "there is no GET"


def test_json_without_a_media_type_is_accepted(service: Service) -> None:
    assert send_without_media_type(service, "POST", service.at("/job"), b'{"prompt": "Any"}').status_code == 201
    events = send_without_media_type(service, "POST", at(service, "events"), b'{"path": "/a", "userAgent": "x"}')
    assert (events.status_code, events.json()["accepted"]) == (202, 1)
    assert send_without_media_type(service, "POST", service.at("/job"), b"prompt=Any").status_code == 400


def test_unknown_fields_are_refused_under_v2_and_ignored_under_v1(service: Service) -> None:
    assert service.http.post(service.at("/job"), json={"prompt": "Any", "colour": 1}).status_code == 400
    event = {"path": "/a", "userAgent": "x", "colour": {"deep": [1]}}
    assert service.http.post(at(service, "events"), json=event).json()["accepted"] == 1
    beacon = service.http.post(f"/v1/collect/{service.project.site_id}", json={"u": "https://a.example/b", "x": 1})
    assert (beacon.status_code, beacon.json()["dropped"]) == (202, [])


def test_unknown_route_returns_not_found_whatever_the_project_is(service: Service) -> None:
    other = service.another_project()
    for path in ("/v1/nothing", "/v2/agent", "/v3/agent/x/job", "/v1/analytics/x/nothing", other.at("/nothing")):
        response = service.http.get(path)
        assert (response.status_code, response.json()["code"]) == (404, "not_found"), path
        response = service.http.post(path, json={})
        assert (response.status_code, response.json()["code"]) == (404, "not_found"), path
    assert service.http.get(other.at("/jobs")).json()["code"] == "project_not_found"
    assert service.http.delete(other.at("/jobs")).json()["code"] == "project_not_found"
    assert httpx.get(f"{service.url}/v1/nothing", timeout=30).json()["code"] == "key_missing"


@pytest.mark.deep
def test_key_with_an_extra_prefix_opens_its_project_over_http(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n"})
    options: dict[str, Any] = {"repository": repository, "with_worker": False, "extra_key_prefixes": ("mint_",)}
    with serve(tmp_path / "data", **options) as site:
        keys = [site.new_key(prefix="mint_"), site.new_key(imported="mint_" + "x" * 24)]
        responses = [
            httpx.get(site.url + at(site, "visitors"), headers={"Authorization": f"Bearer {key}"}, timeout=30)
            for key in (*keys, "mint_" + "y" * 24, "desk_" + "x" * 38)
        ]
        assert [response.status_code for response in responses] == [200, 200, 401, 401]
        other = f"/v1/analytics/{site.another_project().project.id}/visitors"
        answer = httpx.get(site.url + other, headers={"Authorization": f"Bearer {keys[0]}"}, timeout=30)
        assert answer.json()["code"] == "project_not_found", "a key opens one project"


def test_times_limit_feedback_to_the_millisecond(service: Service) -> None:
    site = service.another_project()
    noon = parse_time("2026-03-01T12:00:00Z")
    for at_time in (noon - 1, noon, noon + 1):
        site.desk.feedback.add(site.project.id, f"/{at_time - noon}", True, None, at_time)

    def list_paths(**params: str) -> list[str]:
        rows = site.http.get(at(site, "feedback"), params=params).json()["feedback"]
        return [row["path"] for row in rows]

    assert list_paths(dateTo="2026-03-01T12:00:00Z") == ["/-1"]
    assert list_paths(dateTo="2026-03-01T12:00:00.001Z") == ["/0", "/-1"]
    assert list_paths(dateFrom="2026-03-01T13:00:00+01:00") == ["/1", "/0"]
    assert list_paths(dateFrom="2026-03-01", dateTo="2026-03-01T12:00:00Z") == ["/-1"]
    assert list_paths(dateFrom="2026-03-02") == []
