"""Work on untrusted text is stopped by its limits, by a cancellation, and by the end of the service."""

import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import psutil
import pygit2
import pytest

from copydesk.core.settings import Settings
from copydesk.jobs.agent.conversation import ToolCall
from copydesk.jobs.agent.tools import Toolbox
from copydesk.jobs.execution.attempt import Attempt, AttemptStopped
from copydesk.jobs.execution.queue import Claim
from copydesk.jobs.execution.stoppable import unstoppable
from copydesk.jobs.job import Reason
from copydesk.jobs.publish.guard.publish_guard import PublishRefused
from copydesk.jobs.workflow.isolation import ChildLimits, ChildPool, LimitExceeded
from copydesk.jobs.workflow.isolation.child import Call
from copydesk.jobs.workflow.isolation.child_pool import shared_fork_server
from copydesk.jobs.workflow.isolation.fork_server import ForkServer
from copydesk.jobs.workflow.isolation.isolated_work import IsolatedWork
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.repository_limits import MIB
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.bench import wait_until
from tests.support import isolated_calls
from tests.support.repositories import make_repository
from tests.support.service import serve

SMALL = ChildLimits(cpu_seconds=1, memory_bytes=256 * MIB)


@pytest.fixture
def pool() -> Iterator[ChildPool]:
    pool = ChildPool(SMALL)
    yield pool
    pool.close()


def test_a_call_returns_what_the_function_returns(pool: ChildPool) -> None:
    assert pool.run(sorted, [3, 1, 2]) == [1, 2, 3]
    assert pool.run(os.getpid) != os.getpid()


def test_a_call_raises_what_the_function_raises(pool: ChildPool) -> None:
    with pytest.raises(ValueError, match="invalid literal") as raised:
        pool.run(int, "x")
    assert "In a child process" in raised.value.__notes__[0]
    with pytest.raises(RuntimeError, match="Unpicklable: not portable"):
        pool.run(isolated_calls.raise_unpicklable)


def test_refusal_keeps_its_reason_across_processes(pool: ChildPool) -> None:
    answer = pool.run(PublishRefused, "Too large.")
    assert (str(answer), answer.reason) == ("Too large.", Reason.PUBLISH_REFUSED)


def test_a_call_over_its_cpu_limit_is_stopped(pool: ChildPool) -> None:
    with pytest.raises(LimitExceeded, match="more than 1 s of CPU time"):
        pool.run(isolated_calls.match_forever)
    assert pool.run(len, "next") == 4


def test_a_call_that_only_waits_is_stopped() -> None:
    pool = ChildPool(SMALL._replace(wall_seconds=0.2))
    try:
        with pytest.raises(LimitExceeded, match=r"^more than 0\.2 s$"):
            pool.run(isolated_calls.sleep_forever)
        assert pool.run(len, "next") == 4
    finally:
        pool.close()


def test_tool_that_waits_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    """The disk does not answer: a file of the repository is a pipe that nobody writes to."""
    path = make_repository(tmp_path / "docs.git", {"docs/stuck.md": b"# Stuck\n", "docs/page.md": b"# Page\n"})
    repository = pygit2.Repository(str(path))
    tree = Tree(repository, str(repository.head.target))
    stuck = str(repository[repository.head.target].peel(pygit2.Tree)["docs/stuck.md"].id)
    stored = path / "objects" / stuck[:2] / stuck[2:]
    stored.unlink()
    os.mkfifo(stored)
    pool = ChildPool(ChildLimits(wall_seconds=0.5))
    try:
        tools = Toolbox(Workspace(tree), run_tool=IsolatedWork(pool, unstoppable).run_tool)
        refused = tools.call(ToolCall(id="1", name="read", arguments={"path": "docs/stuck.md"}))
        assert (refused.ok, refused.text) == (
            False,
            "This call took more than 0.5 s and was stopped. Request less at once.",
        )
        again = tools.call(ToolCall(id="2", name="read", arguments={"path": "docs/page.md"}))
        assert again.ok, again.text
        assert "# Page" in again.text
    finally:
        pool.close()


def test_wall_limit_follows_the_limit_of_cpu_time() -> None:
    assert ChildLimits.from_settings(Settings(data=Path("x"), call_cpu_seconds=100)).wall_seconds == 500
    assert ChildLimits.from_settings(Settings(data=Path("x"), call_cpu_seconds=1)).wall_seconds == 60


def test_cpu_limit_applies_to_each_call_separately(pool: ChildPool) -> None:
    pids = {pool.run(isolated_calls.burn_and_get_pid, 0.4) for _ in range(5)}
    assert len(pids) == 1


def test_a_call_over_its_memory_limit_is_stopped(pool: ChildPool) -> None:
    with pytest.raises(LimitExceeded, match="more than 256 MiB of memory"):
        pool.run(bytearray, 400 * MIB)
    assert pool.run(len, "next") == 4


def test_child_that_grew_too_much_is_not_reused(pool: ChildPool) -> None:
    small = pool.run(isolated_calls.keep_memory, 1)
    assert pool.run(isolated_calls.keep_memory, 150 * MIB) == small
    assert pool.run(os.getpid) != small


