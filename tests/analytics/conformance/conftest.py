"""Every store in turn."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from copydesk.analytics.duckdb import DuckStore
from copydesk.analytics.store import Store

OPENERS: dict[str, Callable[[Path], Store]] = {"duckdb": lambda folder: DuckStore(folder / "analytics.duckdb")}


@pytest.fixture(params=OPENERS)
def open_store(request: pytest.FixtureRequest) -> Callable[[Path], Store]:
    """Opens what the folder holds, or a new store there."""
    return OPENERS[request.param]


@pytest.fixture
def store(open_store: Callable[[Path], Store], tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()
