"""Workers that are paused for longer than their leases last, and resume under load."""

import itertools
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.crash.harness import wait_until
from tests.faults.drill_output import DRILL_SCALE
from tests.faults.final_state import check_final_state
from tests.faults.fleet import LEASE_SECONDS, SCRIPTED_MODEL, serve_slow_model, start_fleet
from tests.faults.traffic import PROMPT, AcceptedWork, Traffic
from tests.support.model_server import ModelRequest
from tests.support.postgres import new_database

pytestmark = pytest.mark.deep

EXPECTED = 2
"""Replies that a job needs."""


@pytest.mark.drill
def test_nothing_is_lost_or_done_twice_while_workers_are_paused_and_resumed(tmp_path: Path) -> None:
    with serve_slow_model(0.4) as model, start_fleet(tmp_path, new_database(), model=model) as fleet:
        for name in ("docs", "guide"):
            fleet.add_project(name)
        fleet.start_server()
        for _ in range(3):
            fleet.start_worker()
        traffic = Traffic(fleet, jobs_per_second=4, events_per_second=4, scripted=True)
        with traffic.run() as account:
            for worker in itertools.islice(itertools.cycle(fleet.workers), max(2, round(12 * DRILL_SCALE))):
                time.sleep(1)
                worker.pause()
                time.sleep(LEASE_SECONDS * 2)
                worker.resume()
        check_final_state(fleet, account)


@pytest.mark.drill
@pytest.mark.parametrize("turn", range(EXPECTED))
def test_worker_resumed_in_a_model_call_publishes_nothing(tmp_path: Path, turn: int) -> None:
    """The reply arrived during the pause: the worker reads it first when it resumes."""
    with serve_slow_model(0.5) as model, start_fleet(tmp_path, new_database(), model=model) as fleet:
        site = fleet.add_project()
        fleet.start_server()
        first = fleet.start_worker()

        def pause(request: ModelRequest) -> None:
            if request.turn == turn:
                model.on_request = None
                first.pause()

        model.on_request = pause
        with fleet.client(site) as client:
            job = client.post(site.at(), json={"prompt": PROMPT, "model": SCRIPTED_MODEL}).json()["id"]
        wait_until(lambda: len(model.requests) > turn, "the pause")
        fleet.start_worker()
        wait_until(lambda: fleet.desk.jobs.get(site.project.id, job).finished_at is not None, "the second to publish")
        before = fleet.desk.jobs.list_events(site.project.id, job)
        first.resume()
        time.sleep(LEASE_SECONDS)
        assert fleet.desk.jobs.list_events(site.project.id, job) == before
        assert len(model.requests) == EXPECTED + 1
        with fleet.desk.database.read() as tx:
            assert tx.execute(text("select attempt from runs")).scalars().all() == [2]
        check_final_state(fleet, AcceptedWork({"": job}))
