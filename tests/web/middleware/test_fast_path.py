"""The fast path for views responds exactly as the framework does."""

import httpx2 as httpx
import pytest

from tests.support.service import Service

USUAL, UNUSUAL = "application/json", "application/json; charset=utf-8"
VIEW = '{"url": "https://docs.example/a", "userAgent": "Mozilla/5.0"}'


def post(service: Service, path: str, kind: str, body: str) -> httpx.Response:
    return service.http.post(path, content=body.encode(), headers={"Content-Type": kind})


@pytest.mark.deep
@pytest.mark.parametrize("body", [VIEW, f"[{VIEW}, {VIEW}, 1]", '{"url": 1}', "[", "", "1", '"\\ud800"'])
def test_fast_and_regular_path_receive_events_alike(service: Service, body: str) -> None:
    path = f"/v1/analytics/{service.project.id}/events"
    assert_same(post(service, path, USUAL, body), post(service, path, UNUSUAL, body))


@pytest.mark.parametrize("body", ['{"u": "https://docs.example/a"}', '{"u": ""}', "{}", "[", ""])
def test_fast_and_regular_path_receive_beacons_alike(service: Service, body: str) -> None:
    path = f"/v1/collect/{service.project.site_id}"
    assert_same(post(service, path, USUAL, body), post(service, path, UNUSUAL, body))


def assert_same(fast: httpx.Response, regular: httpx.Response) -> None:
    assert fast.status_code == regular.status_code
    assert set(fast.headers) == set(regular.headers)
    assert fast.json() | {"requestId": ""} == regular.json() | {"requestId": ""}
