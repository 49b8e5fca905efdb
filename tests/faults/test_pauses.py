"""Workers that are paused for longer than their leases last, and resume under load."""

import itertools
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.crash.harness import wait_until
from tests.faults.drill import SCALE
from tests.faults.final_state import reckon
from tests.faults.fleet import LEASE, SCRIPTED, new_fleet, slow_model
from tests.faults.traffic import PROMPT, Account, Traffic
from tests.support.model_server import Request
from tests.support.postgres import new_database

EXPECTED = 2
"""Replies that a job needs."""


@pytest.mark.drill
def test_nothing_is_lost_or_done_twice_while_workers_are_paused_and_resumed(tmp_path: Path) -> None:
    with slow_model(0.4) as model, new_fleet(tmp_path, new_database(), model=model) as fleet:
        for name in ("docs", "guide"):
            fleet.add_site(name)
        fleet.serve()
        for _ in range(3):
            fleet.work()
        traffic = Traffic(fleet, jobs_per_second=4, events_per_second=4, scripted=True)
        with traffic.flowing() as account:
            for worker in itertools.islice(itertools.cycle(fleet.workers), max(2, round(12 * SCALE))):
                time.sleep(1)
                worker.pause()
                time.sleep(LEASE * 2)
                worker.resume()
        reckon(fleet, account)


@pytest.mark.drill
@pytest.mark.parametrize("turn", range(EXPECTED))
def test_worker_resumed_in_a_model_call_publishes_nothing(tmp_path: Path, turn: int) -> None:
    """The reply arrived during the pause: the worker reads it first when it resumes."""
    with slow_model(0.5) as model, new_fleet(tmp_path, new_database(), model=model) as fleet:
        site = fleet.add_site()
        fleet.serve()
        first = fleet.work()

        def pause(request: Request) -> None:
            if request.turn == turn:
                model.on_request = None
                first.pause()

        model.on_request = pause
        with fleet.client(site) as client:
            job = client.post(site.at(), json={"prompt": PROMPT, "model": SCRIPTED}).json()["id"]
        wait_until(lambda: len(model.requests) > turn, "the pause")
        fleet.work()
        wait_until(lambda: fleet.desk.jobs.get(site.project.id, job).finished_at is not None, "the second to publish")
        before = fleet.desk.jobs.list_events(site.project.id, job)
        first.resume()
        time.sleep(LEASE)
        assert fleet.desk.jobs.list_events(site.project.id, job) == before
        assert len(model.requests) == EXPECTED + 1
        with fleet.desk.database.read() as tx:
            assert tx.execute(text("select attempt from runs")).scalars().all() == [2]
        reckon(fleet, Account({"": job}))
