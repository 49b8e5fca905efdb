"""The real ClickHouse engine behind its HTTP interface: one new, empty server for each process of a test run."""

import atexit
import http.client
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

PASSWORD = "open-sesame"
ROOT = Path(__file__).parents[2]


class ClickHouseServer:
    """A server that can be killed and started again on its data."""

    def __init__(self, folder: Path, *options: str) -> None:
        """Creates a server. Options are those of the engine, such as config-file=…."""
        self.folder, self._options = folder, options
        self.port = _free_port()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        place = "?".join(filter(None, (str(self.folder), "&".join(self._options))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.clickhouse_bridge", place, str(self.port), PASSWORD],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """Kills the process without a chance to finish anything."""
        self._end_process(signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._end_process()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def url(self, database: str, password: str = PASSWORD, options: str = "") -> str:
        return f"clickhouse://default:{password}@127.0.0.1:{self.port}/{database}{options}"

    def new_database(self) -> str:
        """Creates an empty database and returns its URL."""
        name = f"test_{uuid.uuid4().hex}"
        self.run_query(f"create database {name}")
        return self.url(name)

    def run_query(self, query: str, **settings: str) -> str:
        """Runs a query by plain HTTP, without a client library."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        token = b64encode(f"default:{PASSWORD}".encode()).decode()
        connection.request("POST", f"/?{urlencode(settings)}", query.encode(), {"Authorization": f"Basic {token}"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert answer.status == 200, text
        return text

    def _end_process(self, signal_number: signal.Signals | None = None) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if signal_number is not None:
            process.send_signal(signal_number)
        process.wait(30)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def clickhouse_server(*options: str) -> Iterator[ClickHouseServer]:
    """Starts a dedicated server, which a test may kill and restart."""
    folder = Path(tempfile.mkdtemp(prefix="copydesk-clickhouse-"))
    server = ClickHouseServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _start_shared_server() -> ClickHouseServer:
    opened = clickhouse_server()
    server = opened.__enter__()
    atexit.register(opened.__exit__, None, None, None)
    return server


def new_database() -> str:
    """Creates an empty database on the server that the complete run shares, and returns its URL."""
    return _start_shared_server().new_database()


def run_query(query: str) -> str:
    return _start_shared_server().run_query(query)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
