"""A desk, and forges for its projects."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from copydesk.core.settings import Settings
from copydesk.desk import Desk, open_desk
from tests.jobs.publish.forges.extra_calls import DISTINCT_FORGES, FAKE_FORGES
from tests.jobs.publish.forges.stage import fake_forge
from tests.support.drills import mark_drills


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    desk = open_desk(Settings(data=tmp_path_factory.mktemp("desk"), jobs_per_hour=100_000, lease_seconds=6))
    yield desk
    desk.close()


@pytest.fixture(params=mark_drills(FAKE_FORGES, default=DISTINCT_FORGES))
def fake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with fake_forge(request.param, tmp_path) as fake:
        yield fake


@pytest.fixture
def github(tmp_path: Path) -> Iterator[Any]:
    """For tests that do not depend on the forge."""
    with fake_forge("github", tmp_path) as fake:
        yield fake
