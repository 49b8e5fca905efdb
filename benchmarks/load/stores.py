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
from benchmarks.jobs.service import ROOT, UNLIMITED, BenchmarkAccount, is_healthy
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import open_desk
from tests.support.clickhouse import ClickHouseServer, clickhouse_server
from tests.support.postgres import dedicated_server
from tests.support.processes import free_port, settings_environment

EMBEDDED, SCALE_OUT = STORE_PAIRS = ("embedded", "scale-out")
POSTGRESQL, CLICKHOUSE = "postgresql", "clickhouse"
BRIDGE = "tests.support.clickhouse_bridge"
PAGE_COUNT = 100
DURABILITY_STATEMENTS = (
    "alter system set fsync = on",
    "alter system set full_page_writes = on",
    "select pg_reload_conf()",
)
"""Turns on durability: the tests' database server runs without it, a measured one must not."""
RATE_LIMIT_SETTINGS = ("jobs_per_hour", "exports_per_minute", "collect_per_minute", "collect_per_address")


@dataclass(frozen=True)
class BenchmarkStores:
    folder: Path
    settings: Mapping[str, Any]
    engines: Mapping[str, psutil.Process] = field(default_factory=dict)
    """Processes of the databases, by name; empty for embedded stores."""
    clickhouse: ClickHouseServer | None = None

    @property
    def are_embedded(self) -> bool:
        return not self.engines

    def sizes(self) -> tuple[int, int]:
        """Returns the bytes on disk of jobs and of views; on ClickHouse without views that wait to be folded."""
        if self.clickhouse is None:
            data = Path(self.settings["data"])
            return _folder_bytes(data, "copydesk.db*"), _folder_bytes(data, "analytics.duckdb*")
        with psycopg.connect(self.settings["database_url"]) as connection:
            [jobs] = connection.execute("select pg_database_size(current_database())").fetchone() or [0]
        return jobs, int(
            self.clickhouse.run_query("select sum(bytes_on_disk) from system.parts where active and table != 'inbox'")
        )


@dataclass(frozen=True)
class BenchmarkFleet:
    stores: BenchmarkStores
    account: BenchmarkAccount
    project: Project
    ports: list[int]
    processes: Mapping[str, psutil.Process]
    """Copydesk's processes and those of the databases."""

    @property
    def data(self) -> Path:
        return Path(self.stores.settings["data"])


@contextmanager
def open_stores(pair: str, folder: Path) -> Iterator[BenchmarkStores]:
    """Opens new, empty stores."""
    settings: dict[str, Any] = {
        "data": folder / "data",
        "database_url": "",
        "secret_key": base64.b64encode(secrets.token_bytes(32)).decode(),
        "log_level": "warning",
        **dict.fromkeys(RATE_LIMIT_SETTINGS, UNLIMITED),
    }
    if pair == EMBEDDED:
        yield BenchmarkStores(folder, settings)
        return
    with dedicated_server() as server, clickhouse_server() as clickhouse:
        with psycopg.connect(server.url, autocommit=True) as connection:
            for statement in DURABILITY_STATEMENTS:
                connection.execute(statement)
            postmaster = psutil.Process(connection.info.backend_pid).parent()
        settings |= {"database_url": server.url, "analytics_url": clickhouse.new_database()}
        bridges = [child for child in psutil.Process().children() if BRIDGE in child.cmdline()]
        assert postmaster is not None
        yield BenchmarkStores(folder, settings, {POSTGRESQL: postmaster, CLICKHOUSE: bridges[-1]}, clickhouse)


@contextmanager
def open_account(stores: BenchmarkStores) -> Iterator[tuple[BenchmarkAccount, Project]]:
    """Opens a project with a repository and a key. Its desk reads the database beside the servers."""
    desk = open_desk(Settings(**stores.settings))
    try:
        repository = stores.folder / "docs.git"
        project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="benchmark")
        yield BenchmarkAccount(desk, project.id, desk.keys.create(project.id, actor="benchmark")[1]), project
    finally:
        desk.close()


@contextmanager
def start_fleet(
    stores: BenchmarkStores, account: BenchmarkAccount, project: Project, *, workers: bool = True
) -> Iterator[BenchmarkFleet]:
    """Starts one process with everything, or two servers and a worker with its own disk."""
    if not (stores.folder / "docs.git").exists():
        make_repository(stores.folder / "docs.git", PAGE_COUNT)
    with ExitStack() as ended:
        if stores.are_embedded:
            servers = {"serve": ended.enter_context(_start_server(stores, alone=workers))}
        else:
            servers = {f"serve {n}": ended.enter_context(_start_server(stores, alone=False)) for n in (1, 2)}
        processes = {name: process for name, (process, _) in servers.items()}
        if workers and not stores.are_embedded:
            data = {"data": stores.folder / "worker"}
            processes["work"] = ended.enter_context(_start_process({**stores.settings, **data}, "work"))
        ports = [port for _, port in servers.values()]
        yield BenchmarkFleet(stores, account, project, ports, {**processes, **stores.engines})


@contextmanager
def _start_server(stores: BenchmarkStores, *, alone: bool) -> Iterator[tuple[psutil.Process, int]]:
    port = free_port()
    options = () if alone else ("--no-worker",)
    with _start_process(stores.settings, "serve", "--port", str(port), *options) as process:
        while not is_healthy(port):
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                raise RuntimeError("copydesk serve ended before it answered")
            time.sleep(0.02)
        yield process, port


@contextmanager
def _start_process(settings: Mapping[str, Any], *command: str) -> Iterator[psutil.Process]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COPYDESK_")}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "copydesk", *command],
            cwd=ROOT,
            env={**inherited, **settings_environment(settings)},
            stderr=log,
        )
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(timeout=60)
            log.seek(0)
            if "Traceback" in (log_text := log.read()):
                print(f"copydesk {command[0]} had a fault:\n{log_text[-3000:]}", file=sys.stderr)


def _folder_bytes(folder: Path, names: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(names))
