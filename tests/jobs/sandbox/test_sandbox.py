"""Edges of the sandbox: socket pairs, watches, resources without a limit, and a killed supervisor."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import gettempdir
from textwrap import dedent
from uuid import uuid4

import pytest

from copydesk.jobs.checks.check_command import CommandResult
from copydesk.jobs.sandbox.protocol import MIB, Limits
from copydesk.jobs.sandbox.seccomp import ARCHITECTURES, build_seccomp_program
from tests.jobs.checks.test_check_command import (  # noqa: F401 — two of them are fixtures
    CommandBench,
    bench,
    find_processes,
    list_copies,
    temporary,
    wait_until,
)
from tests.support.programs import skip_missing

ALLOWED, KILLED, REFUSED, PRETENDED, MISSING = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050000, 0x00050026
CALLS = {
    "socketpair": {"x86_64": 53, "aarch64": 199},
    "sendmsg": {"x86_64": 46, "aarch64": 211},
    "sendmmsg": {"x86_64": 307, "aarch64": 269},
    "sendto": {"x86_64": 44, "aarch64": 206},
    "connect": {"x86_64": 42, "aarch64": 203},
    "setsockopt": {"x86_64": 54, "aarch64": 208},
    "prctl": {"x86_64": 157, "aarch64": 167},
    "clone": {"x86_64": 56, "aarch64": 220},
    "prlimit64": {"x86_64": 302, "aarch64": 261},
    "inotify_init1": {"x86_64": 294, "aarch64": 26},
    "inotify_add_watch": {"x86_64": 254, "aarch64": 27},
    "fanotify_init": {"x86_64": 300, "aarch64": 262},
    "read": {"x86_64": 0, "aarch64": 63},
}
UNIX, INET, STREAM, DGRAM, RAW, SEQPACKET = 1, 2, 1, 2, 3, 5
CLOEXEC, NONBLOCK = 0o2000000, 0o4000


def verdict(program: bytes, number: int, arguments: tuple[int, ...] = (), architecture: int = 0) -> int:
    """Returns the kernel's verdict by interpreting the filter."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("<IIQ6Q", number, architecture, 0, *padded)
    steps, at, value = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
        elif code == 0x54:
            value &= operand
        else:
            is_true = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += if_true if is_true else if_false


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("socketpair", (UNIX, STREAM), ALLOWED),
        ("socketpair", (UNIX, STREAM | CLOEXEC | NONBLOCK), ALLOWED),
        ("socketpair", (UNIX, SEQPACKET | CLOEXEC), ALLOWED),
        ("socketpair", (UNIX, DGRAM), REFUSED),
        ("socketpair", (UNIX, DGRAM | CLOEXEC), REFUSED),
        ("socketpair", (UNIX, DGRAM | NONBLOCK | CLOEXEC), REFUSED),
        ("socketpair", (UNIX, RAW), REFUSED),
        ("socketpair", (1 << 32 | UNIX, 1 << 32 | DGRAM), REFUSED),
        ("socketpair", (INET, STREAM), REFUSED),
        ("socketpair", (30, SEQPACKET), REFUSED),
        ("sendmsg", (), REFUSED),
        ("sendmmsg", (), REFUSED),
        ("sendto", (), ALLOWED),
        ("connect", (), REFUSED),
        ("setsockopt", (3, 1, 7), PRETENDED),
        ("setsockopt", (3, 1, 8), PRETENDED),
        ("setsockopt", (3, 1, 32), PRETENDED),
        ("setsockopt", (3, 1, 33), PRETENDED),
        ("setsockopt", (3, 1, 9), ALLOWED),
        ("setsockopt", (3, 6, 7), ALLOWED),
        ("prctl", (1, 0), PRETENDED),
        ("prctl", (4, 0), PRETENDED),
        ("prctl", (15, 0), ALLOWED),
        ("clone", (0x11,), ALLOWED),
        ("clone", (0x10000011,), REFUSED),
        ("prlimit64", (0,), ALLOWED),
        ("prlimit64", (1,), REFUSED),
        ("inotify_init1", (), REFUSED),
        ("inotify_add_watch", (), REFUSED),
        ("fanotify_init", (), REFUSED),
        ("read", (), ALLOWED),
    ],
)
def test_seccomp_filter_decides_by_call_and_arguments(
    machine: str, call: str, arguments: tuple[int, ...], expected: int
) -> None:
    architecture = ARCHITECTURES[machine][1]
    for modes in (True, False):
        program = build_seccomp_program(pretend_modes=modes, machine=machine)
        assert verdict(program, CALLS[call][machine], arguments, architecture) == expected


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_other_syscall_abis_are_blocked(machine: str) -> None:
    """A 32-bit program has other syscall numbers, and x32 has the same ones with an extra high bit."""
    program, architecture = build_seccomp_program(pretend_modes=True, machine=machine), ARCHITECTURES[machine][1]
    for other in (0x40000003, 0x40000028, *(mine[1] for name, mine in ARCHITECTURES.items() if name != machine)):
        assert verdict(program, CALLS["read"][machine], (), other) == KILLED
    for call in CALLS.values():
        assert verdict(program, 0x40000000 | call[machine], (UNIX, DGRAM), architecture) == MISSING


