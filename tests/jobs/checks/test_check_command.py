"""A check command works on a copy and cannot read, write, reach or leave anything outside."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory, gettempdir
from textwrap import dedent
from uuid import uuid4

import pygit2
import pytest
from pygit2.enums import FileMode

from copydesk.jobs.checks import check_command
from copydesk.jobs.checks.check_command import CommandResult, clean_output, export_workspace, run_command
from copydesk.jobs.execution.stoppable import Stoppable, unstoppable
from copydesk.jobs.sandbox.probe import BACKENDS, probe
from copydesk.jobs.sandbox.protocol import DEFAULT_LIMITS, MIB, Backend, Limits
from copydesk.jobs.sandbox.resource_usage import count_tasks
from copydesk.jobs.sandbox.sandbox import Sandbox, SandboxUnavailable
from copydesk.jobs.workspace.git_tree import Tree
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.conftest import MakeWorkspace
from tests.support.programs import skip_missing
from tests.support.repositories import AUTHOR

SOMETHING = {"docs/page.md": b"# Page\n", "mkdocs.yml": b"site_name: x\n"}


class CommandBench:
    """Runs commands on a workspace in one sandbox of this machine."""

    def __init__(self, sandbox: Sandbox, workspace: Workspace) -> None:
        self.sandbox, self.workspace = sandbox, workspace

    def run(
        self,
        command: str,
        *,
        seconds: float = 60,
        root: str = "",
        limits: Limits | None = None,
        stoppable: Stoppable = unstoppable,
    ) -> CommandResult:
        sandbox = replace(self.sandbox, limits=limits) if limits else self.sandbox
        before = list_copies()
        result = run_command(
            command, self.workspace, sandbox, root=root, seconds=seconds, stoppable=stoppable, tools=[sys.base_prefix]
        )
        assert list_copies() <= before, "the copy is gone"
        return result

    def python(self, script: str, **options: object) -> CommandResult:
        """Runs a script with a Python inside the sandbox, as the workspace's file attack.py."""
        self.workspace.write("attack.py", dedent(script).encode())
        choices = f"{sys.base_prefix}/bin/python3 /usr/local/bin/python3 /usr/bin/python3"
        find = f'for p in {choices}; do "$p" -c "" 2>/dev/null && exec "$p" attack.py; done; exit 99'
        return self.run(find, **options)  # type: ignore[arg-type]


FOUND: dict[Backend, Sandbox | SandboxUnavailable] = {}


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A new folder of temporary files, open to every user because root runs commands as another user."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(params=BACKENDS)
def bench(request: pytest.FixtureRequest, workspace: MakeWorkspace) -> CommandBench:
    backend = request.param
    if backend not in FOUND:
        FOUND[backend] = probe(backends=[backend])
    sandbox = FOUND[backend]
    if isinstance(sandbox, SandboxUnavailable):
        skip_missing(backend, sandbox.reason)
    return CommandBench(sandbox, workspace(SOMETHING))


def list_copies() -> set[str]:
    return {name for name in os.listdir(gettempdir()) if name.startswith("copydesk-check-")}


def find_processes(token: str) -> list[int]:
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            if token.encode() in Path("/proc", number, "cmdline").read_bytes():
                found.append(int(number))
        except OSError:
            continue
    return found


