"""The Cloudflare and Next.js integrations, run by Node over real HTTP: the events they send, and an unchanged site."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.collector import FakeCollector, fake_collector
from tests.support.pages import COUNTED_PATHS, PAGES, serve_pages
from tests.support.programs import require_node

PIECES = Path(__file__).parent.parent.parent / "docs/collect"
RUN = Path(__file__).parent / "run.mjs"
WORKER, NEXTJS = PIECES / "cloudflare-worker.js", PIECES / "nextjs-middleware.ts"
AGENT = {
    "user-agent": "Claude-User (claude-code/2.1; +https://example.org)",
    "accept": "text/markdown, text/html, */*",
    "referer": "https://chat.example.com/",
    "cf-connecting-ip": "203.0.113.9",
    "x-real-ip": "203.0.113.9",
}


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with fake_collector() as running:
        yield running


@pytest.fixture(scope="module")
def docs() -> Iterator[str]:
    with serve_pages() as url:
        yield url


def run_edge_code(piece: Path, collector: FakeCollector, *requests: dict[str, Any], beacon: bool = False) -> list[Any]:
    environment = {
        "PATH": os.environ["PATH"],
        "COPYDESK_URL": collector.url,
        "COPYDESK_PROJECT": "proj_1",
        "COPYDESK_API_KEY": "desk_key",
        "COPYDESK_BEACON": "1" if beacon else "",
    }
    quiet = "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON"
    command = [require_node(), quiet, str(RUN), str(piece), json.dumps(requests)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    answers: list[Any] = json.loads(done.stdout)
    return answers


def make_request(url: str, **headers: str) -> dict[str, Any]:
    return {"url": url, "headers": AGENT | headers}


@pytest.mark.deep
@pytest.mark.parametrize("piece", [WORKER, NEXTJS], ids=lambda piece: piece.stem)
def test_page_view_is_sent_with_all_visitor_fields(collector: FakeCollector, docs: str, piece: Path) -> None:
    run_edge_code(piece, collector, make_request(f"{docs}/guide/setup?a=1"))
    (request,) = collector.requests
    assert request.path == "/v1/analytics/proj_1/events"
    assert request.headers["Authorization"] == "Bearer desk_key"
    (event,) = request.events
    assert event.pop("eventId")
    assert event.pop("timestamp") > 1_700_000_000_000
    assert event.pop("status", 200) == 200
    assert event == {
        "url": f"{docs}/guide/setup?a=1",
        "userAgent": AGENT["user-agent"],
        "accept": AGENT["accept"],
        "referrer": AGENT["referer"],
        "ip": "203.0.113.9",
    }


@pytest.mark.deep
@pytest.mark.parametrize("piece", [WORKER, NEXTJS], ids=lambda piece: piece.stem)
def test_only_page_views_and_missing_pages_are_sent(collector: FakeCollector, docs: str, piece: Path) -> None:
    requests = [make_request(docs + path) for path in (*PAGES, "/missing", "/twin")]
    others = [make_request(f"{docs}/") | {"method": method} for method in ("HEAD", "POST")]
    run_edge_code(piece, collector, *requests, *others)
    told = [event["url"].removeprefix(docs) for event in collector.events]
    expected = (
        [*COUNTED_PATHS, "/missing", "/twin"] if piece == WORKER else [*(set(COUNTED_PATHS) - {"/same"}), "/twin"]
    )  # Next.js asks by HEAD, which is sent without a date; it does not see the status of the response
    assert sorted(told) == sorted(expected)
    assert len({event["eventId"] for event in collector.events}) == len(expected)


@pytest.mark.deep
def test_worker_passes_every_response_through_unchanged(collector: FakeCollector, docs: str) -> None:
    answers = run_edge_code(WORKER, collector, *(make_request(docs + path) for path in (*PAGES, "/missing")))
    expected = [[status, f"this is {path}" if status != 304 else ""] for path, (status, _) in PAGES.items()]
    assert answers == [*expected, [404, "this is /missing"]]


@pytest.mark.deep
def test_worker_skips_prefetches_and_browsers_with_the_beacon(collector: FakeCollector, docs: str) -> None:
    browser = {"sec-fetch-dest": "document", "sec-fetch-mode": "navigate"}
    run_edge_code(
        WORKER,
        collector,
        make_request(f"{docs}/", **{"sec-purpose": "prefetch"}),
        make_request(f"{docs}/twin", **browser),
    )
    assert [event["url"] for event in collector.events] == [f"{docs}/twin"]
    run_edge_code(WORKER, collector, make_request(f"{docs}/", **browser), make_request(f"{docs}/llms.txt"), beacon=True)
    assert [event["url"] for event in collector.events[1:]] == [f"{docs}/llms.txt"]


@pytest.mark.deep
def test_nextjs_middleware_skips_browsers_with_the_beacon(collector: FakeCollector, docs: str) -> None:
    answers = run_edge_code(
        NEXTJS, collector, make_request(f"{docs}/", **{"sec-fetch-dest": "document"}), make_request(f"{docs}/")
    )
    assert answers == [None, None]
    assert len(collector.events) == 1


@pytest.mark.deep
@pytest.mark.parametrize("piece", [WORKER, NEXTJS], ids=lambda piece: piece.stem)
@pytest.mark.parametrize("trouble", [503, 429, "cut"])
def test_view_is_retried_with_the_same_id(collector: FakeCollector, docs: str, piece: Path, trouble: int | str) -> None:
    collector.failures = [trouble]
    run_edge_code(piece, collector, make_request(f"{docs}/"))
    first, second = collector.events
    assert first == second


@pytest.mark.deep
@pytest.mark.parametrize("piece", [WORKER, NEXTJS], ids=lambda piece: piece.stem)
@pytest.mark.parametrize("trouble", [401, 307])
def test_refused_view_is_not_retried(collector: FakeCollector, docs: str, piece: Path, trouble: int) -> None:
    collector.failures = [trouble]
    run_edge_code(piece, collector, make_request(f"{docs}/"))
    assert len(collector.requests) == 1