def test_stop_ends_a_call_immediately(pool: ChildPool, tmp_path: Path) -> None:
    """A regular expression holds the interpreter's lock, so only killing its process ends it."""
    attempt = Attempt(Claim.__new__(Claim), 1000)
    file = tmp_path / "pid"

    def stop_once_it_runs() -> None:
        wait_until(lambda: file.exists() and file.read_text() != "")
        attempt.stop()

    stopping = threading.Thread(target=stop_once_it_runs)
    stopping.start()
    patient = ChildPool(ChildLimits(cpu_seconds=10_000))
    with pytest.raises(AttemptStopped):
        patient.run(isolated_calls.write_pid_and_match_forever, str(file), stoppable=attempt.stoppable)
    stopping.join()
    patient.close()
    assert not psutil.pid_exists(int(file.read_text()))


def test_child_can_open_the_same_repository_twice(pool: ChildPool) -> None:
    one, two = (pool.run(os.getpid, affinity=name) for name in ("one.git", "two.git"))
    assert one != two
    assert [pool.run(os.getpid, affinity=name) for name in ("one.git", "two.git")] == [one, two]


def test_at_most_the_allowed_number_of_idle_children_is_kept() -> None:
    pool = ChildPool(SMALL, max_idle=2)
    pids = [pool.run(os.getpid, affinity=str(number)) for number in range(5)]
    assert sum(psutil.pid_exists(pid) for pid in set(pids)) == 2
    pool.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_an_idle_child_that_died_is_replaced(pool: ChildPool) -> None:
    first = pool.run(os.getpid)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: psutil.Process(first).status() == psutil.STATUS_ZOMBIE)
    assert pool.run(os.getpid) != first


@pytest.mark.deep
def test_a_fork_server_that_died_is_replaced(pool: ChildPool) -> None:
    child = pool.run(os.getpid)
    server = psutil.Process(child).parent()
    assert server is not None
    server.kill()
    wait_until(lambda: not psutil.pid_exists(child))
    assert pool.run(len, "next") == 4


@pytest.mark.deep
def test_failed_fork_does_not_affect_other_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("copydesk.jobs.workflow.isolation.child_pool.FORK_PAUSES_SECONDS", ())
    shared_fork_server().close()
    pool = ChildPool(SMALL)
    first = pool.run(os.getpid, affinity="one")
    server = psutil.Process(first).parent()
    assert server is not None
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, 3))  # as many as it has for input, output and errors
    with pytest.raises(OSError, match="Too many open files"):
        pool.run(os.getpid, affinity="two")
    assert pool.run(os.getpid, affinity="one") == first
    pool.close()
    shared_fork_server().close()  # the next one has the usual limit


@pytest.mark.deep
def test_hard_limit_of_the_system_is_not_exceeded() -> None:
    program = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))\n"
        "from copydesk.jobs.workflow.isolation import ChildPool, ChildLimits\n"
        "print(ChildPool(ChildLimits()).run(resource.getrlimit, resource.RLIMIT_DATA))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.split("\n")[0] == str((2**30, 2**30))


@pytest.mark.deep
def test_children_do_not_see_the_service_s_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_SECRET_KEY", "secret")
    shared_fork_server().close()  # the next one starts with the current environment
    pool = ChildPool(SMALL)
    assert pool.run(os.getenv, "COPYDESK_SECRET_KEY") is None
    assert pool.run(os.getenv, "PATH") == os.environ["PATH"]
    pool.close()


@pytest.mark.deep
def test_child_ends_quietly_if_nobody_waits_for_its_answer() -> None:
    fork_server = ForkServer()
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        child = fork_server.fork(theirs.fileno())
        ours.send_bytes(pickle.dumps(Call(time.sleep, (0.2,), SMALL)))
    assert fork_server.reap(child) == 0, "1 means that it printed a traceback"
    fork_server.close()


def test_children_end_when_the_service_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = (
        "from copydesk.jobs.workflow.isolation import ChildPool, ChildLimits\n"
        "from tests.support import isolated_calls\n"
        f"ChildPool(ChildLimits(10_000)).run(isolated_calls.write_pid_and_match_forever, {str(file)!r})\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as service:
        wait_until(lambda: file.exists() and file.read_text() != "")
        child = psutil.Process(int(file.read_text()))
        server = child.parent()
        assert server is not None
        service.kill()
    wait_until(lambda: not child.is_running())
    wait_until(lambda: not server.is_running())


@pytest.mark.deep
def test_service_keeps_working_while_a_check_takes_too_long(tmp_path: Path) -> None:
    """The documentation is so large that the check needs many times its limit."""
    links = b"".join(b"[a](b%d.md) *c* `d` <e f='g'>\n" % number for number in range(12_000))
    files = {f"docs/page{number}.md": b"# Page %d\n\n" % number + links for number in range(20)}
    repository = make_repository(tmp_path / "docs.git", {**files, "docs/index.md": b"# Index\n\nThe colour.\n"})
    with serve(tmp_path / "data", repository=repository, call_cpu_seconds=1, lease_seconds=2) as service:
        job = service.client.create_job('Replace "colour" with "color" in docs/index.md')
        healthy = 0
        while service.client.get_job(job["id"])["status"] == "active":
            healthy += httpx.get(f"{service.url}/healthz", timeout=60).is_success
            time.sleep(0.05)
        ended = service.client.get_job(job["id"])
        assert (ended["status"], ended["reason"]) == ("failed", "checks_failed")
        assert "more than 1 s of CPU time" in str(ended["message"])
        assert healthy > 0
