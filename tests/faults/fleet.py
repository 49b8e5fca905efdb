"""Several servers and workers as separate processes on one PostgreSQL, as on several machines."""

import base64
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx

from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from tests.crash.harness import FILES_BEFORE, SCRIPT, wait_until
from tests.support.model_server import ModelServer, call, call_several, hang
from tests.support.processes import CommandSpec, RunningCommand, RunningServer, free_port, settings_environment
from tests.support.repositories import make_repository

LEASE_SECONDS = 2.0
SCRIPTED_MODEL = "openai-compatible:scripted"


@dataclass
class FleetProject:
    """A project with its repository and its key."""

    project: Project
    repository: Path
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def at(self, path: str = "") -> str:
        return f"/v2/agent/{self.project.id}/job{path}"

    @property
    def events(self) -> str:
        return f"/v1/analytics/{self.project.id}/events"


@dataclass
class Fleet:
    """`desk` reads the database directly, without the faults between it and the processes."""

    folder: Path
    desk: Desk
    settings: dict[str, Any]
    sites: list[FleetProject] = field(default_factory=list)
    servers: list[RunningServer] = field(default_factory=list)
    workers: list[RunningCommand] = field(default_factory=list)

    def add_project(self, name: str = "docs") -> FleetProject:
        repository = make_repository(self.folder / f"{name}.git", FILES_BEFORE)
        project = self.desk.projects.create(name.title(), repository=str(repository), ref="main", actor="test")
        site = FleetProject(project, repository, self.desk.keys.create(project.id, actor="test")[1])
        self.sites.append(site)
        return site

    def start_server(self, *, clock_ahead: float = 0) -> RunningServer:
        """Starts a server. The servers share a machine, and so the folder of the embedded analytics store."""
        port = free_port()
        command = ("serve", "--no-worker", "--port", str(port))
        log = self.folder / f"serve-{len(self.servers)}.log"
        server = RunningServer(CommandSpec(command, settings_environment(self.settings), log, clock_ahead), port)
        self.servers.append(server)
        server.wait_until_ready()
        return server

    def start_worker(self, *, data: Path | None = None, clock_ahead: float = 0) -> RunningCommand:
        """Starts a worker on its own machine: it lacks the mirrors and commits of the others."""
        number = len(self.workers)
        settings = {**self.settings, "data": data or self.folder / f"worker-{number}"}
        log = self.folder / f"work-{number}.log"
        worker = RunningCommand(CommandSpec(("work",), settings_environment(settings), log, clock_ahead))
        self.workers.append(worker)
        wait_until(lambda: "is waiting for jobs" in worker.output, "the worker to start")
        return worker

    def client(self, site: FleetProject) -> httpx.Client:
        return httpx.Client(base_url=self.servers[0].url, headers=site.headers, timeout=30)

    def close(self) -> None:
        for process in (*self.servers, *self.workers):
            process.close()


@contextmanager
def start_fleet(
    folder: Path, database: str, *, seen_as: str = "", model: ModelServer | None = None, **settings: Any
) -> Iterator[Fleet]:
    """Starts a fleet on this database, which its processes may reach at another address."""
    fleet_settings: dict[str, Any] = {
        "data": folder / "data",
        "database_url": seen_as or database,
        "secret_key": base64.b64encode(secrets.token_bytes(32)).decode(),
        "base_url": "http://copydesk.example.org",
        "lease_seconds": LEASE_SECONDS,
        "jobs_per_hour": 100_000,
        "max_attempts": 100,
        **settings,
    }
    if model is not None:
        fleet_settings |= {"models": (SCRIPTED_MODEL,), "model_url": model.url}
    fleet = Fleet(folder, open_desk(Settings(**{**fleet_settings, "database_url": database})), fleet_settings)
    try:
        yield fleet
    finally:
        fleet.close()
        fleet.desk.close()


def serve_slow_model(seconds: float) -> ModelServer:
    """Serves a model that takes this long for each of the two replies of a job."""
    replies = [
        call_several(*(call(tool_call.name, dict(tool_call.arguments)) for tool_call in reply.calls))
        for reply in SCRIPT[:2]
    ]
    return ModelServer([hang(seconds, then=reply) for reply in replies], by_turn=True)
