"""Copydesk's commands as processes that start quickly, and can be killed, paused and given a wrong clock."""

import datetime
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import httpx2 as httpx

# Forked from a process that has imported everything: real processes, without a second of imports each.
forkserver = multiprocessing.get_context("forkserver")
forkserver.set_forkserver_preload(["__main__", "tests.support.forkserver_preload"])
TIMEOUT_SECONDS = 180.0


@dataclass(frozen=True)
class CommandSpec:
    """The command of a process, its environment, and the error of its clock."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    clock_ahead: float = 0
    """Seconds by which its clock is ahead; may be negative."""


@dataclass
class RunningCommand:
    """A running `copydesk …` command."""

    orders: CommandSpec
    process: ForkServerProcess = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.process = forkserver.Process(target=_run_command, args=(self.orders,), daemon=True)
        self.process.start()

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive()

    def send(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Kills the process, as a power failure does."""
        self.process.kill()
        self.process.join()

    def stop(self, seconds: float = TIMEOUT_SECONDS) -> float:
        """Stops the process as an operator does; returns the seconds that it took."""
        began = time.monotonic()
        self.send(signal.SIGTERM)
        self.process.join(seconds)
        assert self.process.exitcode == 0, f"it ended with {self.process.exitcode}: {self.output[-2000:]}"
        return time.monotonic() - began

    def pause(self) -> None:
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def close(self) -> None:
        if self.process.is_alive():
            self.kill()
        self.process.close()

    @property
    def output(self) -> str:
        return self.orders.log.read_text() if self.orders.log.exists() else ""


@dataclass
class RunningServer(RunningCommand):
    """A running `copydesk serve`, which has the same port for its lifetime."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self, seconds: float = TIMEOUT_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=30).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self.is_alive, f"the server ended: {self.output[-2000:]}"
            assert time.monotonic() < deadline, f"the server does not get ready: {self.output[-2000:]}"
            time.sleep(0.03)


def settings_environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """Formats settings as environment variables."""
    return {
        f"COPYDESK_{name.upper()}": ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in settings.items()
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _run_command(orders: CommandSpec) -> None:
    from copydesk.cli import main

    for name in [name for name in os.environ if name.startswith("COPYDESK_")]:
        del os.environ[name]  # settings of the test that was running when the fork server started
    os.environ.update(orders.environment)
    log = os.open(orders.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    if orders.clock_ahead:
        _set_clock(orders.clock_ahead)
    sys.argv = ["copydesk", *orders.command]
    main()


def _set_clock(ahead: float) -> None:
    """Shifts the time of day for everything in the process; the monotonic clock stays right."""
    real_time, real_time_ns, real_datetime = time.time, time.time_ns, datetime.datetime

    class Wrong(real_datetime):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return real_datetime.now(tz) + datetime.timedelta(seconds=ahead)

    time.time = lambda: real_time() + ahead
    time.time_ns = lambda: real_time_ns() + int(ahead * 1e9)
    for module in list(sys.modules.values()):
        if module.__name__.startswith("copydesk") and getattr(module, "datetime", None) is real_datetime:
            module.datetime = Wrong  # type: ignore[attr-defined]
