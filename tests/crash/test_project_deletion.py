"""A `kill -9` during the deletion of a project leaves it complete or gone, and the rest is deleted afterwards."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from copydesk.core import clock
from tests.support.drills import mark_drills
from tests.support.repositories import make_repository
from tests.support.service import STORE_KIND, serve

pytestmark = pytest.mark.deep

VIEW = {"path": "/a", "ip": "192.0.2.7", "userAgent": "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Firefox/144.0"}
FEW_MOMENTS = "0 3 9 15 21 30 36 42 45 48 51 54 57"
"""In the transaction, after it, and while the clone is deleted."""
ALL_MOMENTS = " ".join(map(str, range(80)))
PAST_THE_END = "10000"


@pytest.fixture
def stopped(tmp_path: Path) -> tuple[Path, str]:
    """Returns the data folder of a service that was stopped, and the ID of its only project."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    with serve(tmp_path / "data", repository=repository) as service:
        job = service.client.create_job("Replace colour with color.")
        assert service.client.wait(job["id"])["status"] == "completed"
        service.client.send_events([VIEW])
        service.desk.feedback.add(service.project.id, "/a", True, "Good.", clock.now())
        service.desk.secrets.set(service.project.id, "forge_token", "token", actor="test")
        return tmp_path / "data", service.project.id


def kill_deletions(data: Path, project_id: str, moments: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.crash.killed_deletions", str(data), project_id, *moments.split()]
    process = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.mark.skipif(STORE_KIND != "embedded", reason="copies the data folder")
@pytest.mark.parametrize("moments", mark_drills([FEW_MOMENTS, ALL_MOMENTS], default=[FEW_MOMENTS]))
def test_killed_deletion_leaves_the_project_complete_or_gone(stopped: tuple[Path, str], moments: str) -> None:
    reports = kill_deletions(*stopped, moments)
    [complete] = {tuple(report["before"].values()) for report in reports if report["existed"]}
    assert 0 not in complete, "there is something to delete in each table"
    for report in reports:
        assert report["existed"] or set(report["before"].values()) == {0}, report
        assert set(report["after"].values()) == {0}, report
        assert (report["views"], report["mirrors"]) == (0, []), report
    assert {report["existed"] for report in reports if report["killed"]} == {True, False}
    [finished] = kill_deletions(*stopped, PAST_THE_END)
    assert not finished["killed"], "there are fewer moments"
