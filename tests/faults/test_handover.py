"""How soon another worker resumes the jobs of a lost one."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness import wait_until
from tests.faults.drill import tell
from tests.faults.fleet import LEASE, SCRIPTED, Fleet, new_fleet, slow_model
from tests.faults.traffic import PROMPT
from tests.support.model_server import ModelServer
from tests.support.postgres import new_database

WARM_UP_SECONDS = 2.0
"""A new worker loads modules for its child processes first; a job that it claims now waits for them."""


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with slow_model(30) as model:
        yield model


@pytest.fixture
def fleet(tmp_path: Path, model: ModelServer) -> Iterator[Fleet]:
    with new_fleet(tmp_path, new_database(), model=model) as fleet:
        fleet.add_site()
        fleet.serve()
        yield fleet


@pytest.mark.drill
def test_jobs_of_killed_and_stopped_workers_resume_quickly(fleet: Fleet, model: ModelServer) -> None:
    """The worker stops right after a model request, so that the next request comes from the next worker."""
    _begin(fleet, model)
    fleet.work()
    killed = time.monotonic()
    fleet.workers[0].kill()
    after_kill = _asked_again(model, 2) - killed
    fleet.work()
    time.sleep(WARM_UP_SECONDS)
    stopped = time.monotonic()
    took = fleet.workers[1].stop()
    after_stop = _asked_again(model, 3) - stopped
    tell(f"after kill -9: {after_kill:.2f} s; after SIGTERM: {after_stop:.2f} s (it ended after {took:.2f} s)")
    assert after_kill < LEASE + LEASE / 2 + 1
    assert after_stop < 1


@pytest.mark.drill
@pytest.mark.parametrize("lease", [2.0, 5.0, 10.0])
def test_takeover_takes_one_lease_and_one_poll(tmp_path: Path, model: ModelServer, lease: float) -> None:
    with new_fleet(tmp_path, new_database(), model=model, lease_seconds=lease) as fleet:
        fleet.add_site()
        fleet.serve()
        _begin(fleet, model)
        taken = []
        for turn in range(3):
            fleet.work()
            time.sleep(0.37 * turn)  # any moment between two heartbeats
            killed = time.monotonic()
            fleet.workers[-2].kill()
            taken.append(_asked_again(model, turn + 2) - killed)
        tell(f"lease {lease:g} s: went on after {', '.join(f'{seconds:.1f}' for seconds in taken)} s")
        assert max(taken) < lease + min(5, lease / 2) + 1


def _begin(fleet: Fleet, model: ModelServer) -> None:
    fleet.work()
    site = fleet.sites[0]
    with fleet.client(site) as client:
        assert client.post(site.at(), json={"prompt": PROMPT, "model": SCRIPTED}).status_code == 201
    _asked_again(model, 1)


def _asked_again(model: ModelServer, times: int) -> float:
    wait_until(lambda: len(model.requests) >= times, "another worker to go on", 30)
    return model.requests[times - 1].at
