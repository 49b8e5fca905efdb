"""A full disk: writes that cannot be stored are refused, and everything works again once there is space."""

import time
from pathlib import Path

import pytest

from copydesk.core.errors import DiskFull
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from tests.crash.harness import wait_until
from tests.faults.drill_output import DRILL_SCALE
from tests.faults.final_state import check_final_state
from tests.faults.fleet import serve_slow_model, start_fleet
from tests.faults.traffic import PROMPT, AcceptedWork, Traffic
from tests.support.postgres import new_database
from tests.support.repositories import AUTHOR, make_repository
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.deep

MEGABYTE = 1 << 20


@pytest.mark.drill
def test_full_disk_loses_nothing_accepted_by_the_embedded_stores(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", 48 * MEGABYTE) as disk,
        serve_slow_model(0.2) as model,
        start_fleet(
            tmp_path, f"sqlite:///{disk.folder / 'data' / 'copydesk.db'}", model=model, data=disk.folder / "data"
        ) as fleet,
    ):
        fleet.add_project()
        fleet.start_server()
        fleet.start_worker(data=disk.folder / "data")
        traffic = Traffic(fleet, jobs_per_second=4, events_per_second=8, scripted=True)
        with traffic.run() as account:
            for _ in range(max(1, round(3 * DRILL_SCALE))):
                time.sleep(3)
                before = account.answers["503"]
                disk.fill()
                time.sleep(6)
                assert account.answers["503"] > before, "nobody noticed"
                disk.make_room()
        check_final_state(fleet, account)


@pytest.mark.drill
def test_job_waits_for_disk_space_for_its_mirror(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", 8 * MEGABYTE) as disk,
        start_fleet(tmp_path, new_database()) as fleet,
    ):
        known, new = fleet.add_project("known"), fleet.add_project("new")
        fleet.start_server()
        fleet.start_worker(data=disk.folder / "data")
        account = AcceptedWork()
        for number, (site, is_full) in enumerate(((known, False), (known, True), (new, True))):
            with fleet.client(site) as client:
                if is_full:
                    disk.fill()
                account.jobs[str(number)] = job = client.post(site.at(), json={"prompt": PROMPT}).json()["id"]
                time.sleep(2)
                if is_full:
                    assert (told := client.get(site.at(f"/{job}")).json())["status"] == "active", told["message"]
                    disk.make_room()
                wait_until(lambda: client.get(site.at(f"/{job}")).json()["status"] == "completed", "the job", 30)  # noqa: B023
        check_final_state(fleet, account)


def test_commit_on_a_full_disk_raises_disk_full(tmp_path: Path) -> None:
    far = make_repository(tmp_path / "far.git", {"index.md": b"# Hello\n"})
    with small_disk(tmp_path / "disk", 2 * MEGABYTE) as disk:
        mirror = Mirror(disk.folder / "mirror.git", Git(str(far)))
        head = mirror.fetch_head("main")
        changes: dict[str, bytes | None] = {"index.md": b"# Hallo\n"}
        mirror.commit(head, changes, "The tree is there", AUTHOR)
        disk.fill()
        with pytest.raises(DiskFull):
            mirror.commit(head, changes, "The commit is not", AUTHOR)
        disk.make_room()
        mirror.push(mirror.commit(head, changes, "The commit is not", AUTHOR), "changed", expected=None)


@pytest.mark.drill
def test_a_full_disk_is_named_in_the_answer(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", 48 * MEGABYTE) as disk,
        start_fleet(tmp_path, f"sqlite:///{disk.folder / 'data' / 'copydesk.db'}", data=disk.folder / "data") as fleet,
    ):
        site = fleet.add_project()
        fleet.start_server()
        with fleet.client(site) as client:
            assert client.post(site.events, json={"path": "/guide"}).status_code == 202
            disk.fill()
            answers = client.post(site.at(), json={"prompt": PROMPT}), client.post(site.events, json={"path": "/guide"})
            assert [answer.status_code for answer in answers] == [503, 503]
            assert [answer.json()["code"] for answer in answers] == ["disk_full", "store_full"]
