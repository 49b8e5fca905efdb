"""Runs a command on a folder, in the sandbox that this machine was found to have."""

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
from copydesk.jobs.sandbox.protocol import USUAL, Answer, Backend, Limits, Order
from copydesk.jobs.sandbox.resource_usage import group_members
from copydesk.jobs.sandbox.supervisor import remove

START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from copydesk.jobs.sandbox.supervisor import main; main(int(sys.argv[2]))",
    str(Path(__file__).parents[3]),
)
PATIENCE = 60.0


@dataclass(frozen=True)
class Unavailable:
    """There is no sandbox on this machine; `why` is a sentence for whoever runs it."""

    why: str


@dataclass(frozen=True)
class Sandbox:
    backend: Backend
    limits: Limits = USUAL

    def run(
        self,
        command: str,
        folder: Path,
        *,
        seconds: float,
        stoppable: Stoppable = unstoppable,
        readable: Sequence[str] = (),
    ) -> Answer:
        """Runs it in the folder's `work`. The folder is gone afterwards, also when this process is killed meanwhile.

        The thread that calls this waits for the warden, whom the kernel tells when that thread is gone.
        """
        order = Order(self.backend, command, str(folder), seconds, list(readable), _somebody(), self.limits)
        warden = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", *START, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"},
            cwd="/",
            start_new_session=True,
        )
        assert warden.stdin is not None
        assert warden.stdout is not None
        late = threading.Timer(seconds + PATIENCE, warden.kill)
        late.start()
        try:
            with stoppable(warden.stdin.close):
                with suppress(ValueError, BrokenPipeError):  # it was stopped before it began, or died
                    warden.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
                    warden.stdin.flush()
                said = warden.stdout.read()
        finally:
            late.cancel()
            with suppress(BrokenPipeError):
                warden.stdin.close()
            warden.wait()
            warden.stdout.close()
        group, _, answer = said.partition(b"\n")
        if answer:
            return Answer(**json.loads(answer))
        if group:
            _end_group(int(group))
        return Answer("broken", 0, "its warden died")


@contextmanager
def private_folder() -> Iterator[Path]:
    """With `work` and `tmp`, seen by nobody else; removed at the end, whatever is in it then."""
    folder = Path(mkdtemp(prefix="copydesk-check-"))
    try:
        (folder / "work").mkdir()
        (folder / "tmp").mkdir()
        yield folder
    finally:
        if folder.exists():
            remove(str(folder))


def _end_group(group: int) -> None:
    """Ends what a warden that was killed left behind: the command died with it, but not what the command started."""
    if any(int(each.stat[3]) == group for each in group_members(group)):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _somebody() -> int | None:
    """Root's command runs as a user that nobody is, a new one each time: limits and ownership then mean something."""
    if os.geteuid() != 0:
        return None
    ranges = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    top = min(1 << 31, max(int(first) + int(count) for first, _, count in ranges))
    return top - 2 - secrets.randbelow(min(top // 64, 1 << 24))
