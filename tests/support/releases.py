"""Stores that an earlier release wrote, and its API answers from them."""

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.fixtures.freeze import KEY
from tests.support.service import Service, serve

FIXTURES = Path(__file__).parent.parent / "fixtures"
RELEASES = sorted(folder.name for folder in FIXTURES.iterdir() if (folder / "sqlite.sql").exists())


def thaw_database(release: str, url: str) -> None:
    """Fills an empty database with the stored dump."""
    engine = "sqlite" if url.startswith("sqlite") else "postgres"
    script = (FIXTURES / release / f"{engine}.sql").read_text("utf-8")
    if engine == "postgres":
        with psycopg.connect(url) as connection:
            connection.execute(script.encode())
        return
    path = Path(url.removeprefix("sqlite:///"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as file:
        file.executescript(script)
    file.close()


def thaw_analytics(release: str, engine: str, data: Path) -> Path:
    data.mkdir(parents=True, exist_ok=True)
    path = data / "analytics.duckdb"
    path.write_bytes(gzip.decompress((FIXTURES / release / f"{engine}.duckdb.gz").read_bytes()))
    return path


def read_frozen_answers(release: str, engine: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((FIXTURES / release / f"{engine}.json").read_bytes())
    return facts


@contextmanager
def serve_release(release: str, url: str, data: Path, repository: Path) -> Iterator[Service]:
    """Serves the stores with the current release, with the old project and key."""
    engine = "sqlite" if url.startswith("sqlite") else "postgres"
    facts = read_frozen_answers(release, engine)
    thaw_database(release, url)
    thaw_analytics(release, engine, data)
    with serve(data, repository=repository, database_url=url, secret_key=KEY, with_worker=False) as service:
        project = service.desk.projects.get(facts["project"])
        yield Service(service.url, service.desk, project, facts["key"], repository)
