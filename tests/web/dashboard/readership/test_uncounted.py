"""The start page says which requests were not counted, why, and what to do."""

import re
from collections.abc import Iterator

import httpx2 as httpx
import pytest

from copydesk.analytics.ingest.uncounted_requests import RefusalReason
from copydesk.analytics.page_view import DropReason
from copydesk.web.dashboard.readership.uncounted import ADVICE, explain_reason
from tests.support.people import signed_in_client
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("uncounted")
    repository = make_repository(folder / "docs.git", {"index.md": b"# Hello\n"})
    with serve(folder / "data", repository=repository, with_worker=False, collect_per_minute=3) as service:
        yield service


@pytest.fixture
def site(running: Service) -> Service:
    return running.another_project()


@pytest.fixture(scope="module")
def viewer(running: Service) -> httpx.Client:
    return signed_in_client(running, "viewer")


def list_reasons(viewer: httpx.Client, site: Service) -> dict[str, int]:
    text = viewer.get(f"/projects/{site.project.id}/start", params={"stay": "true"}).text
    rows = re.findall(
        r'class="why">(.*?)<br><span class="hint">(.+?)</span></th><td class="figure">([\d,]+)</td>', text
    )
    return {why: int(requests) for why, _, requests in rows}


def collect(site: Service, body: str, **headers: str) -> int:
    answer = httpx.post(f"{site.url}/v1/collect/{site.project.site_id}", content=body, headers=headers, timeout=30)
    return answer.status_code


def test_every_reason_is_explained_with_what_to_do() -> None:
    for reason in (*DropReason, *RefusalReason):
        assert explain_reason(reason).endswith(".")
        assert ADVICE[reason].endswith(".")


@pytest.mark.deep
def test_dropped_events_are_listed_by_reason(viewer: httpx.Client, site: Service) -> None:
    assert list_reasons(viewer, site) == {}
    events = [
        {"path": "/a.css"},
        {"path": "/b.js"},
        {"path": "/", "status": 302},
        {"path": "/", "userAgent": "GPTBot/1.0"},
    ]
    assert site.http.post(f"/v1/analytics/{site.project.id}/events", json=events).status_code == 202
    assert list_reasons(viewer, site) == {
        explain_reason(DropReason.NOT_A_PAGE): 2,
        explain_reason(DropReason.NOT_SUCCESSFUL): 1,
    }
    site.desk.fold_scheduler.wait_until_folded()
    start = viewer.get(f"/projects/{site.project.id}/start", params={"stay": "true"}).text
    assert "Not counted in the last 7 days: 3 requests" in start
    assert "1 view by crawlers, monitors and scripts counts neither" in start
    assert viewer.get(f"/projects/{site.project.id}/start.json").json()["uncounted"] == 3
    assert "Not counted in the last 7 days: 3 requests" in viewer.get(f"/projects/{site.project.id}/readership").text


def test_refused_requests_are_listed_by_reason(viewer: httpx.Client, site: Service) -> None:
    site.desk.projects.change(site.project.id, {"origins": "https://docs.example.com"}, actor="test")
    view, origin = '{"u": "https://docs.example.com/"}', {"Origin": "https://docs.example.com", "User-Agent": FIREFOX}
    assert collect(site, view, Origin="https://copy.example.org") == 403
    assert collect(site, "{", **origin) == 400
    assert [collect(site, view, **origin) for _ in range(2)] == [202, 429]
    assert site.http.post(f"/v1/analytics/{site.project.id}/events", content="[").status_code == 400
    assert list_reasons(viewer, site) == {
        explain_reason(RefusalReason.ORIGIN_REFUSED): 1,
        explain_reason(RefusalReason.INVALID_REQUEST): 2,
        explain_reason(RefusalReason.RATE_LIMITED): 1,
    }


def test_projects_do_not_see_the_requests_of_others(viewer: httpx.Client, running: Service, site: Service) -> None:
    other = running.another_project()
    assert other.http.post(f"/v1/analytics/{other.project.id}/events", json={"path": "/a.css"}).status_code == 202
    assert list_reasons(viewer, site) == {}
    assert len(list_reasons(viewer, other)) == 1
