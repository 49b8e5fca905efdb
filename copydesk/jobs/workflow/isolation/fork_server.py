"""A process that forks children on request. It has one thread and all modules loaded, so forks are safe and fast.

The service itself cannot fork, because it has threads. It talks to this process over a socket: a message with a
descriptor requests a child that serves that descriptor, and the answer is the child's process id; a message with a
process id requests to reap that child, and the answer is its exit code. A child that has ended stays a zombie until
the service reaps it, so the kernel does not reuse its id while the service may still send it a signal.
"""

import contextlib
import errno
import gc
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback

PRELOADED_MODULES = (
    "copydesk.jobs.workflow.isolation.child",
    "copydesk.jobs.workflow.isolation.tasks",
    "justhtml",
    "markdown_it",
)
SERVER_COMMAND = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from copydesk.jobs.workflow.isolation.fork_server import serve_forks; serve_forks(int(sys.argv[1]))"
)
PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
"""Environment variables that a child may see; others may hold secrets."""
FORK_REQUEST = b"fork"
MAX_MESSAGE_BYTES = 64


class ForkServer:
    """Starts the fork server on first use, and again if it died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process if it is not running. Modules load in the background; the first fork waits for them."""
        with self._lock:
            self._ensure_started()

    def fork(self, descriptor: int) -> int:
        """Forks a child that serves this socket, and returns its process id. Raises OSError if the system refuses."""
        with self._lock:
            answer = self._ask_for_child(descriptor)
            if answer is None:  # the fork server has died, so start another one
                self._stop()
                answer = self._ask_for_child(descriptor)
        if answer is None:
            raise ChildProcessError("The fork server exits right after it starts. Standard error has its output.")
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer

    def reap(self, pid: int) -> int | None:
        """Waits for a child that has ended or was killed. Returns its exit code, negative for a signal."""
        with self._lock, contextlib.suppress(OSError):
            if self._control is not None:
                self._control.send(str(pid).encode())
                if answer := self._control.recv(MAX_MESSAGE_BYTES):
                    return int(answer)
        return None

    def close(self) -> None:
        """Ends the process and with it every child."""
        with self._lock:
            self._stop()

    def _ask_for_child(self, descriptor: int) -> int | None:
        """Returns the child's process id, or a negative error number; None if the fork server is gone."""
        control = self._ensure_started()
        try:
            socket.send_fds(control, [FORK_REQUEST], [descriptor])
            answer = control.recv(MAX_MESSAGE_BYTES)
        except OSError:
            return None
        return int(answer) if answer else None

    def _ensure_started(self) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", SERVER_COMMAND, str(theirs.fileno()), *sys.path],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env={name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ},
                    start_new_session=True,  # Ctrl-C must reach only the service, which then ends its children
                )
        return self._control

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def serve_forks(descriptor: int) -> None:
    """Answers requests until the service ends or dies, which closes its end of the socket."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the service decides when its children end
    for module in PRELOADED_MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # children share these objects until they change them
    control = socket.socket(fileno=descriptor)
    try:
        _answer_requests(control)
    except OSError:
        os._exit(0)  # the service died before it could read the answer


def _answer_requests(control: socket.socket) -> None:
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 1)
        if message == FORK_REQUEST:
            answer = _fork(control, descriptors[0]) if descriptors else -errno.EMFILE
        elif message:
            answer = _reap(int(message))
        else:
            os._exit(0)
        control.send(str(answer).encode())


def _fork(control: socket.socket, descriptor: int) -> int:
    """Returns the child's process id, or the negative error number if the system refuses."""
    try:
        pid = os.fork()
    except OSError as error:
        os.close(descriptor)
        return -(error.errno or errno.EAGAIN)
    if pid:
        os.close(descriptor)
        return pid
    control.close()
    try:
        from copydesk.jobs.workflow.isolation.child import serve_calls

        serve_calls(descriptor)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _reap(pid: int) -> int:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0
