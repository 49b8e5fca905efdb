"""A small process that starts one command in its sandbox, watches it, ends all its processes and removes its folder.

The supervisor outlives a worker that is killed, so that it can end the command. It stops at the end of its standard
input and on SIGTERM, which the kernel sends when the thread that started the supervisor is gone. Its first line of
output is the command's process group, so that the worker can end the group if the supervisor itself is killed.
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

from copydesk.jobs.sandbox import backends, linux_security
from copydesk.jobs.sandbox.protocol import Ending, SandboxRequest, SandboxResult
from copydesk.jobs.sandbox.resource_usage import (
    FolderMeter,
    count_sockets,
    list_group_members,
    measure_deleted_files,
    measure_free_space,
    measure_memory,
    measure_own_tasks,
)
from copydesk.jobs.sandbox.seccomp import NotSupported
from copydesk.jobs.sandbox.start_errors import explain_start_error

LIMIT_CHECK_SECONDS = 0.25
MAX_OPEN_FILES = 1024


def main(worker_pid: int) -> None:
    stop = StopFlag()
    signal.signal(signal.SIGTERM, stop)
    if not linux_security.die_with_parent(worker_pid, signal.SIGTERM):
        stop()
    received = bytearray()
    while not received.endswith(b"\n"):
        received += os.read(0, 65_536) or b"\n"
    request = SandboxRequest.from_json(bytes(received))
    try:
        result = Supervisor(request, stop).watch()
    except (OSError, NotSupported) as error:
        result = SandboxResult("broken", 0, explain_start_error(error))
    finally:
        with suppress(OSError):  # the worker removes it if no process can be started here
            remove_folder(request.folder)
    sys.stdout.write("\n" + json.dumps(asdict(result)))


class StopFlag:
    """A signal handler that records the request to stop."""

    def __init__(self) -> None:
        self.is_set = False

    def __call__(self, *_: object) -> None:
        self.is_set = True


class Supervisor:
    def __init__(self, request: SandboxRequest, stop: StopFlag) -> None:
        self.request = request
        self.limits = request.limits
        self.stop = stop
        self.free_at_start = measure_free_space(request.folder)
        self.meter: FolderMeter | None = None
        self.output_tail = bytearray()
        self.is_truncated = False
        os.makedirs(request.folder + backends.SHM, exist_ok=True)
        linux_security.become_subreaper()
        if request.uid is not None:
            _change_owner(request.folder, request.uid)
        self.child_pid, self.output_pipe = self._start_child()
        sys.stdout.write(str(self.child_pid))
        sys.stdout.flush()

    def watch(self) -> SandboxResult:
        try:
            ending, status = self._wait_for_end()
        finally:
            self._kill_all()
        self._read_output()
        mark = "…\n" if self.is_truncated else ""
        return SandboxResult(ending, status, mark + self.output_tail.decode("utf-8", "replace"))

    def _start_child(self) -> tuple[int, int]:
        """Starts the command. Returns its process ID and the pipe of its output.

        The child leads a process group that none of its processes can leave. Raises NotSupported if the command cannot
        be started.
        """
        read_end, write_end = os.pipe()
        error_read_end, error_write_end = os.pipe()
        supervisor_pid = os.getpid()
        child_pid = os.fork()
        if child_pid == 0:
            try:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(write_end, 1)
                os.dup2(write_end, 2)
                _set_limits(self.request)
                backends.exec_command(self.request, supervisor_pid)
            except BaseException as error:
                os.write(error_write_end, explain_start_error(error).encode()[:4000])
            finally:
                os._exit(127)
        os.close(write_end)
        os.close(error_write_end)
        with os.fdopen(error_read_end, "rb") as pipe:
            error_text = pipe.read()  # ends when the command starts, because exec closes the pipe
        if error_text:
            os.waitpid(child_pid, 0)
            raise NotSupported(error_text.decode("utf-8", "replace"))
        os.set_blocking(read_end, False)
        return child_pid, read_end

    def _wait_for_end(self) -> tuple[Ending, int]:
        deadline = time.monotonic() + self.request.seconds
        next_checks = dict.fromkeys((self._find_memory_excess, self._find_disk_excess), 0.0)
        with selectors.DefaultSelector() as selector:
            selector.register(self.output_pipe, selectors.EVENT_READ)
            selector.register(0, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select(0.02)}
                if 0 in ready or self.stop.is_set:
                    return "stopped", 0
                if self.output_pipe in ready and not self._read_output():
                    selector.unregister(self.output_pipe)
                ended, status = os.waitpid(self.child_pid, os.WNOHANG)
                if ended:
                    return "ended", os.waitstatus_to_exitcode(status)
                if time.monotonic() > deadline:
                    return "time", 0
                for look in [look for look, due_at in next_checks.items() if time.monotonic() > due_at]:
                    started_at = time.monotonic()
                    if exceeded := look():
                        return exceeded, 0
                    next_checks[look] = time.monotonic() + max(LIMIT_CHECK_SECONDS, 5 * (time.monotonic() - started_at))

    def _read_output(self) -> bool:
        """Reads the available output. Returns False when all writers have closed it.

        Only the end of the output is stored, because it is the most useful part.
        """
        with suppress(BlockingIOError):
            while data := os.read(self.output_pipe, 65_536):
                self.output_tail += data
                if len(self.output_tail) > 2 * self.limits.output:
                    del self.output_tail[: -self.limits.output]
                    self.is_truncated = True
            return False
        return True

    def _find_memory_excess(self) -> Ending | None:
        members = list_group_members(self.child_pid)
        if measure_memory(members) > self.limits.memory:
            return "memory"
        return "sockets" if count_sockets(members, self.limits.sockets) > self.limits.sockets else None

    def _find_disk_excess(self) -> Ending | None:
        """Returns the limit that is exceeded, or None.

        Deleted files that are still open are not in the folder, so they are counted as well. A process can also map a
        file and then close it, so the disk's free space is compared too; other processes of the machine change it.
        """
        size, files = (
            before - now
            for before, now in zip(self.free_at_start, measure_free_space(self.request.folder), strict=True)
        )
        if size > 2 * self.limits.written:
            return "disk"
        if files > 2 * self.limits.files:
            return "files"
        if self.meter is None:
            self.meter = FolderMeter(self.request.folder)
        usage = self.meter.result()
        if usage is None:
            return None
        self.meter = None
        size = usage.size + measure_deleted_files(list_group_members(self.child_pid), self.request.folder)
        return "disk" if size > self.limits.written else "files" if usage.files > self.limits.files else None

    def _kill_all(self) -> None:
        """Kills the whole process group, which no process can leave, with one signal, and waits for all children."""
        with suppress(ProcessLookupError):
            os.killpg(self.child_pid, signal.SIGKILL)
        if self.meter is not None:
            self.meter.stop()
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


def remove_folder(folder: str) -> None:
    """Removes a folder with the system's `rm`.

    A command can create folders that are nested deeper than the limits of paths and of recursion.
    """
    for command in (["chmod", "-Rf", "u+rwX", folder], ["rm", "-rf", "--", folder]):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _set_limits(request: SandboxRequest) -> None:
    """Sets the limits of each process. The supervisor checks the totals of all processes while they run."""
    # The kernel counts all tasks of the user, so those that already run are added if the user is shared. bubblewrap's
    # user namespace inherits this limit: the kernel counts its tasks there and for the user outside as well.
    other_tasks = measure_own_tasks() if request.uid is None else 0
    for limit, maximum in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, int(request.seconds) + 1),
        (resource.RLIMIT_DATA, request.limits.memory),
        (resource.RLIMIT_FSIZE, request.limits.written),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_NPROC, other_tasks + request.limits.processes),
    ):
        hard = resource.getrlimit(limit)[1]
        maximum = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
        resource.setrlimit(limit, (maximum, maximum))
    os.nice(10)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _change_owner(folder: str, uid: int) -> None:
    subprocess.run(["chown", "-hR", f"{uid}:{uid}", "--", folder], check=True)
