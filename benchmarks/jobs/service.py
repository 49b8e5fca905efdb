"""Runs `copydesk serve` in a separate process, with a project and its key created beforehand."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from sqlalchemy import text

from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk

ROOT = Path(__file__).parents[2]
UNLIMITED = 1_000_000_000
WORKER_SLOTS = 4
"""Concurrent jobs of the worker and of one project (the default)."""


@dataclass(frozen=True)
class RunningService:
    port: int
    process: psutil.Process
    started_in: float
    """Seconds from exec to the first 200 of /healthz."""


@dataclass(frozen=True)
class BenchmarkAccount:
    """A project on a data folder: creates jobs over HTTP, and watches their end in the database without the server."""

    desk: Desk
    project_id: str
    key: str

    def create(self, port: int, prompt: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"prompt": prompt})
        connection.request("POST", self.path, body, headers=self.headers)
        answer = connection.getresponse()
        data = json.load(answer)
        connection.close()
        if answer.status != 201:
            raise RuntimeError(f"creating a job answered {answer.status}: {data}")
        return str(data["id"])

    def wait_for(self, job_ids: list[str]) -> list[float]:
        """Returns the seconds from each job's creation to its end, by the service's clock.

        Every job must end with a PR.
        """
        while self._has_active_jobs():
            time.sleep(0.01)
        jobs = [self.desk.jobs.get(self.project_id, job_id) for job_id in job_ids]
        for job in jobs:
            if job.pr_link is None:
                raise RuntimeError(f"{job.prompt!r} ended as {job.status} without a pull request: {job.message}")
        return [((job.finished_at or 0) - job.created_at) / 1000 for job in jobs]

    def _has_active_jobs(self) -> bool:
        with self.desk.database.read() as tx:
            return tx.execute(text("select 1 from jobs where status = 'active' limit 1")).first() is not None

    @property
    def path(self) -> str:
        return f"/v2/agent/{self.project_id}/job"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}


@contextmanager
def open_account(data: Path, repository: Path) -> Iterator[BenchmarkAccount]:
    desk = open_desk(Settings(data=data, database_url=""))
    project = desk.projects.create("Docs", repository=str(repository), ref="main", actor="benchmark")
    key = desk.keys.create(project.id, actor="benchmark")[1]
    try:
        yield BenchmarkAccount(desk, project.id, key)
    finally:
        desk.close()


@contextmanager
def serve(data: Path, *, with_worker: bool = True) -> Iterator[RunningService]:
    port = _free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COPYDESK_")}
    settings = {"COPYDESK_DATA": str(data), "COPYDESK_JOBS_PER_HOUR": str(UNLIMITED), "COPYDESK_LOG_LEVEL": "warning"}
    command = [sys.executable, "-m", "copydesk", "serve", "--port", str(port)]
    if not with_worker:
        command.append("--no-worker")
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env={**inherited, **settings}, stderr=subprocess.DEVNULL)
    try:
        while not is_healthy(port):
            if process.poll() is not None:
                raise RuntimeError(f"copydesk serve ended with {process.returncode} before it answered")
            time.sleep(0.005)
        yield RunningService(port, psutil.Process(process.pid), time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait(timeout=30)


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
