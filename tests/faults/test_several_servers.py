"""Several servers and workers act as one: limits, keys, events, cancellation, fairness and slots."""

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import httpx2 as httpx
import pytest
from sqlalchemy import text

from copydesk.jobs.job import ACTIVE
from tests.crash.harness import wait_until
from tests.faults.fleet import SCRIPTED_MODEL, Fleet, FleetProject, serve_slow_model, start_fleet
from tests.support.model_server import ModelRequest, ModelServer
from tests.support.postgres import new_database

pytestmark = pytest.mark.deep

ALLOWED, ASKED = 40, 60
EXPORTS = 60
PROJECT_SLOTS, TOTAL_SLOTS = 2, 3
SOON = 1.0
"""Seconds in which a process learns of another's changes, without the delays of a busy machine."""
RUNNING = text(
    """
    select project_id, count(*) as running from runs where state = 'running'
    and lease_until > extract(epoch from clock_timestamp()) * 1000 group by project_id
    """
)
OVERTOOK = text(
    """
    select count(*) from runs as other join runs as late on late.job_id = :late
    where other.project_id = :many and other.started_at between late.created_at and late.started_at
    """
)
"""Jobs of the busy project that started while the late project waited."""


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with serve_slow_model(0.5) as model:
        yield model


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[Fleet]:
    settings: dict[str, Any] = {
        "jobs_per_hour": ALLOWED,
        "exports_per_minute": EXPORTS,
        "project_slots": PROJECT_SLOTS,
        "total_slots": TOTAL_SLOTS,
        "lease_seconds": 10,
    }
    with start_fleet(tmp_path_factory.mktemp("fleet"), new_database(), model=model, **settings) as fleet:
        for _ in range(2):
            fleet.start_server()
            fleet.start_worker()
        yield fleet


@pytest.fixture
def site(fleet: Fleet) -> FleetProject:
    return fleet.add_project(f"docs-{len(fleet.sites)}")


def test_job_limit_is_shared_by_two_servers(fleet: Fleet, site: FleetProject) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: _create_job(fleet, site, n), range(ASKED)))
    assert Counter(answer.status_code for answer in answers) == {201: ALLOWED, 429: ASKED - ALLOWED}
    for answer in answers:
        if answer.status_code == 201:
            fleet.desk.jobs.archive(site.project.id, answer.json()["id"])  # the job is no longer needed


def test_export_limit_is_shared_by_two_servers(fleet: Fleet, site: FleetProject) -> None:
    path = f"/v1/analytics/{site.project.id}/feedback"
    with httpx.Client(headers=site.headers, timeout=60) as client:
        answers = Counter(client.get(fleet.servers[n % 2].url + path).status_code for n in range(2 * EXPORTS))
    assert answers.keys() == {200, 429}
    assert EXPORTS <= answers[200] <= EXPORTS * 1.2, "a twentieth by each, and what came in while they told each other"


def test_idempotency_key_sent_to_two_servers_creates_one_job(fleet: Fleet, site: FleetProject) -> None:
    key = uuid.uuid4().hex
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: _create_job(fleet, site, n, key=key, model="mechanic"), range(16)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(fleet.desk.jobs.list_page(site.project.id, None, 100, None)[0]) == 1


def test_events_reach_the_other_server_within_a_second(fleet: Fleet, site: FleetProject) -> None:
    job = _create_job(fleet, site, 0).json()["id"]
    with _measure_delay(fleet) as delay, _listen_to_events(fleet, site, 1, job) as heard:
        wait_until(lambda: bool(heard) and heard[-1][0] == "finished", "the job's end")
    late = {kind: after for kind, after in heard if after > SOON + 3 * delay()}
    assert not late
    assert {"queued", "phase", "pushed", "pull_request"} <= {kind for kind, _ in heard}


