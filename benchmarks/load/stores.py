"""The two pairs of stores with Copydesk's processes: one process with everything, or two servers and a worker."""

import base64
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg

from benchmarks.jobs.repository import make_repository
from benchmarks.jobs.service import NO_LIMIT, ROOT, Account, healthy
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from tests.support.clickhouse import ClickHouse, clickhouse_server
from tests.support.postgres import own_server
from tests.support.processes import environment, free_port

EMBEDDED, SCALE_OUT = PAIRS = ("embedded", "scale-out")
POSTGRESQL, CLICKHOUSE = "postgresql", "clickhouse"
BRIDGE = "tests.support.clickhouse_bridge"
PAGES = 100
DURABLE = ("alter system set fsync = on", "alter system set full_page_writes = on", "select pg_reload_conf()")
"""Turns on durability: the tests' database server runs without it, a measured one must not."""
LIMITS = ("jobs_per_hour", "exports_per_minute", "collect_per_minute", "collect_per_address")


@dataclass(frozen=True)
class Stores:
    folder: Path
    settings: Mapping[str, Any]
    engines: Mapping[str, psutil.Process] = field(default_factory=dict)
    """Processes of the databases, by name; empty for embedded stores."""
    clickhouse: ClickHouse | None = None

    @property
    def are_embedded(self) -> bool:
        return not self.engines

    def sizes(self) -> tuple[int, int]:
        """Returns the bytes on disk of jobs and of views; on ClickHouse without views that wait to be folded."""
        if self.clickhouse is None:
            data = Path(self.settings["data"])
            return _bytes(data, "copydesk.db*"), _bytes(data, "analytics.duckdb*")
        with psycopg.connect(self.settings["database_url"]) as connection:
            [jobs] = connection.execute("select pg_database_size(current_database())").fetchone() or [0]
        return jobs, int(
            self.clickhouse.ask("select sum(bytes_on_disk) from system.parts where active and table != 'inbox'")
        )


@dataclass(frozen=True)
class Fleet:
    stores: Stores
    account: Account
    project: Project
    ports: list[int]
    processes: Mapping[str, psutil.Process]
    """Copydesk's processes and those of the databases."""

    @property
    def data(self) -> Path:
        return Path(self.stores.settings["data"])


@contextmanager
def stores(pair: str, folder: Path) -> Iterator[Stores]:
    """Opens new, empty stores."""
    settings: dict[str, Any] = {
        "data": folder / "data",
        "database_url": "",
        "secret_key": base64.b64encode(secrets.token_bytes(32)).decode(),
        "log_level": "warning",
        **dict.fromkeys(LIMITS, NO_LIMIT),
    }
    if pair == EMBEDDED:
        yield Stores(folder, settings)
        return
    with own_server() as server, clickhouse_server() as clickhouse:
        with psycopg.connect(server.url, autocommit=True) as connection:
            for statement in DURABLE:
                connection.execute(statement)
            postmaster = psutil.Process(connection.info.backend_pid).parent()
        settings |= {"database_url": server.url, "analytics_url": clickhouse.new_database()}
        bridges = [child for child in psutil.Process().children() if BRIDGE in child.cmdline()]
        assert postmaster is not None
        yield Stores(folder, settings, {POSTGRESQL: postmaster, CLICKHOUSE: bridges[-1]}, clickhouse)


@contextmanager
def account(stores: Stores) -> Iterator[tuple[Account, Project]]:
    """Opens a project with a repository and a key. Its desk reads the database beside the servers."""
    desk = open_desk(Settings(**stores.settings))
    try:
        repository = stores.folder / "docs.git"
        project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="benchmark")
        yield Account(desk, project.id, desk.keys.create(project.id, actor="benchmark")[1]), project
    finally:
        desk.close()


@contextmanager
def running(stores: Stores, account: Account, project: Project, *, workers: bool = True) -> Iterator[Fleet]:
    """Starts one process with everything, or two servers and a worker with its own disk."""
    if not (stores.folder / "docs.git").exists():
        make_repository(stores.folder / "docs.git", PAGES)
    with ExitStack() as ended:
        if stores.are_embedded:
            servers = {"serve": ended.enter_context(_served(stores, alone=workers))}
        else:
            servers = {f"serve {n}": ended.enter_context(_served(stores, alone=False)) for n in (1, 2)}
        processes = {name: process for name, (process, _) in servers.items()}
        if workers and not stores.are_embedded:
            data = {"data": stores.folder / "worker"}
            processes["work"] = ended.enter_context(_process({**stores.settings, **data}, "work"))
        ports = [port for _, port in servers.values()]
        yield Fleet(stores, account, project, ports, {**processes, **stores.engines})


@contextmanager
def _served(stores: Stores, *, alone: bool) -> Iterator[tuple[psutil.Process, int]]:
    port = free_port()
    options = () if alone else ("--no-worker",)
    with _process(stores.settings, "serve", "--port", str(port), *options) as process:
        while not healthy(port):
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                raise RuntimeError("copydesk serve ended before it answered")
            time.sleep(0.02)
        yield process, port


@contextmanager
def _process(settings: Mapping[str, Any], *command: str) -> Iterator[psutil.Process]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("COPYDESK_")}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "copydesk", *command], cwd=ROOT, env={**given, **environment(settings)}, stderr=log
        )
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(timeout=60)
            log.seek(0)
            if "Traceback" in (said := log.read()):
                print(f"copydesk {command[0]} had a fault:\n{said[-3000:]}", file=sys.stderr)


def _bytes(folder: Path, names: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(names))
