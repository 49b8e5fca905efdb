"""Calls share a child whose caches are costly, run in parallel otherwise, and never wait for long."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from copydesk.jobs.execution.attempt import Attempt, AttemptStopped
from copydesk.jobs.execution.queue import Claim
from copydesk.jobs.workflow.isolation import ChildLimits, ChildPool, LimitExceeded
from copydesk.jobs.workflow.isolation.child_allocator import MAX_WAIT_SECONDS
from copydesk.jobs.workspace.repository_limits import MIB
from tests.jobs.bench import wait_until
from tests.support.isolated_calls import match_forever, meet, read_repository, wait_for_go

LIMITS = ChildLimits(cpu_seconds=60, memory_bytes=256 * MIB)
LONG_ENOUGH_TO_QUEUE_SECONDS = 0.5

Start = Callable[..., "Future[Any]"]


@pytest.fixture
def pool() -> Iterator[ChildPool]:
    pool = ChildPool(LIMITS)
    yield pool
    pool.close()


@pytest.fixture
def start(pool: ChildPool) -> Iterator[Start]:
    """Returns a function that starts a call in a thread."""
    with ThreadPoolExecutor() as threads:
        yield lambda function, *arguments, **options: threads.submit(pool.run, function, *arguments, **options)


def start_and_wait_for_pid(start: Start, folder: Path) -> tuple["Future[int]", int]:
    """Starts a call that runs until the file `go` exists."""
    file = folder / "pid"
    call = start(wait_for_go, str(file), str(folder / "go"), affinity="docs.git")
    wait_until(lambda: file.exists() and file.read_text() != "")
    return call, int(file.read_text())


def start_and_let_wait(start: Start, folder: Path, **options: Any) -> "Future[int]":
    """Starts a second call of the same task, which then waits for the child of the first one."""
    file = folder / "second-pid"
    call = start(wait_for_go, str(file), str(folder / "go"), affinity="docs.git", **options)
    time.sleep(LONG_ENOUGH_TO_QUEUE_SECONDS)
    assert not call.done()
    assert not file.exists()
    return call


def test_calls_at_once_share_the_child_with_a_costly_cache(start: Start) -> None:
    for were_cached in ([False, True, True, True], [True] * 4):
        calls = [start(read_repository, "docs.git", 1.0, affinity="docs.git") for _ in range(4)]
        answers = [call.result() for call in calls]
        assert len({pid for pid, _ in answers}) == 1
        assert sorted(was_cached for _, was_cached in answers) == were_cached


def test_a_cheap_call_before_does_not_hide_what_a_costly_one_needs(pool: ChildPool, start: Start) -> None:
    """The first call of a job for a repository is quick; a later one of another kind reads all pages."""
    first = pool.run(os.getpid, affinity="docs.git")
    calls = [start(read_repository, "docs.git", 1.0, affinity="docs.git") for _ in range(3)]
    assert {call.result()[0] for call in calls} == {first}


def test_calls_that_warm_up_quickly_run_in_parallel(pool: ChildPool, start: Start, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    for _ in range(2):
        pool.run(meet, one, one, affinity="docs.git")
    Path(one).unlink()
    calls = start(meet, one, two, affinity="docs.git"), start(meet, two, one, affinity="docs.git")
    assert len({call.result() for call in calls}) == 2


def test_calls_whose_child_is_always_replaced_run_in_parallel(pool: ChildPool, start: Start, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    size = LIMITS.memory_bytes // 2
    pool.run(meet, one, one, size, affinity="docs.git")
    Path(one).unlink()
    calls = [start(meet, *files, size, affinity="docs.git") for files in ((one, two), (two, one))]
    started_at = time.monotonic()
    assert len({call.result() for call in calls}) == 2
    assert time.monotonic() - started_at < MAX_WAIT_SECONDS


def test_calls_for_other_repositories_do_not_wait(pool: ChildPool, start: Start, tmp_path: Path) -> None:
    busy, pid = start_and_wait_for_pid(start, tmp_path)
    assert pool.run(os.getpid, affinity="other.git") != pid
    assert not busy.done()
    (tmp_path / "go").touch()
    assert busy.result() == pid


def test_a_call_waits_only_about_as_long_as_a_warm_up_takes(pool: ChildPool, start: Start, tmp_path: Path) -> None:
    first, _ = pool.run(read_repository, "docs.git", 0.3, affinity="docs.git")
    busy = start(read_repository, "docs.git", 0.3, str(tmp_path / "go"), affinity="docs.git")
    time.sleep(LONG_ENOUGH_TO_QUEUE_SECONDS)
    asked_at = time.monotonic()
    second, was_cached = pool.run(read_repository, "docs.git", 0.3, affinity="docs.git")
    assert time.monotonic() - asked_at < MAX_WAIT_SECONDS
    assert not busy.done()
    assert (second != first, was_cached) == (True, False)
    (tmp_path / "go").touch()
    assert busy.result() == (first, True)


def test_calls_that_wait_get_the_child_in_order(pool: ChildPool, start: Start, tmp_path: Path) -> None:
    busy, pid = start_and_wait_for_pid(start, tmp_path)
    calls = []
    for number in range(4):
        file = tmp_path / f"pid-{number}"
        calls.append(start(wait_for_go, str(file), str(tmp_path / "go"), affinity="docs.git"))
        time.sleep(0.2)
    (tmp_path / "go").touch()
    assert {call.result() for call in (busy, *calls)} == {pid}
    started_at = [(tmp_path / f"pid-{number}").stat().st_mtime_ns for number in range(4)]
    assert started_at == sorted(started_at)


def test_calls_go_on_when_the_child_they_wait_for_dies(start: Start, tmp_path: Path) -> None:
    busy, pid = start_and_wait_for_pid(start, tmp_path)
    waiting = start_and_let_wait(start, tmp_path)
    killed_at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(LimitExceeded):
        busy.result()
    wait_until((tmp_path / "second-pid").exists)
    assert time.monotonic() - killed_at < MAX_WAIT_SECONDS - LONG_ENOUGH_TO_QUEUE_SECONDS
    (tmp_path / "go").touch()
    assert waiting.result() != pid


def test_calls_that_exceed_their_limit_do_not_hold_up_others_for_long() -> None:
    pool = ChildPool(ChildLimits(cpu_seconds=1))
    with ThreadPoolExecutor() as threads:
        calls = [threads.submit(pool.run, match_forever, affinity="docs.git") for _ in range(2)]
        assert pool.run(len, "other", affinity="docs.git") == 5
        assert not calls[0].done()
        for call in calls:
            with pytest.raises(LimitExceeded):
                call.result()
    pool.close()


def test_a_call_that_waits_is_stopped_immediately(start: Start, tmp_path: Path) -> None:
    busy, pid = start_and_wait_for_pid(start, tmp_path)
    attempt = Attempt(Claim.__new__(Claim), 1000)
    waiting = start_and_let_wait(start, tmp_path, stoppable=attempt.stoppable)
    attempt.stop()
    with pytest.raises(AttemptStopped):
        waiting.result(timeout=MAX_WAIT_SECONDS - 2 * LONG_ENOUGH_TO_QUEUE_SECONDS)
    assert not busy.done()
    (tmp_path / "go").touch()
    assert busy.result() == pid


def test_child_is_not_lost_if_a_call_is_stopped_just_as_it_gets_it(
    pool: ChildPool, start: Start, tmp_path: Path
) -> None:
    @contextmanager
    def stop_after_the_wait(_cancel: Callable[[], object]) -> Iterator[None]:
        yield
        raise AttemptStopped

    busy, pid = start_and_wait_for_pid(start, tmp_path)
    waiting = start_and_let_wait(start, tmp_path, stoppable=stop_after_the_wait)
    (tmp_path / "go").touch()
    assert busy.result() == pid
    with pytest.raises(AttemptStopped):
        waiting.result()
    assert pool.run(os.getpid, affinity="docs.git") == pid


def test_calls_that_wait_when_the_pool_closes_still_run(pool: ChildPool, start: Start, tmp_path: Path) -> None:
    busy, pid = start_and_wait_for_pid(start, tmp_path)
    waiting = start_and_let_wait(start, tmp_path)
    pool.close()
    (tmp_path / "go").touch()
    assert [busy.result(), waiting.result()] == [pid, pid]
    assert not psutil.pid_exists(pid)


def test_child_with_a_costly_cache_outlives_cheap_ones_but_not_forever() -> None:
    pool = ChildPool(LIMITS, max_idle=2)
    costly, _ = pool.run(read_repository, "docs.git", 2.0, affinity="docs.git")
    for number in range(3):
        pool.run(read_repository, f"{number}.git", 0.0, affinity=f"{number}.git")
    assert pool.run(read_repository, "docs.git", 2.0, affinity="docs.git") == (costly, True)
    others = {pool.run(read_repository, f"{number}.git", 0.05, affinity=f"{number}.git")[0] for number in range(3, 63)}
    assert costly in others
    pool.close()
