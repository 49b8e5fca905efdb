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
from tests.faults.drill import SCALE, tell
from tests.faults.final_state import check_logs, reckon
from tests.faults.fleet import SCRIPTED, Site, new_fleet, slow_model
from tests.faults.traffic import PROMPT, Traffic
from tests.support.postgres import new_database, own_server
from tests.support.processes import Served

HOW: tuple[Literal["fast", "immediate"], ...] = ("fast", "immediate")


@pytest.mark.drill
def test_nothing_is_lost_or_done_twice_while_postgresql_restarts(tmp_path: Path) -> None:
    with (
        own_server() as server,
        slow_model(0.3) as model,
        new_fleet(tmp_path, new_database(server.url), model=model) as fleet,
    ):
        for name in ("docs", "guide"):
            fleet.add_site(name)
        for _ in range(2):
            fleet.serve()
            fleet.work()
        traffic = Traffic(fleet, jobs_per_second=4, events_per_second=10, scripted=True)
        with traffic.flowing() as account:
            for turn in range(max(2, round(8 * SCALE))):
                time.sleep(6)
                server.stop(HOW[turn % 2])
                time.sleep(4)
                server.start()
        assert account.answers["503"], "nobody noticed"
        reckon(fleet, account)


@pytest.mark.drill
def test_event_stream_has_every_event_once_across_postgresql_restarts(tmp_path: Path) -> None:
    """When a stream ends, the client reconnects with the number of the last event, as browsers do."""
    with (
        own_server() as server,
        slow_model(2.5) as model,
        new_fleet(tmp_path, new_database(server.url), model=model) as fleet,
    ):
        site = fleet.add_site()
        api, _ = fleet.serve(), fleet.work()
        with fleet.client(site) as client:
            job = client.post(site.at(), json={"prompt": PROMPT, "model": SCRIPTED}).json()["id"]

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
            heard.extend(_numbers(api, site, job, after=heard[-1] if heard else 0))
            restarting.join()
        tell(f"{len(heard)} events over {streams} streams")
        assert heard == list(range(1, fleet.desk.jobs.get(site.project.id, job).last_event + 1))
        check_logs(fleet)


def _numbers(api: Served, site: Site, job: str, after: int) -> Iterator[int]:
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
        own_server() as server,
        slow_model(60) as model,
        new_fleet(tmp_path, new_database(server.url), model=model) as fleet,
    ):
        site = fleet.add_site()
        api, worker = fleet.serve(), fleet.work()
        with fleet.client(site) as client:
            client.post(site.at(), json={"prompt": "Spell it so.", "model": "openai-compatible:scripted"})
        wait_until(lambda: bool(model.requests), "the job to be under way")
        server.stop()
        wait_until(lambda: httpx.get(f"{api.url}/readyz", timeout=60).status_code == 503, "the server to say so", 10)
        assert worker.stop() < 20
        assert api.stop() < 20
        check_logs(fleet)
