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
from copydesk.core.projects.projects import Project
from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from copydesk.jobs.workflow.executor import ModelFactory
from copydesk.web.server import Server
from copydesk_client import Client
from tests.support import clickhouse, migrated_databases

STORE_KIND = os.environ.get("COPYDESK_TEST_STORES", "embedded")
PATIENT_FOLD_TIMING = FoldTiming(reader_timeout_seconds=60, quick_fold_seconds=60)
"""Reports wait until every view is counted, also on a busy machine."""


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
        """Returns an HTTP client with the project's key."""
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=30)

    def new_key(self, **options: Any) -> str:
        return self.desk.keys.create(self.project.id, actor="test", **options)[1]

    def another_project(self, name: str = "Another") -> "Service":
        """Creates a second project on the same service, with its own key."""
        project = self.desk.projects.create(name, repository=str(self.repository), ref="main", actor="test")
        key = self.desk.keys.create(project.id, actor="test")[1]
        return Service(self.url, self.desk, project, key, self.repository)

    def at(self, path: str) -> str:
        return f"/v2/agent/{self.project.id}{path}"


@cache
def store_settings(data: Path) -> dict[str, Any]:
    """Returns the store settings of a service with this folder: embedded, or PostgreSQL and ClickHouse."""
    if STORE_KIND == "embedded":
        return {}
    assert STORE_KIND == "scale-out", STORE_KIND
    return {
        "database_url": migrated_databases.new_database("postgres", data),
        "analytics_url": clickhouse.new_database(),
    }


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
    service_settings = {
        "base_url": url,
        "jobs_per_hour": 100_000,
        "keys_per_hour": 1000,
        "lease_seconds": 6,
        **settings,
    }
    stores: dict[str, Any] = {"database_url": database_url} if database_url else store_settings(data)
    if not stores and not (data / migrated_databases.SQLITE_FILE_NAME).exists():
        migrated_databases.new_sqlite(data)
    desk = open_desk(Settings(data=data, **stores, **service_settings))
    desk.fold_scheduler = _new_fold_scheduler(desk)
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


def _new_fold_scheduler(desk: Desk) -> FoldScheduler:
    """Returns a scheduler for this desk with long timeouts."""
    return FoldScheduler(
        desk.store,
        lambda: {project.id: project.collecting.raw_retention_days for project in desk.projects.all()},
        PATIENT_FOLD_TIMING,
        desk.delete_expired_interactions,
    )