def wait_until(true: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


@contextmanager
def start_victim() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.deep
def test_a_command_passes_or_fails_by_its_status_and_shows_its_output(bench: CommandBench) -> None:
    passed = bench.run("cat docs/page.md; echo late >&2")
    assert passed == CommandResult(True, "The check command passed.", "# Page\nlate\n")
    failed = bench.run("echo broken link; exit 3")
    assert failed == CommandResult(False, "The check command failed with status 3.", "broken link\n")


@pytest.mark.deep
def test_command_sees_the_edited_files_below_the_project_root(bench: CommandBench) -> None:
    bench.workspace.write("docs/new.md", b"new\n")
    bench.workspace.delete("docs/page.md")
    result = bench.run("ls; cat new.md; test ! -e ../mkdocs.yml", root="docs")
    assert result.ok
    assert result.output == "new.md\nnew\n"


@pytest.mark.deep
def test_command_can_write_in_its_temporary_copy(bench: CommandBench) -> None:
    result = bench.run('mkdir -p site && cp -p docs/page.md site/ && touch "$TMPDIR/x" && mv site out && ls out')
    assert result.ok, result.output
    assert bench.workspace.paths() == sorted(SOMETHING)


@pytest.mark.deep
def test_command_cannot_connect_any_socket(bench: CommandBench) -> None:
    name = uuid4().hex
    with (
        socket.socket() as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        place = Path(gettempdir(), f"{name}.socket")
        unix.bind(str(place))
        abstract.bind("\0" + name)
        for listener in (tcp, unix, abstract):
            listener.listen()
        for each in (tcp, udp, unix, abstract):
            each.setblocking(False)
        result = bench.python(f"""
            import ctypes, socket
            def tried(*kind, to):
                try:
                    with socket.socket(*kind) as s:
                        s.connect(to)
                        s.send(b"x")
                except OSError:
                    return
                print("reached", to)
            tried(to=("127.0.0.1", {tcp.getsockname()[1]}))
            tried(socket.AF_INET, socket.SOCK_DGRAM, to=("127.0.0.1", {udp.getsockname()[1]}))
            tried(socket.AF_INET6, to=("::1", {tcp.getsockname()[1]}))
            tried(socket.AF_UNIX, to={str(place)!r})
            tried(socket.AF_UNIX, to="\\0{name}")
            ring = ctypes.CDLL(None, use_errno=True).syscall(425, 8, ctypes.create_string_buffer(120))
            print("sockets by another way" if ring >= 0 else "nothing")
        """)
        place.unlink()
        for listener in (tcp, unix, abstract):
            with pytest.raises(BlockingIOError):
                listener.accept()
        with pytest.raises(BlockingIOError):
            udp.recv(1)
    assert result.output == "nothing\n"


def test_command_cannot_read_our_files_environment_or_processes(
    bench: CommandBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = uuid4().hex
    monkeypatch.setenv("PLANTED", token)
    secret = Path(gettempdir(), f"{token[:8]}.txt")
    secret.write_text(token)
    secret.chmod(0o644)
    try:
        result = bench.run(
            f"env; exec 2>/dev/null; cat {secret} /etc/passwd /etc/shadow /proc/{os.getpid()}/environ;"
            f" ls / /tmp /root /home {Path.cwd()}; cat /proc/*/environ /proc/*/cmdline; ln -s {secret} s; cat s; true"
        )
    finally:
        secret.unlink()
    assert result.ok
    for kept in (token, "root:", "pytest", "pyproject.toml"):
        assert kept not in result.output


def test_command_cannot_change_files_outside_its_copy(bench: CommandBench) -> None:
    folder = Path(gettempdir(), uuid4().hex)
    folder.mkdir()
    folder.chmod(0o777)
    file = folder / "file"
    file.write_text("as it was")
    file.chmod(0o666)
    before = file.stat()
    try:
        result = bench.run(
            f"echo x > {file}; echo x > {folder}/new; rm -f {file}; mv {file} moved; ln {file} linked; chmod 0 {file};"
            f"touch -d 2001-01-01 {file}; truncate -s 0 {file}; mkdir {folder}/sub; chmod 0 {folder}; rmdir {folder};"
            "for d in / /usr /etc /dev /var/tmp /dev/shm; do echo x > $d/copydesk-made; done; true"
        )
        assert result.ok
        after = file.stat()
        assert file.read_text() == "as it was"
        assert (after.st_mode, after.st_mtime_ns, after.st_uid) == (before.st_mode, before.st_mtime_ns, before.st_uid)
        assert os.listdir(folder) == ["file"]
        assert folder.stat().st_mode & 0o777 == 0o777
        assert not any(Path(d, "copydesk-made").exists() for d in ("/", "/usr", "/etc", "/dev", "/var/tmp", "/dev/shm"))
    finally:
        file.unlink()
        folder.rmdir()


def test_command_cannot_signal_trace_or_limit_other_processes(bench: CommandBench) -> None:
    with start_victim() as process:
        result = bench.python(f"""
            import ctypes, os, resource, signal
            libc = ctypes.CDLL(None, use_errno=True)
            done = []
            for pid in ({process.pid}, {os.getpid()}, -{os.getpgid(0)}):
                for what, act in {{
                    "kill": lambda: os.kill(pid, signal.SIGKILL),
                    "limit": lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0)),
                    "slow": lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
                    "pin": lambda: os.sched_setaffinity(pid, [0]),
                }}.items():
                    try:
                        act()
                        done.append((what, pid))
                    except OSError:
                        pass
                if libc.ptrace(16, pid, 0, 0) == 0:
                    done.append(("trace", pid))
            print(done)
        """)
        assert process.poll() is None
    assert result.output == "[]\n"


def test_command_cannot_create_namespaces_or_gain_privileges(bench: CommandBench) -> None:
    result = bench.run("unshare -Ur true || unshare -n true || chroot . true || mount -t tmpfs x . || echo none")
    assert result.output.endswith("none\n")


@pytest.mark.deep
def test_background_processes_end_with_the_command(bench: CommandBench) -> None:
    token = uuid4().hex
    result = bench.python(f"""
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setpgid(0, 0)
                null = os.open(os.devnull, os.O_RDWR)
                [os.dup2(null, fd) for fd in range(3)]
                os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)", {token!r}])
            os._exit(0)
        os.wait()
        time.sleep(0.2)
    """)
    assert result.ok, result
    assert find_processes(token) == []


@pytest.mark.deep
def test_a_fork_bomb_is_bounded_and_ends(bench: CommandBench) -> None:
    """Unless the service is root, other tasks of its user count too; each that ends frees a place."""
    others = 0 if os.geteuid() == 0 else count_tasks(os.geteuid())
    counted = bench.python("""
        import os, signal, time
        children = []
        try:
            while True:
                pid = os.fork()
                if pid == 0:
                    time.sleep(30)
                    os._exit(0)
                children.append(pid)
        except OSError:
            print(len(children))
    """)
    began = time.monotonic()
    token = uuid4().hex
    bomb = bench.run(f"t={token}; f() {{ f | f & }}; f; sleep 600", seconds=2)
    assert time.monotonic() - began < 60
    assert not bomb.ok
    assert find_processes(token) == []
    assert 16 < int(counted.output) <= DEFAULT_LIMITS.processes + others
    assert "within 2 s" in bomb.summary or "status" in bomb.summary


@pytest.mark.deep
@pytest.mark.parametrize(
    "command",
    [
        "while :; do head -c 4M /dev/zero > $((i=i+1)); done",
        "head -c 400M /dev/zero > big",
        "i=0; while :; do mkdir d && cd d; head -c 1M /dev/zero > f; done",
        "exec 3>c 4>d 5>e 6>f; rm c d e f; for n in 3 4 5 6; do head -c 39M /dev/zero >&$n; done; sleep 60",
    ],
    ids=["many", "one", "deep", "deleted"],
)
def test_disk_usage_is_limited(bench: CommandBench, command: str) -> None:
    free = os.statvfs(gettempdir())
    result = bench.run(command, limits=Limits(written=40 * MIB), seconds=60)
    after = os.statvfs(gettempdir())
    assert not result.ok
    assert "within" not in result.summary, "it was stopped for what it wrote"
    assert after.f_bavail * after.f_frsize > free.f_bavail * free.f_frsize - 1024 * MIB


@pytest.mark.deep
def test_deleted_files_count_although_other_processes_free_space(bench: CommandBench) -> None:
    token = uuid4().hex
    with NamedTemporaryFile(delete=False) as other:
        os.posix_fallocate(other.fileno(), 0, 300 * MIB)

    def free_space() -> None:
        wait_until(lambda: len(find_processes(token)) > 0)
        os.unlink(other.name)

    thread = threading.Thread(target=free_space)
    thread.start()
    write = "exec 3>c 4>d; rm c d; for n in 3 4; do head -c 39M /dev/zero >&$n; done"
    result = bench.run(f"sleep 2; {write}; sleep 60; echo {token}", limits=Limits(written=40 * MIB), seconds=60)
    thread.join()
    assert not result.ok
    assert "within" not in result.summary, "it was stopped for what it wrote"


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["one", "shared", "many"])
def test_memory_is_limited(bench: CommandBench, kind: str) -> None:
    scripts = {
        "one": "x = bytearray(400 * 2**20)",
        "shared": "import mmap, time; m = mmap.mmap(-1, 400 * 2**20); m.write(b'x' * len(m)); time.sleep(60)",
        "many": "import os, time; [os.fork() for _ in range(3)]; x = bytearray(b'x' * 40 * 2**20); time.sleep(60)",
    }
    result = bench.python(scripts[kind], limits=Limits(memory=150 * MIB))
    assert not result.ok
    assert "memory" in result.summary or "MemoryError" in result.output


@pytest.mark.deep
def test_command_is_stopped_at_its_timeout(bench: CommandBench) -> None:
    token = uuid4().hex
    began = time.monotonic()
    result = bench.run(f"trap '' TERM HUP INT; echo begun; while :; do :; done; echo {token}", seconds=2)
    assert time.monotonic() - began < 60
    assert find_processes(token) == []
    assert result == CommandResult(False, "The check command did not finish within 2 s.", "begun\n")


@pytest.mark.deep
def test_canceling_the_job_ends_the_command_immediately(bench: CommandBench) -> None:
    token = uuid4().hex
    cancels: list[Callable[[], object]] = []

    @contextmanager
    def stoppable(cancel: Callable[[], object]) -> Iterator[None]:
        cancels.append(cancel)
        yield

    done: list[CommandResult] = []
    command = f"sleep 600; echo {token}"
    thread = threading.Thread(target=lambda: done.append(bench.run(command, seconds=600, stoppable=stoppable)))
    thread.start()
    assert wait_until(lambda: len(find_processes(token)) > 0)
    cancels[-1]()
    thread.join(60)
    assert not thread.is_alive()
    assert not done[0].ok
    assert find_processes(token) == []
    assert "stopped" in done[0].summary


@pytest.mark.deep
def test_killed_worker_leaves_no_process_and_no_copy(bench: CommandBench) -> None:
    token = uuid4().hex
    script = f"""
        from copydesk.jobs.sandbox.sandbox import Sandbox, private_folder
        with private_folder() as folder:
            Sandbox({bench.sandbox.backend!r}).run("sleep 600; echo {token}", folder, seconds=600)
    """
    before = list_copies()
    worker = subprocess.Popen([sys.executable, "-c", dedent(script)], env={**os.environ, "TMPDIR": gettempdir()})
    assert wait_until(lambda: any(b"sh" in Path(f"/proc/{p}/comm").read_bytes() for p in find_processes(token)))
    assert list_copies() > before
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert wait_until(lambda: find_processes(token) == [])
    assert wait_until(lambda: list_copies() <= before)


def test_copy_with_removed_permissions_is_deleted(bench: CommandBench) -> None:
    result = bench.run('mkdir -p a/b; touch a/b/c; chmod 0 a/b a "$TMPDIR"; i=0; true')
    assert result.ok


def test_only_regular_files_are_copied(bench: CommandBench, tmp_path: Path) -> None:
    repository = pygit2.init_repository(str(tmp_path / "links.git"), bare=True)
    index = pygit2.Index()
    for path, data, mode in (
        ("docs/page.md", b"page\n", FileMode.BLOB),
        ("build.sh", b"#!/bin/sh\necho built\n", FileMode.BLOB_EXECUTABLE),
        ("passwd", b"/etc/passwd", FileMode.LINK),
        ("docs/up", b"../../../..", FileMode.LINK),
    ):
        index.add(pygit2.IndexEntry(path, repository.create_blob(data), mode))
    commit = repository.create_commit(None, AUTHOR, AUTHOR, "Links", index.write_tree(repository), [])
    bench.workspace = Workspace(Tree(repository, str(commit)))
    result = bench.run("./build.sh; find . ! -type d | sort")
    assert result.output == "built\n./build.sh\n./docs/page.md\n"
    export_workspace(bench.workspace, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == ["build.sh", "docs", "page.md"]


def test_tree_with_path_traversal_names_writes_nothing_outside(tmp_path: Path) -> None:
    repository = pygit2.init_repository(str(tmp_path / "hostile.git"), bare=True)
    blob = repository.create_blob(b"x")
    inner = b"100644 evil\0" + blob.raw
    tree = repository.odb.write(pygit2.enums.ObjectType.TREE, inner)
    outer = repository.odb.write(
        pygit2.enums.ObjectType.TREE,
        b"40000 ..\0" + tree.raw + b"40000 .git\0" + tree.raw + b"100644 a/../../e\0" + blob.raw,
    )
    text = f"tree {outer}\nauthor A <a@example.org> 1 +0000\ncommitter A <a@example.org> 1 +0000\n\nx\n"
    commit = repository.odb.write(pygit2.enums.ObjectType.COMMIT, text.encode())
    target = tmp_path / "deep" / "work"
    target.mkdir(parents=True)
    export_workspace(Workspace(Tree(repository, str(commit))), target)
    assert sorted(path.name for path in (tmp_path / "deep").rglob("*")) == ["work"]


def test_too_large_workspace_is_refused_with_a_message(
    workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_command, "MAX_COPIED_FILES", 1)
    before = list_copies()
    result = run_command("true", workspace(SOMETHING), Sandbox("landlock"), root="", seconds=5)
    assert not result.ok
    assert "is too large" in result.summary
    assert list_copies() <= before


def test_without_a_sandbox_a_command_is_refused_and_not_run(workspace: MakeWorkspace, tmp_path: Path) -> None:
    none = probe(backends=[])
    assert isinstance(none, SandboxUnavailable)
    result = run_command(f"touch {tmp_path}/ran", workspace(SOMETHING), none, root="", seconds=5)
    assert result == CommandResult(False, f"The check command was not run. {none.reason}", ran=False)
    assert not (tmp_path / "ran").exists()


@pytest.mark.deep
def test_sandbox_that_exposes_hidden_paths_is_unavailable() -> None:
    found = probe(hidden=[Path("/usr")])
    assert isinstance(found, SandboxUnavailable)
    if any(isinstance(probe(backends=[backend]), Sandbox) for backend in BACKENDS):
        assert "list /usr" in found.reason


@pytest.mark.deep
def test_output_is_plain_text_and_truncated() -> None:
    assert clean_output("\x1b[31mred\x1b[0m \x1b]0;title\x07a\x00b\u202ec\r\n10%\r20%\rdone\n") == "red abc\ndone\n"
    assert len(clean_output("x" * 1_000_000)) < 17_000
