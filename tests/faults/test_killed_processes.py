"""Processes that are killed under load."""

import itertools
import time
from functools import partial
from pathlib import Path

import pytest

from tests.faults.drill import SCALE
from tests.faults.final_state import reckon
from tests.faults.fleet import new_fleet, slow_model
from tests.faults.traffic import Traffic
from tests.support.postgres import line_to, new_database, own_server, through
from tests.support.tcp_proxy import proxied


@pytest.mark.drill
def test_nothing_is_lost_or_done_twice_while_processes_are_killed(tmp_path: Path) -> None:
    """Runs two servers and three workers for two minutes."""
    with slow_model(0.3) as model, new_fleet(tmp_path, new_database(), model=model) as fleet:
        for name in ("docs", "guide"):
            fleet.add_site(name)
        processes = [*(fleet.serve() for _ in range(2)), *(fleet.work() for _ in range(3))]
        traffic = Traffic(fleet, jobs_per_second=3, events_per_second=10, scripted=True)
        with traffic.flowing() as account:
            for victim in itertools.islice(itertools.cycle(processes), round(40 * SCALE)):
                time.sleep(3)
                victim.kill()
                victim.start()
        reckon(fleet, account)


def test_nothing_is_lost_or_done_twice_under_all_faults_together(tmp_path: Path) -> None:
    with (
        own_server() as server,
        slow_model(0.3) as model,
        proxied(partial(line_to, server.url)) as proxy,
    ):
        database = new_database(server.url)
        with new_fleet(tmp_path, database, seen_as=through(database, proxy.port), model=model) as fleet:
            fleet.add_site()
            processes = [*(fleet.serve() for _ in range(2)), *(fleet.work() for _ in range(2))]
            traffic = Traffic(fleet, jobs_per_second=4, events_per_second=8, scripted=True)
            with traffic.flowing() as account:
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
            reckon(fleet, account)
