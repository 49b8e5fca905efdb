"""Clocks that are an hour off: of servers and workers, and the database's clock, set forward or back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from copydesk.core.clock import HOUR, SECOND
from copydesk.core.rate_limits.limits import RateLimit, TooManyRequests, consume
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.execution.journal import Journal
from copydesk.jobs.execution.queue import Queue, QueueLimits
from copydesk.jobs.job import ACTIVE, FAILED, JobOutcome
from copydesk.jobs.service import NewJob
from tests.conftest import DATABASE_NAMES
from tests.faults.drill_output import DRILL_SCALE
from tests.faults.final_state import check_final_state
from tests.faults.fleet import LEASE_SECONDS, serve_slow_model, start_fleet
from tests.faults.traffic import Traffic
from tests.support.drills import mark_drills
from tests.support.postgres import new_database

pytestmark = pytest.mark.deep

AHEAD, BEHIND = 3600.0, -3600.0
BOUNDS = QueueLimits(lease_ms=10_000, project_slots=4, total_slots=10)
DIRECTIONS = pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["forward", "back"])


@pytest.mark.drill
def test_clock_skew_of_an_hour_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """A worker is killed, and the others, which differ by two hours, take over without delay."""
    with serve_slow_model(0.3) as model, start_fleet(tmp_path, new_database(), model=model) as fleet:
        for name in ("docs", "guide"):
            fleet.add_project(name)
        for wrong in (AHEAD, BEHIND):
            fleet.start_server(clock_ahead=wrong)
            fleet.start_worker(clock_ahead=wrong)
        fleet.start_worker()
        traffic = Traffic(fleet, jobs_per_second=4, events_per_second=6, scripted=True)
        with traffic.run() as account:
            for worker in fleet.workers:
                time.sleep(1 + 6 * DRILL_SCALE)
                worker.kill()
                time.sleep(LEASE_SECONDS * 2)
                worker.start()
        check_final_state(fleet, account)
        with fleet.desk.database.read() as tx:
            made = tx.execute(text("select created_at from jobs")).scalars().all()
        assert max(made) - min(made) > 1.9 * HOUR, "the clocks were right"


@pytest.fixture(params=mark_drills(DATABASE_NAMES, default=("postgres",)))
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    url = new_database() if request.param == "postgres" else ""
    desk = open_desk(Settings(data=tmp_path / "data", database_url=url))
    yield desk
    desk.close()


@DIRECTIONS
def test_dead_workers_run_is_taken_over_after_a_clock_change(desk: Desk, step: int) -> None:
    queue = Queue(desk.database, BOUNDS)
    _create_job(desk)
    first = queue.claim("first")
    assert first is not None
    assert queue.claim("second") is None
    _set_clock(desk, step)
    second = queue.claim("second")
    assert second is not None
    assert (second.attempt, queue.claim("third")) == (2, None)
    assert second.worked_ms <= BOUNDS.lease_ms + SECOND, "what the clock was set by counts as work"


@DIRECTIONS
def test_live_worker_keeps_its_run_after_a_clock_change(desk: Desk, step: int) -> None:
    queue = Queue(desk.database, BOUNDS)
    _create_job(desk)
    claim = queue.claim("first")
    assert claim is not None
    _set_clock(desk, step)
    assert queue.renew("first", [claim.run_id]) == {claim.run_id}
    assert queue.claim("second") is None
    Journal(desk.database, claim).check_lease()
    queue.release("first", [claim.run_id])
    second = queue.claim("second")
    assert second is not None
    assert second.worked_ms <= BOUNDS.lease_ms + SECOND, "what the clock was set by counts as work"


def test_rate_limit_ends_after_the_clock_was_set_back(desk: Desk) -> None:
    limit = RateLimit("jobs", 1, HOUR)
    with desk.database.write() as tx:
        consume(desk.database, tx, limit, "docs")
    with desk.database.write() as tx, pytest.raises(TooManyRequests):
        consume(desk.database, tx, limit, "docs")
    with desk.database.write() as tx:
        tx.execute(text("update limits set started_at = started_at + :step"), {"step": HOUR})
    with desk.database.write() as tx:
        consume(desk.database, tx, limit, "docs")


def test_message_from_a_server_with_a_slow_clock_is_processed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processed even if the run during which it arrived has failed: that run answers only earlier messages."""
    project, job = _create_job(desk)
    claim = Queue(desk.database, BOUNDS).claim("first")
    assert claim is not None
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 3600 * 10**9)
    desk.jobs.add_message(desk.projects.get(project), job, "One more thing.")
    monkeypatch.undo()
    Journal(desk.database, claim).finish_run(JobOutcome(FAILED))
    assert desk.jobs.get(project, job).status is ACTIVE


def _create_job(desk: Desk) -> tuple[str, str]:
    project = desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")
    return project.id, desk.jobs.create(project, NewJob("Spell it so.")).job.id


def _set_clock(desk: Desk, step: int) -> None:
    """Shifts stored times: setting the clock forward makes everything older, and changes nothing else."""
    with desk.database.write() as tx:
        tx.execute(
            text("update runs set lease_until = lease_until - :step, started_at = started_at - :step"), {"step": step}
        )
