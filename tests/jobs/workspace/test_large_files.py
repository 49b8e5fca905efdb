"""A large repository costs a worker time and disk, not memory. `--log-cli-level=info` shows the figures."""

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from copydesk.jobs.job import COMPLETED
from copydesk.jobs.service import NewJob
from tests.jobs.bench import wait_until
from tests.support.repositories import list_branches, read_file

log = logging.getLogger(__name__)
MEGABYTES = int(os.environ.get("LARGE_MEGABYTES", "300"))
PAGES = 2000
MORE_MEMORY = 64 * 1024
"""KiB that a worker may need in addition to those for a small repository."""
pytestmark = pytest.mark.drill


def stream_import(megabytes: int) -> Iterator[bytes]:
    """Generates input for git fast-import: pages, and pictures that cannot be compressed."""
    yield b"commit refs/heads/main\ncommitter Ada <ada@example.org> 1700000000 +0000\ndata 6\nAll of"
    for number in range(PAGES):
        page = f"# Page {number}\n\nThe {'colour' if number == 7 else 'shape'} of things, [next](page-0.md).\n".encode()
        yield b"\nM 100644 inline docs/page-%d.md\ndata %d\n%s" % (number, len(page), page)
    for number in range(megabytes):
        picture = os.urandom(1 << 20)
        yield b"\nM 100644 inline docs/images/%d.png\ndata %d\n%s" % (number, len(picture), picture)
    yield b"\n"


def make_repository_of_size(folder: Path, megabytes: int) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(folder)], check=True)
    command = ["git", "-C", str(folder), "-c", "core.compression=0", "fast-import", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None
        for part in stream_import(megabytes):
            importing.stdin.write(part)
    assert importing.returncode == 0
    return folder


def measure_job_peak(folder: Path, megabytes: int) -> int:
    """Measures the peak KiB of a separate worker that runs two jobs, the second one with a warm mirror."""
    folder.mkdir()
    repository = make_repository_of_size(folder / "docs.git", megabytes)
    desk = open_desk(Settings(data=folder / "data"))
    project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
    environment = {**os.environ, "COPYDESK_DATA": str(folder / "data")}
    command = [sys.executable, "-m", "copydesk", "work"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as worker:
        try:
            for _ in range(2):
                began = time.monotonic()
                job_id = desk.jobs.create(project, NewJob("Replace colour with color.")).job.id
                wait_until(lambda: desk.jobs.get(project.id, job_id).status != "active", 600)  # noqa: B023
                job = desk.jobs.get(project.id, job_id)
                assert job.status is COMPLETED, job.message
                assert b"The color of" in (read_file(repository, job.branch, "docs/page-7.md") or b"")
                log.info("%d MB: a job in %.1f s", megabytes, time.monotonic() - began)
            status = Path(f"/proc/{worker.pid}/status").read_text()
        finally:
            worker.terminate()
    desk.close()
    assert len(list_branches(repository)) == 3
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    log.info("%d MB: a peak of %d MiB", megabytes, int(peak[1]) >> 10)
    return int(peak[1])


def test_a_worker_needs_no_more_memory_for_a_large_repository(tmp_path: Path) -> None:
    small = measure_job_peak(tmp_path / "small", 1)
    assert measure_job_peak(tmp_path / "large", MEGABYTES) < small + MORE_MEMORY