def test_canceling_at_one_server_stops_a_job_created_at_another(
    fleet: Fleet, site: FleetProject, model: ModelServer
) -> None:
    asked, answering = len(model.requests), threading.Event()

    def hold_answer(_request: ModelRequest) -> None:
        answering.wait(60)

    model.on_request = hold_answer
    job = _create_job(fleet, site, 0).json()["id"]
    with _measure_delay(fleet) as delay, _listen_to_events(fleet, site, 0, job) as heard:
        wait_until(lambda: len(model.requests) > asked, "the model to be asked")
        cancelled = httpx.post(fleet.servers[1].url + site.at(f"/{job}/cancel"), headers=site.headers, timeout=60)
        assert cancelled.status_code == 200
        wait_until(lambda: heard[-1][0] == "finished", "the other server's word")
    assert heard[-1][1] <= SOON + 3 * delay()
    model.on_request = None
    answering.set()
    time.sleep(1)  # without the cancellation, the model would receive a second request in this time
    assert len(model.requests) == asked + 1
    assert fleet.desk.jobs.get(site.project.id, job).reason == "cancelled"


@pytest.mark.drill
def test_workers_share_the_slots_fairly_between_projects(fleet: Fleet) -> None:
    many, few = fleet.add_project("many"), fleet.add_project("few")
    jobs = [_create_job(fleet, many, n).json()["id"] for n in range(8)]
    late = _create_job(fleet, few, 0).json()["id"]
    seen: list[dict[str, int]] = []
    while any(fleet.desk.jobs.get(many.project.id, job).status is ACTIVE for job in jobs):
        with fleet.desk.database.read() as tx:
            seen.append({row.project_id: row.running for row in tx.execute(RUNNING)})
        time.sleep(0.02)
    assert max(count for running in seen for count in running.values()) <= PROJECT_SLOTS
    assert 1 < max(sum(running.values()) for running in seen) <= TOTAL_SLOTS
    with fleet.desk.database.read() as tx:
        overtook = tx.execute(OVERTOOK, {"late": late, "many": many.project.id}).scalar_one()
    assert overtook <= PROJECT_SLOTS


def _create_job(
    fleet: Fleet, site: FleetProject, turn: int, key: str = "", model: str = SCRIPTED_MODEL
) -> httpx.Response:
    server = fleet.servers[turn % len(fleet.servers)]
    headers = {**site.headers, **({"Idempotency-Key": key} if key else {})}
    return httpx.post(
        server.url + site.at(), json={"prompt": "Spell it so.", "model": model}, headers=headers, timeout=30
    )


@contextmanager
def _measure_delay(fleet: Fleet) -> Iterator[Callable[[], float]]:
    """Sends trivial requests to a server continuously; yields the seconds of the slowest response."""
    slowest, over = [0.0], threading.Event()

    def measure() -> None:
        with httpx.Client(base_url=fleet.servers[1].url, timeout=60) as client:
            while not over.wait(0.02):
                began = time.monotonic()
                client.get("/healthz")
                slowest[0] = max(slowest[0], time.monotonic() - began)

    thread = threading.Thread(target=measure, daemon=True)
    thread.start()
    yield lambda: slowest[0]
    over.set()
    thread.join(60)


@contextmanager
def _listen_to_events(fleet: Fleet, site: FleetProject, server: int, job: str) -> Iterator[list[tuple[str, float]]]:
    """Records the events of a job with their delays; for earlier events, from the start of listening."""
    heard: list[tuple[str, float]] = []

    def listen() -> None:
        kind = ""
        url = fleet.servers[server].url + site.at(f"/{job}/events")
        with httpx.stream("GET", url, headers=site.headers, timeout=30) as stream:
            begun = time.time()
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    at = json.loads(line.removeprefix("data: "))["at"]
                    heard.append((kind, time.time() - max(begun, _parse_timestamp(at))))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield heard
    thread.join(60)
    assert not thread.is_alive(), "the stream goes on"


def _parse_timestamp(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
