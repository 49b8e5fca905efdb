"""A running Copydesk: real HTTP on a free port, a worker, a project and its key."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import httpx2 as httpx

from copydesk.analytics.stores.fold_scheduler import FoldScheduler, FoldTiming
from copydesk.client import Client
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.workflow.executor import ModelFactory
from copydesk.web.server import Server
from tests.support import clickhouse, migrated

STORES = os.environ.get("COPYDESK_TEST_STORES", "embedded")
PATIENT = FoldTiming(reader_timeout_seconds=60, quick_fold_seconds=60)
"""Reports wait until every view is counted, however long a busy machine takes for it."""


@dataclass(frozen=True)
class Service:
    url: str
    desk: Desk
    project: Project
    key: str
    repository: Path

    @cached_property
    def client(self) -> Client:
        return Client(self.url, self.key, self.project.id)

    @cached_property
    def http(self) -> httpx.Client:
        """Bare HTTP with the project's key."""
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=30)

    def new_key(self, **options: Any) -> str:
        return self.desk.keys.create(self.project.id, actor="test", **options)[1]

    def another_project(self, name: str = "Another") -> "Service":
        """A second project on the same service, with a key of its own."""
        project = self.desk.projects.create(name, repository=str(self.repository), ref="main", actor="test")
        key = self.desk.keys.create(project.id, actor="test")[1]
        return Service(self.url, self.desk, project, key, self.repository)

    def at(self, path: str) -> str:
        return f"/v2/agent/{self.project.id}{path}"


@cache
def stores_of(data: Path) -> dict[str, Any]:
    """Those of a service with this folder: embedded, or PostgreSQL and ClickHouse, as this run is to be."""
    if STORES == "embedded":
        return {}
    assert STORES == "scale-out", STORES
    return {"database_url": migrated.new_database("postgres", data), "analytics_url": clickhouse.new_database()}


@contextmanager
def serve(
    data: Path,
    *,
    repository: Path,
    database_url: str = "",
    model: ModelFactory | None = None,
    with_worker: bool = True,
    **settings: Any,
) -> Iterator[Service]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    chosen = {"base_url": url, "jobs_per_hour": 100_000, "keys_per_hour": 1000, "lease_seconds": 6, **settings}
    stores: dict[str, Any] = {"database_url": database_url} if database_url else stores_of(data)
    if not stores and not (data / migrated.FILE).exists():
        migrated.new_sqlite(data)
    desk = open_desk(Settings(data=data, **stores, **chosen))
    desk.fold_scheduler = _new_keeper(desk)
    server = Server(desk, with_worker=with_worker)
    if with_worker and model is not None:
        server.worker = desk.create_worker(model)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="test")
    key = desk.keys.create(project.id, name="test", actor="test")[1]
    try:
        yield Service(url, desk, project, key, repository)
    finally:
        server.stop()
        thread.join(timeout=60)
        desk.close()


def _new_keeper(desk: Desk) -> FoldScheduler:
    """Returns a keeper for this desk that has time."""
    return FoldScheduler(
        desk.store,
        lambda: {project.id: project.collecting.raw_retention_days for project in desk.projects.all()},
        PATIENT,
        desk.delete_old_feedback,
    )
