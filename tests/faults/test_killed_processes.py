"""Processes that are killed under load."""

import itertools
import time
from functools import partial
from pathlib import Path

import pytest

from tests.faults.drill_output import DRILL_SCALE
from tests.faults.final_state import check_final_state
from tests.faults.fleet import serve_slow_model, start_fleet
from tests.faults.traffic import Traffic
from tests.support.postgres import connect_to_server, dedicated_server, new_database, url_through_port
from tests.support.tcp_proxy import tcp_proxy

pytestmark = pytest.mark.deep


@pytest.mark.drill
def test_nothing_is_lost_or_done_twice_while_processes_are_killed(tmp_path: Path) -> None:
    """Runs two servers and three workers for two minutes."""
    with serve_slow_model(0.3) as model, start_fleet(tmp_path, new_database(), model=model) as fleet:
        for name in ("docs", "guide"):
            fleet.add_project(name)
        processes = [*(fleet.start_server() for _ in range(2)), *(fleet.start_worker() for _ in range(3))]
        traffic = Traffic(fleet, jobs_per_second=3, events_per_second=10, scripted=True)
        with traffic.run() as account:
            for victim in itertools.islice(itertools.cycle(processes), round(40 * DRILL_SCALE)):
                time.sleep(3)
                victim.kill()
                victim.start()
        check_final_state(fleet, account)


def test_nothing_is_lost_or_done_twice_under_all_faults_together(tmp_path: Path) -> None:
    with (
        dedicated_server() as server,
        serve_slow_model(0.3) as model,
        tcp_proxy(partial(connect_to_server, server.url)) as proxy,
    ):
        database = new_database(server.url)
        with start_fleet(tmp_path, database, seen_as=url_through_port(database, proxy.port), model=model) as fleet:
            fleet.add_project()
            processes = [*(fleet.start_server() for _ in range(2)), *(fleet.start_worker() for _ in range(2))]
            traffic = Traffic(fleet, jobs_per_second=4, events_per_second=8, scripted=True)
            with traffic.run() as account:
                for victim in processes[1:3]:
                    time.sleep(0.7)
                    victim.kill()
                    victim.start()
                time.sleep(0.7)
                assert proxy.cut()
                time.sleep(0.7)
                server.stop("immediate")
                time.sleep(0.5)
                server.start()
            check_final_state(fleet, account)
