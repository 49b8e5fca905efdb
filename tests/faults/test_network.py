"""Network failures between the processes and PostgreSQL: slow, cut, half-closed, silent."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.crash.harness import wait_until
from tests.faults.drill_output import DRILL_SCALE, print_line
from tests.faults.final_state import check_final_state
from tests.faults.fleet import Fleet, serve_slow_model, start_fleet
from tests.faults.traffic import Traffic
from tests.support.postgres import connect_to_server, new_database, url_through_port
from tests.support.tcp_proxy import TcpProxy, tcp_proxy

pytestmark = pytest.mark.deep

TROUBLES = ("slow", "cut", "half-closed", "refused", "silent", "forgotten")
CLIENTS = 100
ANSWERED_WITHIN = 20.0
"""Seconds: a client must receive an error before its own timeout."""


@contextmanager
def _fleet(folder: Path, servers: int = 2, workers: int = 2) -> Iterator[tuple[Fleet, TcpProxy]]:
    database = new_database()
    with (
        tcp_proxy(partial(connect_to_server, database)) as proxy,
        serve_slow_model(0.3) as model,
        start_fleet(folder, database, seen_as=url_through_port(database, proxy.port), model=model) as fleet,
    ):
        for name in ("docs", "guide"):
            fleet.add_project(name)
        for _ in range(servers):
            fleet.start_server()
        for _ in range(workers):
            fleet.start_worker()
        yield fleet, proxy


def _inject_fault(proxy: TcpProxy, kind: str, seconds: float) -> None:
    match kind:
        case "slow":
            proxy.delay = 0.05
            time.sleep(seconds)
            proxy.delay = 0
        case "cut":
            for _ in range(3):
                assert proxy.cut()
                time.sleep(seconds / 3)
        case "half-closed":
            for _ in range(3):
                proxy.half_close()
                time.sleep(seconds / 3)
        case "refused":
            proxy.refuses = True
            proxy.cut()
            time.sleep(seconds)
            proxy.refuses = False
        case "silent":
            proxy.is_silent = True
            time.sleep(seconds)
            proxy.is_silent = False
        case "forgotten":
            proxy.forget()
            time.sleep(seconds)


@pytest.mark.drill
@pytest.mark.parametrize("kind", TROUBLES)
def test_nothing_is_lost_or_done_twice_on_an_unreliable_network(tmp_path: Path, kind: str) -> None:
    with _fleet(tmp_path) as (fleet, proxy):
        traffic = Traffic(fleet, jobs_per_second=4, events_per_second=10, scripted=True)
        with traffic.run() as account:
            time.sleep(1)
            _inject_fault(proxy, kind, 20 * DRILL_SCALE)
            time.sleep(1)
        check_final_state(fleet, account)
        assert account.slowest < ANSWERED_WITHIN


@pytest.mark.drill
@pytest.mark.parametrize("kind", ["silent", "forgotten"])
def test_server_answers_and_recovers_when_database_connections_hang(tmp_path: Path, kind: str) -> None:
    """A connection that accepts everything and returns nothing looks healthy to TCP."""
    with _fleet(tmp_path, servers=1, workers=1) as (fleet, proxy):
        site = fleet.sites[0]
        with fleet.client(site) as client:
            job = client.post(site.at(), json={"prompt": "Spell."}).json()["id"]
            if kind == "silent":
                proxy.is_silent = True
            else:
                proxy.forget()
            began = time.monotonic()
            with ThreadPoolExecutor(CLIENTS) as clients:
                answers = list(clients.map(lambda _: client.get(site.at(f"/{job}")).status_code, range(CLIENTS)))
            took = time.monotonic() - began
            print_line(f"{kind}: {CLIENTS} requests answered with {dict(Counter(answers))} after {took:.1f} s")
            assert took < ANSWERED_WITHIN
            assert set(answers) <= ({503} if kind == "silent" else {200, 503})
            proxy.is_silent = False
            wait_until(lambda: client.get(site.at(f"/{job}")).status_code == 200, "the server to recover", 15)
            wait_until(lambda: client.get(site.at(f"/{job}")).json()["status"] == "completed", "the worker to", 30)
