"""The limit of processes counts those of the command only, however many its user already runs."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from copydesk.jobs.sandbox.probe import BACKENDS
from copydesk.jobs.sandbox.protocol import DEFAULT_LIMITS, Backend
from copydesk.jobs.sandbox.resource_usage import count_tasks
from copydesk.jobs.sandbox.start_errors import TASK_LIMIT_REACHED
from tests.support.programs import skip_missing

REPOSITORY = str(Path(__file__).parents[3])
IS_ROOT = os.geteuid() == 0
SLEEPING_THREADS = 300
SLEEP = f"""
import threading, time
threading.stack_size(1 << 18)
for _ in range({SLEEPING_THREADS}):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
time.sleep(600)
"""
PROBE_AND_RUN = """
import json, resource, sys
from dataclasses import asdict
sys.path.append(sys.argv[1])
from copydesk.jobs.sandbox.probe import probe
from copydesk.jobs.sandbox.sandbox import SandboxUnavailable, private_folder
backend, command, max_tasks = sys.argv[2:]
if int(max_tasks):
    resource.setrlimit(resource.RLIMIT_NPROC, (int(max_tasks), int(max_tasks)))
sandbox = probe(backends=[backend])
if isinstance(sandbox, SandboxUnavailable):
    print(json.dumps(asdict(sandbox)))
else:
    with private_folder() as folder:
        print(json.dumps(asdict(sandbox.run(command, folder, seconds=60))))
"""
FORK_BOMB = "i=0; while [ $i -lt 1000 ]; do sleep 60 & i=$((i+1)); echo $i; done; echo unlimited"


class User:
    """A user that is not root: for root a new one, else the user that runs the tests."""

    def __init__(self) -> None:
        self.uid = random.randrange(1 << 20, 1 << 30) if IS_ROOT else os.getuid()
        self.python = _find_python()

    def start(self, script: str, *arguments: str, own_processes_only: bool = False) -> subprocess.Popen[str]:
        """Starts a Python script as this user, on request where /proc shows no processes but its own."""
        change_user = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"] if IS_ROOT else []
        hide = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] if own_processes_only else []
        command = [*hide, *change_user, self.python, "-I", "-S", "-c", script, *arguments]
        return subprocess.Popen(command, cwd="/", env={}, stdout=subprocess.PIPE, text=True)

    def run(self, backend: Backend, command: str, *, max_tasks: int = 0, own_processes_only: bool = False) -> Any:
        """Returns the result of the command, or the reason why there is no sandbox."""
        arguments = (REPOSITORY, backend, command, str(max_tasks))
        with self.start(PROBE_AND_RUN, *arguments, own_processes_only=own_processes_only) as process:
            return json.loads(process.communicate(timeout=300)[0])

    @contextmanager
    def sleeping_threads(self) -> Iterator[None]:
        tasks_before = count_tasks(self.uid)
        with self.start(SLEEP) as process:
            try:
                deadline = time.monotonic() + 60
                while count_tasks(self.uid) < tasks_before + SLEEPING_THREADS:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                yield
            finally:
                process.kill()


def _find_python() -> str:
    """Returns a Python that the user can start. The one that runs the tests may be in root's own folder."""
    candidates = (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3")
    python = next(filter(_can_anyone_start, candidates), None) if IS_ROOT else sys.executable
    if python is None:
        pytest.skip("only root can start Python 3.11 or newer here")
    return python


def _can_anyone_start(python: str) -> bool:
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    with suppress(OSError):
        return subprocess.run([python, "-c", check], user=65534, group=65534, extra_groups=[]).returncode == 0
    return False


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """A backend that works for a user without many processes."""
    name: Backend = request.param
    result = User().run(name, "true")
    if "reason" in result:
        skip_missing(name, result["reason"])
    return name


@pytest.fixture(params=["visible", "hidden"])
def own_processes_only(request: pytest.FixtureRequest) -> bool:
    """Whether the user's other processes are hidden from the service, as those of other containers are."""
    is_hidden: bool = request.param == "hidden"
    if is_hidden and not IS_ROOT:
        pytest.skip("only root can hide processes")
    if is_hidden and shutil.which("unshare") is None:
        skip_missing("unshare", "It is part of util-linux.")
    return is_hidden


@pytest.mark.deep
def test_command_runs_although_its_user_runs_many_threads(backend: Backend, own_processes_only: bool) -> None:
    user = User()
    with user.sleeping_threads():
        result = user.run(backend, "echo one | cat; (echo two)", own_processes_only=own_processes_only)
    assert result == {"ending": "ended", "status": 0, "output": "one\ntwo\n"}


@pytest.mark.deep
def test_fork_bomb_is_stopped_although_its_user_runs_many_threads(backend: Backend, own_processes_only: bool) -> None:
    user = User()
    with user.sleeping_threads():
        result = user.run(backend, FORK_BOMB, own_processes_only=own_processes_only)
    counts = [int(line) for line in result["output"].split("\n") if line.isdigit()]
    assert "unlimited" not in result["output"]
    assert 16 < max(counts) <= DEFAULT_LIMITS.processes + (0 if IS_ROOT else SLEEPING_THREADS)


def test_probe_names_the_cause_where_root_cannot_become_another_user() -> None:
    become_root = ["unshare", "--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*become_root, "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are not available here")
    command = [*become_root, sys.executable, "-I", "-S", "-c", PROBE_AND_RUN, REPOSITORY, "landlock", "true", "0"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "root has no unused user ID here" in json.loads(output)["reason"]


@pytest.mark.deep
@pytest.mark.skipif(not IS_ROOT, reason="only root can start processes of a user that has none")
def test_probe_names_the_task_limit_where_it_is_too_low(backend: Backend) -> None:
    results = {max_tasks: User().run(backend, "true", max_tasks=max_tasks) for max_tasks in range(1, 16)}
    reasons = {max_tasks: result["reason"] for max_tasks, result in results.items() if "reason" in result}
    assert {1, 2, 3, 4} <= reasons.keys()
    assert 15 not in reasons
    assert [reason for reason in reasons.values() if TASK_LIMIT_REACHED not in reason] == []
