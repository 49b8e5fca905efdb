"""PostgreSQL stops under load and starts again with its data."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import httpx2 as httpx
import pytest

from copydesk.jobs.job import ACTIVE
from tests.crash.harness import wait_until
from tests.faults.drill_output import DRILL_SCALE, print_line
from tests.faults.final_state import check_final_state, check_logs
from tests.faults.fleet import SCRIPTED_MODEL, FleetProject, serve_slow_model, start_fleet
from tests.faults.traffic import PROMPT, Traffic
from tests.support.postgres import dedicated_server, new_database
from tests.support.processes import RunningServer

pytestmark = pytest.mark.deep

HOW: tuple[Literal["fast", "immediate"], ...] = ("fast", "immediate")


@pytest.mark.drill
def test_nothing_is_lost_or_done_twice_while_postgresql_restarts(tmp_path: Path) -> None:
    with (
        dedicated_server() as server,
        serve_slow_model(0.3) as model,
        start_fleet(tmp_path, new_database(server.url), model=model) as fleet,
    ):
        for name in ("docs", "guide"):
            fleet.add_project(name)
        for _ in range(2):
            fleet.start_server()
            fleet.start_worker()
        traffic = Traffic(fleet, jobs_per_second=4, events_per_second=10, scripted=True)
        with traffic.run() as account:
            for turn in range(max(2, round(8 * DRILL_SCALE))):
                time.sleep(6)
                server.stop(HOW[turn % 2])
                time.sleep(4)
                server.start()
        assert account.answers["503"], "nobody noticed"
        check_final_state(fleet, account)


@pytest.mark.drill
def test_event_stream_has_every_event_once_across_postgresql_restarts(tmp_path: Path) -> None:
    """When a stream ends, the client reconnects with the number of the last event, as browsers do."""
    with (
        dedicated_server() as server,
        serve_slow_model(2.5) as model,
        start_fleet(tmp_path, new_database(server.url), model=model) as fleet,
    ):
        site = fleet.add_project()
        api, _ = fleet.start_server(), fleet.start_worker()
        with fleet.client(site) as client:
            job = client.post(site.at(), json={"prompt": PROMPT, "model": SCRIPTED_MODEL}).json()["id"]

        def restart() -> None:
            time.sleep(2)
            server.stop()
            time.sleep(1)
            server.start()

        restarting = threading.Thread(target=restart)
        restarting.start()
        heard: list[int] = []
        streams = 0
        while fleet.desk.jobs.get(site.project.id, job).status is ACTIVE or not streams:
            streams += 1
            heard.extend(_event_numbers(api, site, job, after=heard[-1] if heard else 0))
            restarting.join()
        print_line(f"{len(heard)} events over {streams} streams")
        assert heard == list(range(1, fleet.desk.jobs.get(site.project.id, job).last_event + 1))
        check_logs(fleet)


def _event_numbers(api: RunningServer, site: FleetProject, job: str, after: int) -> Iterator[int]:
    """Returns the numbers of the events in one stream."""
    headers = {**site.headers, "Last-Event-ID": str(after)}
    with (
        suppress(httpx.TransportError),
        httpx.stream("GET", api.url + site.at(f"/{job}/events"), headers=headers, timeout=30) as stream,
    ):
        for line in stream.iter_lines() if stream.status_code == 200 else ():
            if line.startswith("id: "):
                yield int(line.removeprefix("id: "))


@pytest.mark.drill
def test_worker_stops_cleanly_while_postgresql_is_unavailable(tmp_path: Path) -> None:
    with (
        dedicated_server() as server,
        serve_slow_model(60) as model,
        start_fleet(tmp_path, new_database(server.url), model=model) as fleet,
    ):
        site = fleet.add_project()
        api, worker = fleet.start_server(), fleet.start_worker()
        with fleet.client(site) as client:
            client.post(site.at(), json={"prompt": "Spell it so.", "model": "openai-compatible:scripted"})
        wait_until(lambda: bool(model.requests), "the job to be under way")
        server.stop()
        wait_until(lambda: httpx.get(f"{api.url}/readyz", timeout=60).status_code == 503, "the server to say so", 10)
        assert worker.stop() < 20
        assert api.stop() < 20
        check_logs(fleet)
