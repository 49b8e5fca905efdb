"""The data folder of a service that a team used for some days: filled once in a process, and copied for each test."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from copydesk.transfer.migrate.database import move_database
from copydesk.transfer.progress import SilentProgress
from tests.support.filled_service import FILES, fill_service
from tests.support.migrated_databases import SQLITE_FILE_NAME
from tests.support.repositories import make_repository
from tests.support.service import Service, serve

KEY = "QSBrZXkgZm9yIHRlc3RzIGFsb25lLCAzMiBieXRlcyE="
TOKEN = "a-token-that-opens-nothing"
ANALYTICS_FILE_NAME = "analytics.duckdb"


@dataclass(frozen=True)
class FilledData:
    database: bytes
    analytics: bytes
    answers: dict[str, Any]
    """The answers of the API from this data."""


def copy_data(data: Path) -> dict[str, Any]:
    """Writes the database and the views into a data folder. Returns the API's answers from them."""
    copy_database(data)
    return copy_analytics(data)


def copy_database(data: Path) -> str:
    """Writes the SQLite database into a data folder. Returns its URL."""
    data.mkdir(parents=True, exist_ok=True)
    (data / SQLITE_FILE_NAME).write_bytes(_fill_data().database)
    return f"sqlite:///{data / SQLITE_FILE_NAME}"


def copy_analytics(data: Path) -> dict[str, Any]:
    """Writes the views into a data folder. Returns the API's answers from the whole data."""
    data.mkdir(parents=True, exist_ok=True)
    (data / ANALYTICS_FILE_NAME).write_bytes(_fill_data().analytics)
    return _fill_data().answers


@contextmanager
def serve_copy(data: Path, database_url: str) -> Iterator[Service]:
    """Serves a copy of the data without a worker, with the project and key that it has. PostgreSQL must be empty."""
    answers = copy_data(data)
    if not database_url.startswith("sqlite"):
        move_database(f"sqlite:///{data / SQLITE_FILE_NAME}", database_url, SilentProgress())
        (data / SQLITE_FILE_NAME).unlink()
    with serve(data, repository=data, database_url=database_url, secret_key=KEY, with_worker=False) as service:
        project = service.desk.projects.get(answers["project"])
        yield Service(service.url, service.desk, project, answers["key"], data)


def read_api_answers(service: Service) -> dict[str, Any]:
    """Returns the service's answers over its API."""
    client = service.client
    jobs = client.list_jobs()["jobs"]
    return {
        "project": service.project.id,
        "key": service.key,
        "people": sorted(person.email for person in service.desk.people.all()),
        "jobs": {job["id"]: [job["status"], job.get("prLink") is not None] for job in jobs},
        "diffs": {job["id"]: client.diff(job["id"]).decode() for job in jobs},
        "visitors": client.visitors(),
        "views": client.views()["totals"],
        "feedback": sorted(row["path"] for row in client.rows("feedback")),
    }


@cache
def _fill_data() -> FilledData:
    with tempfile.TemporaryDirectory() as folder:
        data, repository = Path(folder, "data"), make_repository(Path(folder, "docs.git"), FILES)
        url = f"sqlite:///{data / SQLITE_FILE_NAME}"
        with serve(data, repository=repository, database_url=url, secret_key=KEY) as service:
            fill_service(service, days=4)
            service.desk.secrets.set(service.project.id, "forge_token", TOKEN, actor="ada")
            answers = read_api_answers(service)
        database, analytics = ((data / name).read_bytes() for name in (SQLITE_FILE_NAME, ANALYTICS_FILE_NAME))
        return FilledData(database, analytics, answers)
