"""ClickHouse becomes unavailable: events are refused until it returns, and jobs are not affected."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.drill_output import DRILL_SCALE, print_line
from tests.faults.final_state import check_final_state
from tests.faults.fleet import serve_slow_model, start_fleet
from tests.faults.traffic import Traffic
from tests.support.clickhouse import ClickHouseServer, clickhouse_server
from tests.support.postgres import new_database

pytestmark = pytest.mark.deep

AWAY: dict[str, tuple[Callable[[ClickHouseServer], None], Callable[[ClickHouseServer], None]]] = {
    "killed": (ClickHouseServer.kill, ClickHouseServer.start),
    "silent": (ClickHouseServer.pause, ClickHouseServer.resume),
}
ANSWERED_WITHIN = 25.0
"""Seconds: the service's timeout for ClickHouse, plus that of the previous batch."""


@pytest.mark.drill
@pytest.mark.parametrize("how", AWAY)
def test_clickhouse_outage_loses_no_event_and_delays_no_job(tmp_path: Path, how: str) -> None:
    leave, come_back = AWAY[how]
    with (
        clickhouse_server() as clickhouse,
        serve_slow_model(0.2) as model,
        start_fleet(tmp_path, new_database(), model=model, analytics_url=clickhouse.new_database()) as fleet,
    ):
        fleet.add_project()
        for _ in range(2):
            fleet.start_server()
            fleet.start_worker()
        traffic = Traffic(fleet, jobs_per_second=2, events_per_second=8, scripted=True)
        with traffic.run(clients=4) as account:
            time.sleep(3)
            leave(clickhouse)
            time.sleep(2)
            events, jobs, refused = len(account.events), len(account.jobs), account.answers["503"]
            time.sleep(60 * DRILL_SCALE)
            print_line(
                f"while away: {len(account.jobs) - jobs} jobs and {len(account.events) - events} events accepted"
            )
            assert len(account.events) == events, "an event was accepted that nobody could keep"
            assert account.answers["503"] > refused or how == "silent"
            assert len(account.jobs) - jobs > 30 * DRILL_SCALE, "jobs were held up"
            come_back(clickhouse)
            time.sleep(5)
            assert len(account.events) > events, "it does not recover by itself"
        check_final_state(fleet, account)
        assert account.slowest < ANSWERED_WITHIN
