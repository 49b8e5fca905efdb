"""Runs a command on a folder in the sandbox that works on this machine."""

import errno
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp

from copydesk.jobs.execution.stoppable import Stoppable, unstoppable
from copydesk.jobs.sandbox.protocol import DEFAULT_LIMITS, Backend, Limits, SandboxRequest, SandboxResult
from copydesk.jobs.sandbox.resource_usage import list_group_members
from copydesk.jobs.sandbox.seccomp import NotSupported
from copydesk.jobs.sandbox.start_errors import explain_start_error
from copydesk.jobs.sandbox.supervisor import remove_folder

SUPERVISOR_COMMAND = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from copydesk.jobs.sandbox.supervisor import main; main(int(sys.argv[2]))",
    str(Path(__file__).parents[3]),
)
SUPERVISOR_GRACE_SECONDS = 60.0
MIN_USER_IDS = 64


@dataclass(frozen=True)
class SandboxUnavailable:
    """No sandbox works on this machine; `reason` is a sentence for its operator."""

    reason: str


@dataclass(frozen=True)
class Sandbox:
    backend: Backend
    limits: Limits = DEFAULT_LIMITS

    def run(
        self,
        command: str,
        folder: Path,
        *,
        seconds: float,
        stoppable: Stoppable = unstoppable,
        readable: Sequence[str] = (),
    ) -> SandboxResult:
        """Runs the command in the folder's `work` and removes the folder, even if this process is killed meanwhile.

        The calling thread waits for the supervisor, because the kernel stops the supervisor when that thread ends.
        """
        try:
            request = SandboxRequest(
                self.backend, command, str(folder), seconds, list(readable), _pick_unused_uid(), self.limits
            )
            output = _run_supervisor(request, stoppable)
        except (BlockingIOError, NotSupported) as error:
            return SandboxResult("broken", 0, explain_start_error(error))
        group, _, result = output.partition(b"\n")
        if result:
            return SandboxResult(**json.loads(result))
        if group:
            _kill_group(int(group))
        return SandboxResult("broken", 0, "its supervisor died")


def _run_supervisor(request: SandboxRequest, stoppable: Stoppable) -> bytes:
    """Starts the supervisor and waits for its end. Returns its output: the command's process group and the result."""
    supervisor = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", *SUPERVISOR_COMMAND, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"},
        cwd="/",
        start_new_session=True,
    )
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    kill_timer = threading.Timer(request.seconds + SUPERVISOR_GRACE_SECONDS, supervisor.kill)
    try:
        _start_thread(kill_timer)
        with stoppable(supervisor.stdin.close):
            with suppress(ValueError, BrokenPipeError):  # it was stopped before it started, or it died
                supervisor.stdin.write(json.dumps(asdict(request)).encode() + b"\n")
                supervisor.stdin.flush()
            return supervisor.stdout.read()
    finally:
        kill_timer.cancel()
        with suppress(BrokenPipeError):
            supervisor.stdin.close()
        supervisor.wait()
        supervisor.stdout.close()


def _start_thread(thread: threading.Thread) -> None:
    """Starts a thread. Raises BlockingIOError, as for a process, if the kernel refuses."""
    try:
        thread.start()
    except RuntimeError as error:
        raise BlockingIOError(errno.EAGAIN, str(error)) from None


@contextmanager
def private_folder() -> Iterator[Path]:
    """Creates a folder with `work` and `tmp` that only this user can access, and removes it at the end."""
    folder = Path(mkdtemp(prefix="copydesk-check-"))
    try:
        (folder / "work").mkdir()
        (folder / "tmp").mkdir()
        yield folder
    finally:
        if folder.exists():
            remove_folder(str(folder))


def _kill_group(group: int) -> None:
    """Kills the processes that remain after a supervisor was killed.

    The command died with the supervisor, but not the processes that the command had started.
    """
    if any(int(each.stat[3]) == group for each in list_group_members(group)):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _pick_unused_uid() -> int | None:
    """Returns an unused user ID to run the command as, a new one each time; None if this process is not root.

    Process limits apply per user, and root ignores limits and file ownership. Raises NotSupported in a user namespace
    with too few user IDs, where root cannot become another user.
    """
    if os.geteuid() != 0:
        return None
    ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    first_invalid_uid = min(1 << 31, max(int(first) + int(count) for first, _, count in ranges))
    if first_invalid_uid < MIN_USER_IDS:
        raise NotSupported("root has no unused user ID here to run commands as")
    return first_invalid_uid - 2 - secrets.randbelow(min(first_invalid_uid // 64, 1 << 24))
