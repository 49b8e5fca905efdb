"""The scheduler: due slots fire once, over downtime, clock steps and several servers."""

import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select, update

from copydesk.automations.tables import automation_runs, leases
from copydesk.automations.triggers.leases import LEASE_MS
from copydesk.automations.triggers.scheduler import Scheduler
from copydesk.core import clock
from copydesk.core.settings import Settings
from copydesk.desk import open_desk_lazily
from tests.automations.conftest import Bench
from tests.support.processes import forkserver

HOURLY = {"type": "schedule", "cron": "0 * * * *", "timezone": "UTC"}


def last_full_hour() -> int:
    now = clock.now()
    return now - now % clock.HOUR


def list_keys(bench: Bench) -> list[str]:
    with bench.desk.database.read() as tx:
        return list(tx.execute(select(automation_runs.c.key).order_by(automation_runs.c.id)).scalars())


def test_due_slot_fires_once_and_the_next_one_is_planned(bench: Bench) -> None:
    automation = bench.create(trigger=HOURLY)
    slot = last_full_hour()
    bench.make_due(automation, slot)
    for _ in range(3):
        bench.scheduler.fire_due_schedules()
    assert list_keys(bench) == [f"slot:{slot}"]
    assert bench.load(automation).next_slot_at == slot + clock.HOUR
    [job] = bench.list_jobs()
    assert job.automation_id == automation.id


def test_slot_in_the_future_does_not_fire(bench: Bench) -> None:
    bench.create(trigger=HOURLY)
    bench.scheduler.fire_due_schedules()
    assert list_keys(bench) == []


@pytest.mark.parametrize("hours", [1, 24, 31 * 24])
def test_downtime_is_caught_up_with_one_run(bench: Bench, hours: int) -> None:
    automation = bench.create(trigger=HOURLY)
    slot = last_full_hour()
    bench.make_due(automation, slot - hours * clock.HOUR)
    bench.scheduler.fire_due_schedules()
    assert list_keys(bench) == [f"slot:{slot}"]


def test_clock_that_is_set_back_fires_no_slot_again(bench: Bench) -> None:
    automation = bench.create(trigger=HOURLY, grouping="new")
    slot = last_full_hour()
    bench.make_due(automation, slot)
    bench.scheduler.fire_due_schedules()
    bench.make_due(automation, slot)  # as a change of the schedule would plan it, after the clock was set back
    bench.scheduler.fire_due_schedules()
    assert list_keys(bench) == [f"slot:{slot}"]
    assert bench.load(automation).next_slot_at == slot + clock.HOUR


def test_disabled_schedule_does_not_fire(bench: Bench) -> None:
    automation = bench.create(trigger=HOURLY)
    bench.desk.automations.change(bench.project, automation.id, {"enabled": False}, actor="Ada")
    bench.make_due(automation, last_full_hour())
    bench.scheduler.fire_due_schedules()
    assert list_keys(bench) == []


def test_slot_that_a_limit_holds_fires_when_the_limit_allows_it(bench: Bench) -> None:
    automation = bench.create(trigger=HOURLY, dailyLimit=1)
    bench.run(automation)
    bench.make_due(automation, last_full_hour())
    bench.scheduler.fire_due_schedules()
    notice = bench.load(automation).notice
    assert notice is not None
    assert len(list_keys(bench)) == 1
    bench.desk.automations.change(bench.project, automation.id, {"dailyLimit": 2}, actor="Ada")
    assert bench.load(automation).notice is None
    bench.scheduler.fire_due_schedules()
    assert len(list_keys(bench)) == 2


def test_one_broken_automation_does_not_stop_the_others(bench: Bench) -> None:
    broken, sound = bench.create(trigger=HOURLY), bench.create(trigger=HOURLY)
    bench.make_due(broken, last_full_hour() - clock.HOUR)
    bench.make_due(sound, last_full_hour())
    with bench.desk.database.write() as tx:
        tx.exec_driver_sql(f"update automations set definition = '{{}}' where id = '{broken.id}'")
    bench.scheduler.fire_due_schedules()
    [job] = bench.list_jobs()
    assert job.automation_id == sound.id


def test_only_the_holder_of_the_lease_evaluates(bench: Bench) -> None:
    first, second = bench.scheduler, bench.scheduler
    assert first.lease.acquire()
    assert not second.lease.acquire()
    assert first.lease.acquire()
    with bench.desk.database.write() as tx:
        tx.execute(update(leases).values(until=clock.now() - 1))
    assert second.lease.acquire()
    assert not first.lease.acquire()


def test_lease_from_before_the_clock_was_set_back_counts_as_expired(bench: Bench) -> None:
    assert bench.scheduler.lease.acquire()
    with bench.desk.database.write() as tx:
        tx.execute(update(leases).values(until=clock.now() + LEASE_MS + clock.DAY))
    assert bench.scheduler.lease.acquire()


def run_schedulers(url: str, data: Path, rounds: int) -> None:
    """Evaluates without the lease, so that all processes race for each slot."""
    desk = open_desk_lazily(Settings(data=data, database_url=url))
    scheduler = Scheduler(desk.database, desk.automations.firing)
    for _ in range(rounds):
        scheduler.fire_due_schedules()
    desk.close()


def test_three_processes_fire_each_slot_once_although_one_is_killed(
    bench: Bench, migrated_url: str, tmp_path: Path
) -> None:
    bench.desk.projects.change(bench.project.id, {"max_open_pull_requests": "1000"}, actor="test")
    made = [bench.create(name=f"{number}", trigger=HOURLY, grouping="new") for number in range(20)]
    slot = last_full_hour()
    for automation in made:
        bench.make_due(automation, slot)
    processes = [
        forkserver.Process(target=run_schedulers, args=(migrated_url, tmp_path / "data", 2 if number else 1000))
        for number in range(3)
    ]
    for process in processes:
        process.start()
    processes[1].join(120)
    processes[0].kill()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [-signal.SIGKILL, 0, 0]
    bench.scheduler.fire_due_schedules()
    assert list_keys(bench) == [f"slot:{slot}"] * 20
    assert {job.automation_id for job in bench.list_jobs()} == {automation.id for automation in made}
    assert len(bench.list_jobs()) == 20
    assert datetime.fromtimestamp(slot / 1000, UTC).minute == 0
