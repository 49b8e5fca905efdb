"""Starts one command in its sandbox, watches it, ends all of it, removes its folder: a small process of its own.

It outlives a worker that is killed, so that nothing else does: the end of its standard input is the order to stop, and
so is SIGTERM, which the kernel sends it when the thread that started it is gone. Its first line names the command's
process group, so that the worker can end that should the warden itself be killed.
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

from copydesk.jobs.sandbox import backends as confine
from copydesk.jobs.sandbox import linux_security as kernel
from copydesk.jobs.sandbox.protocol import Answer, Ending, Order
from copydesk.jobs.sandbox.resource_usage import (
    FolderMeter,
    count_sockets,
    count_tasks,
    free_space,
    group_members,
    measure_memory,
)
from copydesk.jobs.sandbox.seccomp import NotSupported

LOOK_SECONDS = 0.25
FILES_OPEN = 1024


def main(worker: int) -> None:
    stop = Stop()
    signal.signal(signal.SIGTERM, stop)
    if not kernel.die_with_parent(worker, signal.SIGTERM):
        stop()
    told = bytearray()
    while not told.endswith(b"\n"):
        told += os.read(0, 65_536) or b"\n"
    order = Order.of(bytes(told))
    try:
        answer = Warden(order, stop).watch()
    except (OSError, NotSupported) as error:
        answer = Answer("broken", 0, str(error))
    finally:
        remove(order.folder)
    sys.stdout.write("\n" + json.dumps(asdict(answer)))


class Stop:
    """An order to stop; it is called as a signal's handler."""

    def __init__(self) -> None:
        self.is_set = False

    def __call__(self, *_: object) -> None:
        self.is_set = True


class Warden:
    def __init__(self, order: Order, stop: Stop) -> None:
        self.order, self.limits, self.stop = order, order.limits, stop
        self.free = free_space(order.folder)
        self.meter: FolderMeter | None = None
        self.said = bytearray()
        self.cut = False
        os.makedirs(order.folder + confine.SHM, exist_ok=True)
        kernel.adopt_orphans()
        if order.uid is not None:
            _give(order.folder, order.uid)
        self.child, self.output = self._started()
        sys.stdout.write(str(self.child))
        sys.stdout.flush()

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
        warden = os.getpid()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(theirs, 1)
                os.dup2(theirs, 2)
                _limit(self.order)
                confine.execute(self.order, warden)
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
            raise NotSupported(said.decode("utf-8", "replace"))
        os.set_blocking(ours, False)
        return child, ours

    def _until_it_ends(self) -> tuple[Ending, int]:
        deadline = time.monotonic() + self.order.seconds
        due = dict.fromkeys((self._over_in_memory, self._over_on_disk), 0.0)
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            selector.register(0, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select(0.02)}
                if 0 in ready or self.stop.is_set:
                    return "stopped", 0
                if self.output in ready and not self._read():
                    selector.unregister(self.output)
                ended, status = os.waitpid(self.child, os.WNOHANG)
                if ended:
                    return "ended", os.waitstatus_to_exitcode(status)
                if time.monotonic() > deadline:
                    return "time", 0
                for look in [look for look, at in due.items() if time.monotonic() > at]:
                    began = time.monotonic()
                    if over := look():
                        return over, 0
                    due[look] = time.monotonic() + max(LOOK_SECONDS, 5 * (time.monotonic() - began))

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

    def _over_in_memory(self) -> Ending | None:
        members = group_members(self.child)
        if measure_memory(members) > self.limits.memory:
            return "memory"
        return "sockets" if count_sockets(members, self.limits.sockets) > self.limits.sockets else None

    def _over_on_disk(self) -> Ending | None:
        """What was deleted and is still open takes room too, and is not in the folder: the disk has lost it."""
        size, files = (before - now for before, now in zip(self.free, free_space(self.order.folder), strict=True))
        if size > 2 * self.limits.written:
            return "disk"
        if files > 2 * self.limits.files:
            return "files"
        if self.meter is None:
            self.meter = FolderMeter(self.order.folder)
        used = self.meter.result()
        if used is None:
            return None
        self.meter = None
        return "disk" if used.size > self.limits.written else "files" if used.files > self.limits.files else None

    def _end(self) -> None:
        """One signal for the whole group, which no process can leave; then there is nobody left to wait for."""
        with suppress(ProcessLookupError):
            os.killpg(self.child, signal.SIGKILL)
        if self.meter is not None:
            self.meter.stop()
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
    processes = order.limits.processes + (count_tasks(os.getuid()) if order.uid is None else 0)
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
