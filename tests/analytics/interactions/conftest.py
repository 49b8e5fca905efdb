"""A desk and a project on each database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk


@pytest.fixture
def desk(migrated_url: str, tmp_path: Path) -> Iterator[Desk]:
    desk = open_desk(Settings(data=tmp_path / "data", database_url=migrated_url))
    yield desk
    desk.close()


@pytest.fixture
def project(desk: Desk) -> str:
    return desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="ada").id
