"""Starts one command in its sandbox, watches it, ends all of it, removes its folder: a small process of its own.

It outlives a worker that is killed, so that nothing else does: the end of its standard input is the order to stop.
"""

import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict

from copydesk.jobs.sandbox import confine, kernel
from copydesk.jobs.sandbox.order import Answer, Ending, Order

LOOK_SECONDS = 0.25
FILES_OPEN = 1024


def main() -> None:
    told = bytearray()
    while not told.endswith(b"\n"):
        told += os.read(0, 65_536) or b"\n"
    order = Order.of(bytes(told))
    try:
        answer = Warden(order).watch()
    except (OSError, kernel.NotSupported) as error:
        answer = Answer("broken", 0, str(error))
    finally:
        remove(order.folder)
    sys.stdout.write(json.dumps(asdict(answer)))


class Warden:
    def __init__(self, order: Order) -> None:
        self.order, self.limits = order, order.limits
        self.free = _free(order.folder)
        self.said = bytearray()
        self.cut = False
        kernel.adopt_orphans()
        if order.uid is not None:
            _give(order.folder, order.uid)
        self.child, self.output = self._started()

    def watch(self) -> Answer:
        try:
            ending, status = self._until_it_ends()
        finally:
            self._end()
        self._read()
        mark = "…\n" if self.cut else ""
        return Answer(ending, status, mark + self.said.decode("utf-8", "replace"))

    def _started(self) -> tuple[int, int]:
        """The child's id and its output. It leads the process group that everything inside stays in."""
        ours, theirs = os.pipe()
        trouble, report = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(theirs, 1)
                os.dup2(theirs, 2)
                _limit(self.order)
                confine.execute(self.order)
            except BaseException as error:
                os.write(report, str(error).encode()[:4000])
            finally:
                os._exit(127)
        os.close(theirs)
        os.close(report)
        with os.fdopen(trouble, "rb") as pipe:
            said = pipe.read()  # ends when the command starts, for the pipe is closed then
        if said:
            os.waitpid(child, 0)
            raise kernel.NotSupported(said.decode("utf-8", "replace"))
        os.set_blocking(ours, False)
        return child, ours

    def _until_it_ends(self) -> tuple[Ending, int]:
        deadline = time.monotonic() + self.order.seconds
        look = 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            selector.register(0, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select(0.02)}
                if 0 in ready:
                    return "stopped", 0
                if self.output in ready and not self._read():
                    selector.unregister(self.output)
                ended, status = os.waitpid(self.child, os.WNOHANG)
                if ended:
                    return "ended", os.waitstatus_to_exitcode(status)
                if time.monotonic() > deadline:
                    return "time", 0
                if time.monotonic() > look:
                    began = time.monotonic()
                    if over := self._over():
                        return over, 0
                    look = time.monotonic() + max(LOOK_SECONDS, 5 * (time.monotonic() - began))

    def _read(self) -> bool:
        """False when nobody can write any more. The end of an output says most, so that is what is kept."""
        with suppress(BlockingIOError):
            while data := os.read(self.output, 65_536):
                self.said += data
                if len(self.said) > 2 * self.limits.output:
                    del self.said[: -self.limits.output]
                    self.cut = True
            return False
        return True

    def _over(self) -> Ending | None:
        used = subprocess.run(["du", "-skx", self.order.folder], capture_output=True, check=False).stdout.split()
        # What was deleted and is still open takes room too, and is not in the folder.
        lost = self.free - _free(self.order.folder)
        if (used and int(used[0]) * 1024 > self.limits.written) or lost > 2 * self.limits.written:
            return "disk"
        return "memory" if _memory_in_group(self.child) > self.limits.memory else None

    def _end(self) -> None:
        """One signal for the whole group, which no process can leave; then there is nobody left to wait for."""
        with suppress(ProcessLookupError):
            os.killpg(self.child, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


def remove(folder: str) -> None:
    """By the system's own program: a command can leave folders deeper than any path or any recursion."""
    for command in (["chmod", "-Rf", "u+rwX", folder], ["rm", "-rf", "--", folder]):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _limit(order: Order) -> None:
    """On each process; what they take together is looked at while they run."""
    # Where a user is shared, the others' processes count as well.
    processes = order.limits.processes + (_tasks_of(os.getuid()) if order.uid is None else 0)
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, int(order.seconds) + 1),
        (resource.RLIMIT_DATA, order.limits.memory),
        (resource.RLIMIT_FSIZE, order.limits.written),
        (resource.RLIMIT_NOFILE, FILES_OPEN),
        (resource.RLIMIT_NPROC, processes),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
    os.nice(10)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _give(folder: str, uid: int) -> None:
    subprocess.run(["chown", "-hR", f"{uid}:{uid}", "--", folder], check=True)


def _free(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _stats() -> list[tuple[str, list[str]]]:
    """Each process's id and what /proc/…/stat says after its name, which may contain anything."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat") as file:
                found.append((name, file.read().rpartition(")")[2].split()))
    return found


def _memory_in_group(group: int) -> int:
    """Without what they share with files, which can be had again."""
    total = 0
    for process, stats in _stats():
        if int(stats[2]) == group:
            with suppress(OSError), open(f"/proc/{process}/status") as file:
                held = [line.split() for line in file if line.startswith(("RssAnon:", "RssShmem:"))]
                total += sum(int(words[1]) * 1024 for words in held)
    return total


def _tasks_of(uid: int) -> int:
    total = 0
    for process, stats in _stats():
        with suppress(OSError):
            total += int(stats[17]) if os.stat(f"/proc/{process}").st_uid == uid else 0
    return total
