"""Workers that resume after a pause, jobs that kill every worker, and an API process killed after its 201."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pygit2
import pytest

from copydesk.jobs.job import FAILED, Phase, Reason
from copydesk.jobs.service import NewJob
from tests.conftest import DATABASE_NAMES, DATABASES
from tests.crash.harness import (
    FILES_AFTER,
    FILES_AFTER_FOLLOW_UP,
    SHORT_LEASE_SECONDS,
    CrashCase,
    open_case,
    wait_until,
)
from tests.support.drills import mark_drills
from tests.support.repositories import commit

pytestmark = pytest.mark.deep

PAUSES = ("turn-1-reply:middle", "push:before", "push:acted")
BOTH = pytest.mark.parametrize("database", DATABASES)
SQLITE_FIRST = pytest.mark.parametrize("database", mark_drills(DATABASE_NAMES, default=("sqlite",)))
SQLITE = pytest.mark.parametrize("database", ["sqlite"])  # independent of the database
POSTGRES = pytest.mark.parametrize("database", ["postgres"])  # SQLite allows only one writer


@pytest.fixture
def case(database: str, tmp_path: Path) -> Iterator[CrashCase]:
    with open_case(database, tmp_path) as case:
        case.create()
        yield case


@BOTH
@pytest.mark.parametrize("point", mark_drills(PAUSES, default=("push:before",)))
def test_worker_resumed_after_its_lease_expired_changes_nothing(case: CrashCase, point: str) -> None:
    paused = _start_paused_worker(case, point)
    case.recover()
    case.check_published()
    head, asked = case.head, case.requests_by_turn
    _resume_worker(case, paused)
    case.check_published()
    assert (case.head, case.requests_by_turn) == (head, asked)


@BOTH
@pytest.mark.drill
def test_resumed_worker_does_not_undo_a_follow_up(case: CrashCase) -> None:
    paused = _start_paused_worker(case, "push:before")
    case.recover()
    case.send_message()
    case.recover()
    _resume_worker(case, paused)
    case.check_published(commits=2, files=FILES_AFTER_FOLLOW_UP)


@SQLITE_FIRST
@pytest.mark.drill
def test_only_worker_finishes_its_own_job_after_a_pause(case: CrashCase) -> None:
    """The worker may take over its own expired lease: then its old thread and its new one meet."""
    paused = _start_paused_worker(
        case, "turn-1-reply:middle", slow=SHORT_LEASE_SECONDS * 1.5, lease_seconds=SHORT_LEASE_SECONDS
    )
    time.sleep(SHORT_LEASE_SECONDS * 1.5)
    os.kill(_read_pid(paused), signal.SIGCONT)
    case.wait_for_end()
    case.check_published()
    assert case.requests_by_turn[0] <= 2
    assert case.requests_by_turn[1] == 1


@POSTGRES
@pytest.mark.parametrize("point", mark_drills(("settle:inside", "open:inside"), default=("open:inside",)))
def test_worker_paused_within_a_transaction_blocks_no_other_job(case: CrashCase, point: str) -> None:
    _start_paused_worker(case, point, lease_seconds=SHORT_LEASE_SECONDS)
    case.start(lease_seconds=SHORT_LEASE_SECONDS)
    time.sleep(SHORT_LEASE_SECONDS * 2)  # by now the other worker has tried to take over the paused worker's job
    others: list[str] = []
    creation = threading.Thread(
        target=lambda: others.append(case.desk.jobs.create(case.project, NewJob("Another one.")).job.id), daemon=True
    )
    creation.start()
    wait_until(lambda: len(others) == 1, "another job to be accepted")
    wait_until(lambda: case.desk.jobs.get(case.project.id, others[0]).phase is Phase.DONE, "its end")


@SQLITE_FIRST
def test_a_job_that_kills_its_workers_ends_as_failed(case: CrashCase) -> None:
    for _ in range(2):
        case.crash("turn-1-acts:middle", max_attempts=2)
    case.recover(max_attempts=2)
    assert (case.job.status, case.job.reason) == (FAILED, Reason.INTERNAL_ERROR)
    assert case.job.message
    assert case.requests_by_turn == {0: 1}
    assert case.desk.pulls.list_for_project(case.project.id) == []


@SQLITE
@pytest.mark.parametrize("point", mark_drills(("push:recorded", "open:recorded"), default=("push:recorded",)))
def test_message_after_a_failed_publish_continues_from_the_pushed_branch(case: CrashCase, point: str) -> None:
    case.crash(point, max_attempts=1)
    case.recover(max_attempts=1)
    assert case.job.status is FAILED
    case.send_message()
    case.recover()
    case.check_published(commits=2, files=FILES_AFTER_FOLLOW_UP)


@SQLITE
@pytest.mark.parametrize("point", mark_drills(("turn-1-reply:recorded", "open:recorded"), default=("open:recorded",)))
def test_usage_counts_each_reply_once_across_resumes(case: CrashCase, point: str) -> None:
    case.crash(point)
    case.recover()
    usage = case.job.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (2, 20, 10)


@SQLITE
def test_git_killed_with_its_worker_does_not_damage_the_mirror(case: CrashCase) -> None:
    """A git that is killed while it updates a branch of the mirror leaves the branch's lock behind."""
    case.crash("commit:before")
    files = {"docs/other.md": b"# Another\n"}
    case.main = commit(pygit2.Repository(str(case.repository)), files)
    (mirror,) = (case.folder / "data" / "mirrors").glob("*.git")
    (mirror / "refs" / "copydesk" / "main.lock").touch()
    case.recover()
    case.check_published(files={**FILES_AFTER, **files})


@SQLITE_FIRST
def test_a_job_survives_the_kill_of_the_process_that_just_accepted_it(database: str, tmp_path: Path) -> None:
    with open_case(database, tmp_path) as case:
        key = case.desk.keys.create(case.project.id, actor="test")[1]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "copydesk", "serve", "--no-worker", "--port", str(port)]
        settings = {f"COPYDESK_{name.upper()}": str(value) for name, value in case.settings.items()}
        with subprocess.Popen(command, env={**os.environ, **settings}, stderr=subprocess.DEVNULL) as server:
            try:
                wait_until(lambda: _is_listening(port), "the server to listen")
                url = f"http://127.0.0.1:{port}/v2/agent/{case.project.id}/job"
                answer = httpx.post(
                    url, json={"prompt": "Spell."}, headers={"Authorization": f"Bearer {key}"}, timeout=60
                )
            finally:
                server.kill()
        assert answer.status_code == 201
        case.job_id = answer.json()["id"]
        case.recover()
        case.check_published()


def _start_paused_worker(case: CrashCase, point: str, slow: float = 0, **settings: Any) -> ForkServerProcess:
    worker = case.start(point, signal.SIGSTOP, slow=slow, **settings)
    case.wait_for_line(f"reached {point}")
    return worker


def _resume_worker(case: CrashCase, paused: ForkServerProcess) -> None:
    """Resumes the worker and waits until the paused attempt has ended."""
    os.kill(_read_pid(paused), signal.SIGCONT)
    case.wait_for_line("left 1")


def _read_pid(worker: ForkServerProcess) -> int:
    assert worker.pid is not None
    return worker.pid


def _is_listening(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0
