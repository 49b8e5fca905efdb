"""How soon another worker resumes the jobs of a lost one."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness import wait_until
from tests.faults.drill_output import print_line
from tests.faults.fleet import LEASE_SECONDS, SCRIPTED_MODEL, Fleet, serve_slow_model, start_fleet
from tests.faults.traffic import PROMPT
from tests.support.model_server import ModelServer
from tests.support.postgres import new_database

pytestmark = pytest.mark.deep

WARM_UP_SECONDS = 2.0
"""A new worker loads modules for its child processes first; a job that it claims now waits for them."""


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serve_slow_model(30) as model:
        yield model


@pytest.fixture
def fleet(tmp_path: Path, model: ModelServer) -> Iterator[Fleet]:
    with start_fleet(tmp_path, new_database(), model=model) as fleet:
        fleet.add_project()
        fleet.start_server()
        yield fleet


@pytest.mark.drill
def test_jobs_of_killed_and_stopped_workers_resume_quickly(fleet: Fleet, model: ModelServer) -> None:
    """The worker stops right after a model request, so that the next request comes from the next worker."""
    _start_job(fleet, model)
    fleet.start_worker()
    killed = time.monotonic()
    fleet.workers[0].kill()
    after_kill = _wait_for_model_request(model, 2) - killed
    fleet.start_worker()
    time.sleep(WARM_UP_SECONDS)
    stopped = time.monotonic()
    took = fleet.workers[1].stop()
    after_stop = _wait_for_model_request(model, 3) - stopped
    print_line(f"after kill -9: {after_kill:.2f} s; after SIGTERM: {after_stop:.2f} s (it ended after {took:.2f} s)")
    assert after_kill < LEASE_SECONDS + LEASE_SECONDS / 2 + 1
    assert after_stop < 1


@pytest.mark.drill
@pytest.mark.parametrize("lease", [2.0, 5.0, 10.0])
def test_takeover_takes_one_lease_and_one_poll(tmp_path: Path, model: ModelServer, lease: float) -> None:
    with start_fleet(tmp_path, new_database(), model=model, lease_seconds=lease) as fleet:
        fleet.add_project()
        fleet.start_server()
        _start_job(fleet, model)
        taken = []
        for turn in range(3):
            fleet.start_worker()
            time.sleep(0.37 * turn)  # any moment between two heartbeats
            killed = time.monotonic()
            fleet.workers[-2].kill()
            taken.append(_wait_for_model_request(model, turn + 2) - killed)
        print_line(f"lease {lease:g} s: went on after {', '.join(f'{seconds:.1f}' for seconds in taken)} s")
        assert max(taken) < lease + min(5, lease / 2) + 1


def _start_job(fleet: Fleet, model: ModelServer) -> None:
    fleet.start_worker()
    site = fleet.sites[0]
    with fleet.client(site) as client:
        assert client.post(site.at(), json={"prompt": PROMPT, "model": SCRIPTED_MODEL}).status_code == 201
    _wait_for_model_request(model, 1)


def _wait_for_model_request(model: ModelServer, times: int) -> float:
    wait_until(lambda: len(model.requests) >= times, "another worker to go on", 30)
    return model.requests[times - 1].at