SENDING = """
    import socket, struct
    descriptor = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 1))]
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC):
            for address in {addresses!r}:
                for send in (
                    lambda pair: pair.sendto(b"x", address),
                    lambda pair: pair.sendmsg([b"x"], [], 0, address),
                    lambda pair: pair.sendmsg([b"x"], descriptor, 0, address),
                    lambda pair: (pair.connect(address), pair.send(b"x")),
                ):
                    try:
                        send(socket.socketpair(socket.AF_UNIX, kind | flags)[0])
                    except OSError:
                        pass
    one, other = socket.socketpair()
    one.sendall(b"inside")
    print(other.recv(6).decode())
"""


@pytest.mark.deep
def test_socketpair_cannot_reach_sockets_outside(bench: CommandBench) -> None:
    name = uuid4().hex
    place = str(Path(gettempdir(), f"{name}.socket"))
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as file,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract,
    ):
        file.bind(place)
        os.chmod(place, 0o777)
        abstract.bind("\0" + name)
        result = bench.python(SENDING.format(addresses=[place, "\0" + name]))
        for receiver in (file, abstract):
            receiver.setblocking(False)
            with pytest.raises(BlockingIOError):
                receiver.recv(1)
    assert result.output == "inside\n"


@pytest.mark.deep
def test_inotify_and_fanotify_are_refused(bench: CommandBench) -> None:
    result = bench.python(f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        watches = [libc.inotify_init(), libc.inotify_init1(0), libc.fanotify_init(0, 0)]
        print(watches, libc.inotify_add_watch(max(watches), {gettempdir().encode()!r}, 0xfff))
    """)
    assert result.output == "[-1, -1, -1] -1\n"


@pytest.mark.deep
def test_programs_can_communicate_with_child_processes(bench: CommandBench) -> None:
    result = bench.python("""
        import asyncio, multiprocessing
        async def main():
            child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
            print((await child.communicate(b"asyncio"))[0].decode())
        asyncio.run(main())
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        process = context.Process(target=lambda: theirs.send("pipe"))
        process.start()
        print(ours.recv())
        process.join()
    """)
    assert result.output == "asyncio\npipe\n"


@pytest.mark.deep
def test_node_can_communicate_with_child_processes(bench: CommandBench) -> None:
    if shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is None:
        skip_missing("node", "node is not in /usr")
    script = "process.stdout.write(require('child_process').execFileSync('cat', {input: 'in'}))"
    result = bench.run(f'node -e "{script}"', seconds=120)
    assert result.output == "in"


FILL = """
    import os, socket, time
    kept = []
    for _ in range({processes}):
        if os.fork() == 0:
            for _ in range({pairs}):
                for end in socket.socketpair():
                    end.setblocking(False)
                    kept.append(end)
                    try:
                        while True:
                            end.send(b"x" * 65536)
                    except BlockingIOError:
                        pass
            time.sleep(600)
    time.sleep(600)
"""


@pytest.mark.deep
@pytest.mark.parametrize(("processes", "pairs"), [(1, 100), (10, 10)])
def test_socket_limit_applies_across_all_processes(bench: CommandBench, processes: int, pairs: int) -> None:
    result = bench.python(FILL.format(processes=processes, pairs=pairs), limits=Limits(sockets=100))
    assert result.summary == "The check command was stopped because it opened too many sockets."


@pytest.mark.deep
def test_shared_sockets_count_once(bench: CommandBench) -> None:
    result = bench.python(
        """
        import os, socket, time
        kept = [socket.socketpair() for _ in range(30)]
        children = [os.fork() for _ in range(4)]
        time.sleep(2)
        """,
        limits=Limits(sockets=100),
    )
    assert result.ok, result


@pytest.mark.deep
def test_socket_buffers_cannot_be_enlarged(bench: CommandBench) -> None:
    result = bench.python("""
        import socket
        one, _ = socket.socketpair()
        before = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33):
            one.setsockopt(socket.SOL_SOCKET, option, 100_000_000)
        print(one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == before)
    """)
    assert result.output == "True\n"


@pytest.mark.deep
@pytest.mark.parametrize("place", [".", "$TMPDIR", "/dev/shm"])
def test_empty_files_count_toward_the_file_limit(bench: CommandBench, place: str) -> None:
    if place == "/dev/shm" and bench.sandbox.backend == "landlock":
        place = "."  # no writable folder there
    command = f"cd {place}; mkdir -p many; i=0; while :; do i=$((i+1)); : > many/$i; done"
    result = bench.run(command, limits=Limits(files=500), seconds=120)
    assert result.summary == "The check command was stopped because it created too many files."


@pytest.mark.deep
def test_page_tables_count_as_memory(bench: CommandBench) -> None:
    script = """
        import mmap, time
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
        large = mmap.mmap(-1, 2**38, flags=flags, prot=mmap.PROT_READ)
        for place in range(0, 2**38, 2**21):
            large[place]
        time.sleep(600)
    """
    result = bench.python(script, limits=Limits(memory=150 * MIB))
    assert result.summary == "The check command was stopped because it used too much memory."


def list_supervisors() -> list[int]:
    found = []
    for number in find_processes("sandbox.supervisor"):
        with open(f"/proc/{number}/stat") as file:
            if file.read().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.append(number)
    return found


@pytest.mark.deep
def test_no_process_outlives_a_killed_supervisor(bench: CommandBench) -> None:
    token, before, done = uuid4().hex, list_copies(), list[CommandResult]()
    script = f"""
        import ctypes, os, sys, time
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
        for _ in range(3):
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", {token!r}])
        time.sleep(600)
    """
    thread = threading.Thread(target=lambda: done.append(bench.python(script, seconds=600)))
    thread.start()
    assert wait_until(lambda: len(find_processes(token)) >= 3)
    [supervisor] = list_supervisors()
    os.kill(supervisor, signal.SIGKILL)
    thread.join(60)
    expected = ("The check command could not be run: its supervisor died.", False)
    assert [(result.summary, result.ran) for result in done] == [expected]
    assert wait_until(lambda: find_processes(token) == [])
    assert list_copies() <= before


def test_no_process_outlives_a_killed_worker_whose_pipes_are_shared(bench: CommandBench) -> None:
    """A child that was forked in between keeps the pipe open whose end would stop the supervisor."""
    token = uuid4().hex
    script = f"""
        import os, threading, time
        from copydesk.jobs.sandbox.sandbox import Sandbox, private_folder
        def run():
            with private_folder() as folder:
                Sandbox({bench.sandbox.backend!r}).run("touch begun; sleep 600; echo {token}", folder, seconds=600)
        threading.Thread(target=run).start()
        time.sleep(0.1)
        while not os.path.exists({gettempdir()!r} + "/go"):
            time.sleep(0.02)
        child = os.fork()
        if child == 0:
            time.sleep(600)
        print(child, flush=True)
        time.sleep(600)
    """
    before = list_copies()
    environment = {**os.environ, "TMPDIR": gettempdir()}
    worker = subprocess.Popen([sys.executable, "-c", dedent(script)], env=environment, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert wait_until(lambda: any(b"sh" in Path(f"/proc/{p}/comm").read_bytes() for p in find_processes(token)))
    Path(gettempdir(), "go").touch()
    keeper = int(worker.stdout.readline())
    try:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert wait_until(lambda: [p for p in find_processes(token) if p != keeper] == [])
        assert wait_until(lambda: list_copies() <= before)
    finally:
        os.kill(keeper, signal.SIGKILL)
        worker.stdout.close()
