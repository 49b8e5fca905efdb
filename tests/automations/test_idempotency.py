"""Requests that run an automation with an idempotency key: the same key returns the same run."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, update

from copydesk.automations.firing import LimitReached
from copydesk.automations.service import AutomationDisabled
from copydesk.core import clock
from copydesk.core.errors import Conflict
from copydesk.jobs.service import NewJob
from copydesk.jobs.storage.tables import idempotency, messages
from tests.automations.conftest import PROMPT, Bench


def test_same_key_returns_the_same_run_also_if_it_continued_a_job(bench: Bench) -> None:
    automation = bench.create(grouping="append")
    runs = [
        bench.desk.automations.run_now(bench.project, automation.id, actor="CI", idempotency_key=key)
        for key in ("a", "b", "a", "b")
    ]
    assert [run.is_new for run in runs] == [True, True, False, False]
    assert [run.run_id for run in runs[2:]] == [run.run_id for run in runs[:2]]
    assert len({run.run_id for run in runs}) == 2
    assert len({run.job_id for run in runs}) == 1  # the second run is a message to the job of the first
    with bench.desk.database.read() as tx:
        assert len(tx.execute(select(messages)).all()) == 2


def test_key_of_another_automation_or_job_is_a_conflict(bench: Bench) -> None:
    automations = bench.desk.automations
    first, second = bench.create(), bench.create()
    automations.run_now(bench.project, first.id, actor="CI", idempotency_key="a")
    bench.desk.jobs.create(bench.project, NewJob(PROMPT), "b")
    with pytest.raises(Conflict, match="already used"):
        automations.run_now(bench.project, second.id, actor="CI", idempotency_key="a")
    with pytest.raises(Conflict, match="already used"):
        automations.run_now(bench.project, second.id, actor="CI", idempotency_key="b")
    with pytest.raises(Conflict, match="already used"):
        bench.desk.jobs.create(bench.project, NewJob(PROMPT), "a")
    assert len(bench.list_jobs()) == 2


def test_refused_request_does_not_use_up_its_key(bench: Bench) -> None:
    automation = bench.create(dailyLimit=1, grouping="new")
    automations = bench.desk.automations
    automations.run_now(bench.project, automation.id, actor="CI", idempotency_key="a")
    with pytest.raises(LimitReached):
        automations.run_now(bench.project, automation.id, actor="CI", idempotency_key="b")
    automations.change(bench.project, automation.id, {"dailyLimit": 2}, actor="Ada")
    assert automations.run_now(bench.project, automation.id, actor="CI", idempotency_key="b").is_new


def test_repeated_request_is_answered_although_the_automation_was_disabled_meanwhile(bench: Bench) -> None:
    automation = bench.create()
    automations = bench.desk.automations

    def run(key: str) -> str:
        return automations.run_now(
            bench.project, automation.id, actor="CI", require_enabled=True, idempotency_key=key
        ).run_id

    first = run("a")
    automations.change(bench.project, automation.id, {"enabled": False}, actor="Ada")
    assert run("a") == first
    with pytest.raises(AutomationDisabled):
        run("b")


def test_key_is_forgotten_after_a_day(bench: Bench) -> None:
    automation = bench.create(grouping="new")
    automations = bench.desk.automations
    first = automations.run_now(bench.project, automation.id, actor="CI", idempotency_key="a")
    with bench.desk.database.write() as tx:
        tx.execute(update(idempotency).values(created_at=clock.now() - clock.DAY - 1000))
    again = automations.run_now(bench.project, automation.id, actor="CI", idempotency_key="a")
    assert again.is_new
    assert again.run_id != first.run_id


@pytest.mark.deep
def test_request_that_is_sent_many_times_at_once_starts_one_run(bench: Bench) -> None:
    automation = bench.create(grouping="new")

    def run(_: int) -> str:
        return bench.desk.automations.run_now(bench.project, automation.id, actor="CI", idempotency_key="a").run_id

    with ThreadPoolExecutor(8) as executor:
        assert len(set(executor.map(run, range(24)))) == 1
    assert len(bench.list_jobs()) == 1
