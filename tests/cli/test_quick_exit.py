"""A process ends with the right status and complete output, and without warnings of DuckDB's bindings."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import open_desk_lazily
from tests.support.drills import mark_drills

ROOT = Path(__file__).parent.parent.parent
LINE = '192.0.2.7 - - [01/Mar/2026:10:00:00 +0000] "GET /page{} HTTP/1.1" 200 100 "-" "Mozilla/5.0 Firefox/144.0"\n'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    desk = open_desk_lazily(Settings(data=tmp_path / "data"))
    project = desk.projects.create("Docs", repository=str(tmp_path), ref="main", actor="test")
    desk.close()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "COPYDESK_DATA": str(tmp_path / "data"),
        "COPYDESK_PROJECT": project.id,
    }


def run_command(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "copydesk", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.drill
def test_commands_that_use_duckdb_print_no_binding_warnings(environment: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("".join(map(LINE.format, range(200))))
    for arguments, status in (
        (("analytics", "import", str(log)), 0),
        (("analytics", "rebuild"), 0),
        (("analytics", "backup", str(tmp_path / "copy.duckdb")), 0),
        (("analytics", "backup", str(tmp_path / "missing" / "copy.duckdb")), 1),
        (("backup", str(tmp_path / "backup")), 0),
        (("analytics", "delete", "--yes"), 0),
    ):
        done = run_command(environment, *arguments)
        assert done.returncode == status, done.stderr
        assert "nanobind" not in done.stderr


@pytest.mark.deep
def test_connection_held_by_a_daemon_thread_is_not_reported_as_a_leak(environment: dict[str, str]) -> None:
    code = """
import threading, time, duckdb
from copydesk.cli.quick_exit import QuickExit
QuickExit().status = 3
connection = duckdb.connect()
threading.Thread(target=lambda held: time.sleep(600), args=(connection,), daemon=True).start()
print("written")
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "written\n", "")


@pytest.mark.deep
@pytest.mark.parametrize("stop", mark_drills((signal.SIGTERM, signal.SIGINT), default=(signal.SIGTERM,)))
def test_stopped_server_prints_no_duckdb_binding_warnings(
    environment: dict[str, str], tmp_path: Path, stop: signal.Signals
) -> None:
    log = tmp_path / "access.log"
    log.write_text("".join(map(LINE.format, range(20))))
    alone = run_command(environment, "analytics", "import", str(log))
    assert alone.returncode == 0
    assert "nanobind" not in alone.stderr
    command = [sys.executable, "-m", "copydesk", "serve", "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        assert re.search(r"Copydesk is running at http://", said), said + server.stderr.read()
        # the server opens DuckDB on behalf of this process
        imported = run_command(environment, "analytics", "import", str(log))
        server.send_signal(stop)
        said = server.communicate(timeout=60)[1]
    assert imported.returncode == 0, imported.stderr
    assert server.returncode == 0, said
    assert "nanobind" not in said


@pytest.mark.deep
@pytest.mark.parametrize(
    ("arguments", "status"),
    [("--version", 0), ("project list", 0), ("project show --project none", 1), ("project --wrong", 2)],
)
def test_exit_status_says_how_a_command_ended(environment: dict[str, str], arguments: str, status: int) -> None:
    done = run_command(environment, *arguments.split())
    assert done.returncode == status, done.stderr
    assert done.stdout or done.stderr


@pytest.mark.deep
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_output_that_cannot_be_written_is_an_error(environment: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "copydesk", "project", "list", "--json"],
            env=environment, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode != 0
    assert b"No space left on device" in done.stderr
