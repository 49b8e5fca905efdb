"""Finds the sandbox that works on this machine: runs each one and attacks it from inside."""

import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from copydesk.jobs.sandbox.backends import build_environment
from copydesk.jobs.sandbox.protocol import Backend
from copydesk.jobs.sandbox.sandbox import Sandbox, SandboxUnavailable, private_folder
from copydesk.jobs.sandbox.start_errors import TASK_LIMIT_REACHED, explain_start_error, is_fork_error

BACKENDS: tuple[Backend, ...] = ("bubblewrap", "landlock")
PROBE_TIMEOUT_SECONDS = 20.0
NO_PYTHON_STATUS = 99
CANARY = b"canary"
SHELL_VARIABLES = {"PWD", "OLDPWD", "SHLVL", "_"}
"""Variables that every shell sets."""
ATTACK_COMMAND = (
    "(:); "  # a subshell, because the shell hides a failed fork in a command with redirected errors
    f'for python in {sys.base_prefix}/bin/python3 /usr/local/bin/python3 /usr/bin/python3; do "$python" -I -S -c "" '
    f'2>/dev/null && exec "$python" -I -S escape_attempts.py; done; exit {NO_PYTHON_STATUS}'
)


def probe(hidden: Sequence[Path] = (), backends: Sequence[Backend] = BACKENDS) -> Sandbox | SandboxUnavailable:
    """Returns the first sandbox that prevents every attack.

    `hidden` are folders that must not be visible inside, such as the data folder.
    """
    if sys.platform != "linux":
        return SandboxUnavailable("Check commands run in a sandbox that requires Linux.")
    faults = []
    for backend in backends:
        try:
            fault = _find_fault(backend, hidden)
        except OSError as error:
            fault = explain_start_error(error)
        if fault is None:
            return Sandbox(backend)
        faults.append(f"{backend}: {fault}")
    return SandboxUnavailable(f"No sandbox for check commands works on this machine ({'; '.join(faults)}).")


def _find_fault(backend: Backend, hidden: Sequence[Path]) -> str | None:
    with private_folder() as folder, AttackTarget() as target:
        work = folder / "work"
        shutil.copy(Path(__file__).with_name("escape_attempts.py"), work)
        (work / "told.json").write_text(json.dumps({**target.description, "hidden": [str(path) for path in hidden]}))
        result = Sandbox(backend).run(ATTACK_COMMAND, folder, seconds=PROBE_TIMEOUT_SECONDS, readable=[sys.base_prefix])
        output_lines = result.output.split("\n")
        if is_fork_error(result.output):
            return TASK_LIMIT_REACHED
        if result.ending == "ended" and result.status == NO_PYTHON_STATUS:
            return "no Python was found inside to test it with"
        if result.ending != "ended" or result.status != 0 or output_lines[-2:] != ["tried", ""]:
            return " ".join(result.output.split())[-300:] or f"the test ended with status {result.status}"
        escapes = [*output_lines[:-2], *target.find_harm()]
        return f"a command inside can {', '.join(escapes)}" if escapes else None


class AttackTarget:
    """Targets outside the sandbox: a file, listening sockets and a process."""

    def __enter__(self) -> "AttackTarget":
        self._exit_stack = ExitStack()
        folder = Path(self._exit_stack.enter_context(TemporaryDirectory(prefix="copydesk-probe-")))
        folder.chmod(0o755)  # open to every user, so that only the sandbox can hide it
        self.file = folder / "file"
        self.file.write_bytes(CANARY)
        self.file.chmod(0o666)
        abstract = secrets.token_hex(8)
        self.listeners = [
            self._open_listener(socket.AF_INET, ("127.0.0.1", 0)),
            self._open_listener(socket.AF_UNIX, str(folder / "socket")),
            self._open_listener(socket.AF_UNIX, "\0" + abstract),
        ]
        self.receivers = [
            self._open_receiver(str(folder / "datagrams")),
            self._open_receiver(f"\0{abstract}-datagrams"),
        ]
        for name in ("socket", "datagrams"):
            (folder / name).chmod(0o777)
        self.victim = self._exit_stack.enter_context(
            subprocess.Popen(["sleep", str(2 * PROBE_TIMEOUT_SECONDS)], env={})
        )
        self._exit_stack.callback(self.victim.kill)
        self.description: dict[str, Any] = {
            "file": str(self.file),
            "port": self.listeners[0].getsockname()[1],
            "socket": str(folder / "socket"),
            "datagrams": str(folder / "datagrams"),
            "abstract": abstract,
            "victim": self.victim.pid,
            "process": hashlib.sha256(Path("/proc/self/cmdline").read_bytes()).hexdigest(),
            "environment": sorted(set(os.environ) - set(build_environment("")) - SHELL_VARIABLES),
        }
        return self

    def __exit__(self, *_: object) -> None:
        self._exit_stack.close()

    def find_harm(self) -> Iterator[str]:
        """Yields the successful attacks that are visible only from outside."""
        if self.file.read_bytes() != CANARY or self.file.stat().st_mode & 0o777 != 0o666:
            yield "change a file outside"
        if self.victim.poll() is not None:
            yield "end a process outside"
        for listener in self.listeners:
            with suppress(BlockingIOError):
                listener.accept()[0].close()
                yield "connect to a socket outside"
        for receiver in self.receivers:
            with suppress(BlockingIOError):
                receiver.recv(1)
                yield "send to a socket outside"

    def _open_receiver(self, address: str) -> socket.socket:
        receiver = self._exit_stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        receiver.bind(address)
        receiver.setblocking(False)
        return receiver

    def _open_listener(self, family: socket.AddressFamily, address: Any) -> socket.socket:
        listener = self._exit_stack.enter_context(socket.socket(family))
        listener.bind(address)
        listener.listen()
        listener.setblocking(False)
        return listener
