"""ClickHouse becomes unavailable: events are refused until it returns, and jobs are not affected."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.drill import SCALE, tell
from tests.faults.final_state import reckon
from tests.faults.fleet import new_fleet, slow_model
from tests.faults.traffic import Traffic
from tests.support.clickhouse import ClickHouse, clickhouse_server
from tests.support.postgres import new_database

AWAY: dict[str, tuple[Callable[[ClickHouse], None], Callable[[ClickHouse], None]]] = {
    "killed": (ClickHouse.kill, ClickHouse.start),
    "silent": (ClickHouse.pause, ClickHouse.resume),
}
ANSWERED_WITHIN = 25.0
"""Seconds: the service's timeout for ClickHouse, plus that of the previous batch."""


@pytest.mark.drill
@pytest.mark.parametrize("how", AWAY)
def test_clickhouse_outage_loses_no_event_and_delays_no_job(tmp_path: Path, how: str) -> None:
    leave, come_back = AWAY[how]
    with (
        clickhouse_server() as clickhouse,
        slow_model(0.2) as model,
        new_fleet(tmp_path, new_database(), model=model, analytics_url=clickhouse.new_database()) as fleet,
    ):
        fleet.add_site()
        for _ in range(2):
            fleet.serve()
            fleet.work()
        traffic = Traffic(fleet, jobs_per_second=2, events_per_second=8, scripted=True)
        with traffic.flowing(clients=4) as account:
            time.sleep(3)
            leave(clickhouse)
            time.sleep(2)
            events, jobs, refused = len(account.events), len(account.jobs), account.answers["503"]
            time.sleep(60 * SCALE)
            tell(f"while away: {len(account.jobs) - jobs} jobs and {len(account.events) - events} events accepted")
            assert len(account.events) == events, "an event was accepted that nobody could keep"
            assert account.answers["503"] > refused or how == "silent"
            assert len(account.jobs) - jobs > 30 * SCALE, "jobs were held up"
            come_back(clickhouse)
            time.sleep(5)
            assert len(account.events) > events, "it does not recover by itself"
        reckon(fleet, account)
        assert account.slowest < ANSWERED_WITHIN
