"""Real parts for every test: databases, repositories, a served Copydesk, and models that follow a script."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.postgres import new_database
from tests.support.repositories import Files, make_repository
from tests.support.service import Service, serve

DATABASES = ("sqlite", "postgres")


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, on each engine in turn."""
    return f"sqlite:///{tmp_path / 'copydesk.db'}" if request.param == "sqlite" else new_database()


@pytest.fixture
def repository(tmp_path: Path) -> Callable[[Files], Path]:
    """A bare repository with these files on main."""

    def make(files: Files) -> Path:
        return make_repository(tmp_path / f"{uuid.uuid4().hex}.git", files)

    return make


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Copydesk on SQLite with a worker, over real HTTP, with one project and its key."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    with serve(tmp_path / "data", repository=repository) as running:
        yield running


@pytest.fixture(params=DATABASES)
def any_service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """The same, on each database in turn."""
    repository = make_repository(tmp_path / "docs.git", {"docs/index.md": b"# Hello\n\nThe colour of things.\n"})
    url = "" if request.param == "sqlite" else new_database()
    with serve(tmp_path / "data", repository=repository, database_url=url) as running:
        yield running
