"""Fixtures that open every store in turn."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from copydesk.analytics.stores.base import Store
from copydesk.analytics.stores.duckdb import DuckStore
from tests.support.clickhouse_store import FILE, OnClickHouse

COPY = "analytics.duckdb"
"""The backup's name in a test, for all stores."""
OPENERS: dict[str, Callable[[Path], Store]] = {
    "duckdb": lambda folder: DuckStore(folder / COPY),
    "clickhouse": lambda folder: OnClickHouse(folder, folder / COPY),
    "clickhouse and postgresql": lambda folder: OnClickHouse(folder, folder / COPY, "postgresql"),
}
ON_CLICKHOUSE = (
    "test_total_counts", "test_an_event_is_logged_once", "test_rows_are_ordered_by_total", "test_changed_ai_classes",
    "test_backup_of", "test_reports_stay_exact",
)  # fmt: skip
"""The tests that run on ClickHouse by default; the others are drills there, because its engine is slow."""


@pytest.fixture(params=OPENERS)
def open_store(request: pytest.FixtureRequest) -> Callable[[Path], Store]:
    """Opens the store of the folder, or a new store there."""
    return OPENERS[request.param]


@pytest.fixture
def is_slow(request: pytest.FixtureRequest) -> bool:
    """Returns whether the store runs on a server."""
    return bool(request.node.callspec.params["open_store"] != "duckdb")


@pytest.fixture
def store(open_store: Callable[[Path], Store], tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()
    (tmp_path / FILE).unlink(missing_ok=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_quick = item.name.startswith(ON_CLICKHOUSE) and "postgresql" not in item.name
        if "[clickhouse" in item.name and not is_quick:
            item.add_marker(pytest.mark.drill)
