"""Claims: fair between projects, limited, taken over from lost workers, and fenced."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import text

from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.execution.journal import Journal, LeaseLost
from copydesk.jobs.execution.queue import Claim, Queue, QueueLimits
from copydesk.jobs.job import COMPLETED, FAILED, JobOutcome, Phase
from copydesk.jobs.service import NewJob

BOUNDS = QueueLimits(lease_ms=60_000, project_slots=2, total_slots=5)


@pytest.fixture
def desk(migrated_url: str, tmp_path: Path) -> Iterator[Desk]:
    desk = open_desk(Settings(data=tmp_path / "data", database_url=migrated_url, jobs_per_hour=10_000))
    yield desk
    desk.close()


@pytest.fixture
def queue(desk: Desk) -> Queue:
    return Queue(desk.database, BOUNDS)


def create_project(desk: Desk, name: str = "Docs") -> Project:
    return desk.projects.create(name, repository="/srv/docs.git", ref="main", actor="ada")


def claim_all(queue: Queue, most: int = 100) -> list[Claim]:
    found: list[Claim] = []
    while len(found) < most and (claim := queue.claim("worker")) is not None:
        found.append(claim)
    return found


def expire_lease(desk: Desk, claim: Claim) -> None:
    with desk.database.write() as tx:
        tx.execute(text("update runs set lease_until = 1 where id = :id"), {"id": claim.run_id})


def take_messages(desk: Desk) -> None:
    with desk.database.write() as tx:
        tx.execute(text("update messages set run_id = 'taken'"))


def test_unprocessed_message_starts_the_next_run(desk: Desk, queue: Queue) -> None:
    docs = create_project(desk)
    job = desk.jobs.create(docs, NewJob("x")).job
    (claim,) = claim_all(queue)
    take_messages(desk)
    desk.jobs.add_message(docs, job.id, "one more thing")
    Journal(desk.database, claim).finish_run(JobOutcome(COMPLETED))
    assert desk.jobs.get(docs.id, job.id).status == "active"
    assert [again.run_number for again in claim_all(queue)] == [2]


def test_earlier_runs_do_not_include_the_run_itself(desk: Desk, queue: Queue) -> None:
    docs = create_project(desk)
    job = desk.jobs.create(docs, NewJob("x")).job
    for number in (1, 2):
        (claim,) = claim_all(queue)
        journal = Journal(desk.database, claim)
        journal.run_step("pin", str, partial("run {}".format, number))
        assert [run.results for run in journal.list_earlier_runs()] == [{"pin": b'"run 1"'}][: number - 1]
        take_messages(desk)
        desk.jobs.add_message(docs, job.id, "one more thing")
        journal.finish_run(JobOutcome(COMPLETED))


def test_oldest_run_is_claimed_first(desk: Desk, queue: Queue) -> None:
    docs = create_project(desk)
    made = [desk.jobs.create(docs, NewJob(f"{n}")).job.id for n in range(2)]
    assert [claim.job_id for claim in claim_all(queue)] == made


def test_project_with_many_jobs_does_not_delay_another(desk: Desk, queue: Queue) -> None:
    busy, small = create_project(desk, "Busy"), create_project(desk, "Small")
    for n in range(10):
        desk.jobs.create(busy, NewJob(f"{n}"))
    late = desk.jobs.create(small, NewJob("late")).job.id
    assert late in [claim.job_id for claim in claim_all(queue, most=2)]


def test_concurrent_runs_stay_within_the_limits(desk: Desk, queue: Queue) -> None:
    for name in ("A", "B", "C", "D"):
        owner = create_project(desk, name)
        for n in range(4):
            desk.jobs.create(owner, NewJob(f"{n}"))
    taken = claim_all(queue)
    assert len(taken) == BOUNDS.total_slots
    assert max(Counter(claim.project_id for claim in taken).values()) <= BOUNDS.project_slots


def test_concurrent_claims_are_exclusive_and_within_the_limits(desk: Desk, queue: Queue) -> None:
    docs = create_project(desk)
    for n in range(8):
        desk.jobs.create(docs, NewJob(f"{n}"))
    taken: list[Claim] = []
    workers = [Thread(target=lambda: taken.extend(claim_all(queue, most=1))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len({claim.run_id for claim in taken}) == len(taken) == BOUNDS.project_slots


def test_an_expired_lease_is_claimed_again_as_the_next_attempt(desk: Desk, queue: Queue) -> None:
    desk.jobs.create(create_project(desk), NewJob("x"))
    (first,) = claim_all(queue)
    expire_lease(desk, first)
    (second,) = claim_all(queue)
    assert (second.run_id, first.attempt, second.attempt) == (first.run_id, 1, 2)


def test_superseded_attempt_cannot_write(desk: Desk, queue: Queue) -> None:
    docs = create_project(desk)
    job = desk.jobs.create(docs, NewJob("x")).job
    (first,) = claim_all(queue)
    take_messages(desk)
    stale = Journal(desk.database, first)
    stale.run_step("one", int, lambda: 1)
    expire_lease(desk, first)
    (second,) = claim_all(queue)
    fresh = Journal(desk.database, second)
    assert fresh.run_step("one", int, lambda: 99) == 1, "a step that has a result is not run again"
    for act in (
        lambda: stale.run_step("two", int, lambda: 2),
        lambda: stale.enter_phase(Phase.PUBLISHING),
        stale.check_lease,
        lambda: stale.save_job_values(title="stale"),
    ):
        with pytest.raises(LeaseLost):
            act()
    assert not stale.finish_run(JobOutcome(COMPLETED))
    assert desk.jobs.get(docs.id, job.id).status == "active"
    assert fresh.finish_run(JobOutcome(COMPLETED))
    assert desk.jobs.get(docs.id, job.id).status == "completed"


def test_expired_lease_forbids_external_actions(desk: Desk, queue: Queue) -> None:
    desk.jobs.create(create_project(desk), NewJob("x"))
    (claim,) = claim_all(queue)
    journal = Journal(desk.database, claim)
    journal.check_lease()
    expire_lease(desk, claim)
    with pytest.raises(LeaseLost):
        journal.check_lease()


def test_heartbeat_renews_own_runs_and_reports_lost_ones(desk: Desk, queue: Queue) -> None:
    docs = create_project(desk)
    jobs = [desk.jobs.create(docs, NewJob(f"{n}")).job for n in range(2)]
    first, second = claim_all(queue)
    desk.jobs.cancel(docs.id, jobs[0].id)
    assert queue.renew("worker", [first.run_id, second.run_id]) == {second.run_id}
    assert queue.renew("another", [second.run_id]) == set()


def test_released_run_is_claimable_immediately(desk: Desk, queue: Queue) -> None:
    desk.jobs.create(create_project(desk), NewJob("x"))
    (claim,) = claim_all(queue)
    assert claim_all(queue) == []
    queue.release("worker", [claim.run_id])
    assert [again.attempt for again in claim_all(queue)] == [2]


def test_late_heartbeat_does_not_reclaim_a_released_run(desk: Desk, queue: Queue) -> None:
    desk.jobs.create(create_project(desk), NewJob("x"))
    (claim,) = claim_all(queue)
    queue.release("worker", [claim.run_id])
    assert queue.renew("worker", [claim.run_id]) == set()
    assert queue.claim("another") is not None


def test_attempt_lost_by_the_database_cannot_write_under_a_reused_number(desk: Desk, queue: Queue) -> None:
    """As when a replica that had not received the claim became the primary."""
    docs = create_project(desk)
    job = desk.jobs.create(docs, NewJob("x")).job
    lost = queue.claim("first")
    with desk.database.write() as tx:
        tx.execute(text("update runs set state = 'queued', attempt = 0, worker = null, lease_until = null"))
    found = queue.claim("second")
    assert lost is not None
    assert found is not None
    assert lost.attempt == found.attempt
    take_messages(desk)
    with pytest.raises(LeaseLost):
        Journal(desk.database, lost).check_lease()
    assert not Journal(desk.database, lost).finish_run(JobOutcome(FAILED))
    assert Journal(desk.database, found).finish_run(JobOutcome(COMPLETED))
    assert desk.jobs.get(docs.id, job.id).status == "completed"


def test_concurrent_events_are_numbered_without_gaps(desk: Desk, queue: Queue) -> None:
    docs = create_project(desk)
    job = desk.jobs.create(docs, NewJob("x")).job
    (claim,) = claim_all(queue)
    journal = Journal(desk.database, claim)
    writers = [Thread(target=lambda: desk.jobs.add_message(docs, job.id, "more")) for _ in range(6)]
    writers += [Thread(target=lambda: journal.enter_phase(Phase.THINKING)) for _ in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    _, events = desk.jobs.list_events(docs.id, job.id)
    assert [event.seq for event in events] == list(range(1, 15))


def test_a_newer_workflow_is_left_to_newer_workers(desk: Desk, queue: Queue) -> None:
    desk.jobs.create(create_project(desk), NewJob("x"))
    with desk.database.write() as tx:
        tx.execute(text("update runs set version = 2"))
    assert claim_all(queue) == []
